"""Attention maps with arrays, data frames and pictures."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from pydantic import PrivateAttr

from adaptlab_answers.attention import MapView
from adaptlab_answers.drawable_maps import without_padding
from adaptlab_client.display.frames import frame
from adaptlab_client.display.pictures import Picture
from adaptlab_client.errors import SeveralMaps, UnexpectedAnswer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAP_COLUMNS = ("source", "replicate", "seed")
HEAD_COLUMNS = ("layer", "head", "entropy", "learned_mass", "divergence", "relative_deviation")
Fetch = Callable[[MapView], "NDArray[np.float16]"]


class AttentionMap(MapView):
    """Recorded attention; its array is fetched on demand."""

    _fetch: Fetch | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, answer: MapView, fetch: Fetch) -> Self:
        """Return the server's answer with the function that fetches its array."""
        attention_map = cls.model_construct(answer.model_fields_set, **dict(answer))
        object.__setattr__(attention_map, "__pydantic_extra__", answer.model_extra)
        attention_map._fetch = fetch
        return attention_map

    def numpy(self) -> "NDArray[np.float16]":
        """Fetch the patterns, shape [sample, layer, head, query, key].

        Raises `DigestMismatch`.
        """
        if self._fetch is None:
            raise UnexpectedAnswer(
                "This map does not come from a client, so its array cannot be fetched."
            )
        return self._fetch(self)

    def plot(self, *, sample: int = 0, layer: int = 0, head: int = 0) -> Picture:
        """Return the pattern of one head; raises `IndexError` if not recorded."""
        return attention_picture([self], (sample, layer, head))


class AttentionMaps(tuple[AttentionMap, ...]):
    """The requested attention maps of a job."""

    __slots__ = ()

    def numpy(self) -> "NDArray[np.float16]":
        """Fetch the patterns of the only map.

        Their shape is [sample, layer, head, query, key]. Raises `SeveralMaps` unless there is
        exactly one; select it with `source` and `replicate`.
        """
        if len(self) != 1:
            raise SeveralMaps([(entry.source, entry.replicate) for entry in self])
        return self[0].numpy()

    def rows(self) -> Iterator[dict[str, str | int | float | None]]:
        """Yield one row of summary figures per map, layer and head."""
        for attention_map in self:
            origin = {column: getattr(attention_map, column) for column in MAP_COLUMNS}
            for summary in attention_map.summaries:
                yield origin | summary.model_dump(include={*HEAD_COLUMNS})

    def to_pandas(self) -> Any:  # a pandas.DataFrame; pandas is optional
        """Return the rows as a data frame; raises `ImportError` without pandas."""
        return frame(self.rows(), (*MAP_COLUMNS, *HEAD_COLUMNS))

    def plot(self, *, sample: int = 0, layer: int = 0, head: int = 0) -> Picture:
        """Return one head of all maps side by side, the base model first.

        Raises `ValueError` without maps, and `IndexError` if the head was not recorded.
        """
        ordered = sorted(self, key=lambda entry: (entry.replicate, entry.source != "base"))
        return attention_picture(ordered, (sample, layer, head))


def attention_picture(maps: Sequence[AttentionMap], place: tuple[int, int, int]) -> Picture:
    """Return heat maps of one (sample, layer, head), one per map."""
    from adaptlab.charts import AttentionPattern, attention_patterns

    sample, layer, head = place
    return Picture(
        attention_patterns(
            [
                AttentionPattern(
                    title=f"{entry.source}, seed {entry.seed}",
                    weights=tuple(
                        map(tuple, without_padding(entry.numpy()[place]).astype(float).tolist())
                    ),
                    tokens=entry.words(sample),
                    learned_positions=entry.learned_positions,
                    target_start=entry.first_answer(sample),
                )
                for entry in maps
            ],
            title=f"layer {layer}, head {head}, sample {sample}",
        )
    )
