"""Attention maps and their summaries by layer and head."""

from adaptlab.runs.events import AttentionSummary as Summary
from adaptlab.runs.events import SampleText
from adaptlab.values import Value
from adaptlab_answers.drawable_maps import has_samples, is_drawable
from adaptlab_answers.links import Link


class MapLinks(Value):
    """Links of an attention map."""

    content: Link


class MapView(Value):
    """The attention patterns of one replicate.

    The array, at `links.content`, has shape `shape` and the axes `axes`. The first
    `learned_positions` keys are learned positions, the others content. `tokens` are the tokens at
    the content positions of each sample, `predictions` the model's answers.

    Texts differ in length: rows and columns after the tokens of a sample are zero. `texts` has the
    words of each; a prediction is then the place of the chosen answer, if the task has a list.
    """

    id: int
    replicate: int
    seed: int
    source: str
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    learned_positions: int
    target_start: int
    tokens: tuple[tuple[int, ...], ...]
    predictions: tuple[tuple[int, ...], ...]
    texts: tuple[SampleText, ...] = ()
    sha256: str
    size: int
    summaries: tuple[Summary, ...]
    links: MapLinks

    @property
    def is_drawable(self) -> bool:
        """True if the map can be drawn: shape, file size and samples agree."""
        layout = self.shape, self.size, self.learned_positions, self.target_start
        return is_drawable(*layout) and has_samples(self.shape, self.learned_positions, self.tokens)

    def words(self, sample: int) -> tuple[str, ...]:
        """Return the tokens of a sample as text."""
        if sample < len(self.texts):
            return self.texts[sample].words
        return tuple(map(str, self.tokens[sample]))

    def first_answer(self, sample: int) -> int:
        """Return the first query row of a sample that produces an answer token."""
        if sample < len(self.texts):
            return self.texts[sample].target_start
        return self.target_start

    def given(self, sample: int) -> tuple[str, ...]:
        """Return the model's answer to a sample, token by token, as text."""
        if sample < len(self.texts):
            return self.texts[sample].predicted
        return tuple(map(str, self.predictions[sample])) if sample < len(self.predictions) else ()


class Maps(Value):
    """The attention maps of one attempt."""

    data: tuple[MapView, ...]
    attempt: int
