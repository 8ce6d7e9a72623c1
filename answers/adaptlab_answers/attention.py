"""Attention maps and their summaries by layer and head."""

from adaptlab.measurements.results import AttentionSummary as Summary
from adaptlab.values import Value
from adaptlab_answers.drawable_maps import has_samples, is_drawable


class MapLinks(Value):
    """Links of an attention map."""

    content: str


class MapView(Value):
    """The attention patterns of one replicate.

    The array, at `links.content`, has shape `shape` and the axes `axes`. The first
    `learned_positions` keys are learned positions, the others content. `tokens` are the tokens at
    the content positions of each sample, `predictions` the model's answers.
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
    sha256: str
    size: int
    summaries: tuple[Summary, ...]
    links: MapLinks

    @property
    def is_drawable(self) -> bool:
        """True if the map can be drawn: shape, file size and samples agree."""
        layout = self.shape, self.size, self.learned_positions, self.target_start
        return is_drawable(*layout) and has_samples(self.shape, self.learned_positions, self.tokens)


class Maps(Value):
    """The attention maps of one attempt."""

    data: tuple[MapView, ...]
    attempt: int
