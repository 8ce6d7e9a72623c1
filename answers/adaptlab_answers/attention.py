"""Attention maps, and their summaries by layer and head."""

from adaptlab.measurements.results import AttentionSummary as Summary
from adaptlab.values import Value
from adaptlab_answers.drawable_maps import has_samples, is_drawable


class MapLinks(Value):
    """Where to go from an attention map."""

    content: str


class MapView(Value):
    """The attention patterns of one replicate; the array itself is at `links.content`.

    The array has `shape` with the named `axes`; the first `learned_positions` keys are learned,
    the rest are content. `tokens` holds what stood at each content position of each sample,
    `predictions` what the model answered.
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
        """Whether the map can be shown: its file can hold its shape, and its samples fit it."""
        where = self.shape, self.size, self.learned_positions, self.target_start
        return is_drawable(*where) and has_samples(self.shape, self.learned_positions, self.tokens)


class Maps(Value):
    """The attention maps of one attempt."""

    data: tuple[MapView, ...]
    attempt: int
