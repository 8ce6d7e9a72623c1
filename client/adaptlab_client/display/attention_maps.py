"""Attention maps of the server with what a client makes of them: arrays, data frames, pictures."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from pydantic import PrivateAttr

from adaptlab_answers.attention import MapView
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
    """Recorded attention, without its array; the axes are sample, layer, head, query, key."""

    _fetch: Fetch | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, answer: MapView, fetch: Fetch) -> Self:
        """The answer of the server with the way to its array."""
        made = cls.model_construct(answer.model_fields_set, **dict(answer))
        object.__setattr__(made, "__pydantic_extra__", answer.model_extra)
        made._fetch = fetch
        return made

    def numpy(self) -> "NDArray[np.float16]":
        """The patterns [sample, layer, head, query, key], fetched now; raises `DigestMismatch`."""
        if self._fetch is None:
            raise UnexpectedAnswer("This map was not made by a client, so nobody has its array.")
        return self._fetch(self)

    def plot(self, *, sample: int = 0, layer: int = 0, head: int = 0) -> Picture:
        """The pattern of one head on one sample; raises `IndexError` for one not recorded."""
        return attention_picture([self], (sample, layer, head))


class AttentionMaps(tuple[AttentionMap, ...]):
    """The maps of a job that were asked for."""

    __slots__ = ()

    def numpy(self) -> "NDArray[np.float16]":
        """The patterns [sample, layer, head, query, key] of the only map.

        Raises `SeveralMaps` unless there is exactly one: ask for a `source` and a `replicate`.
        """
        if len(self) != 1:
            raise SeveralMaps([(one.source, one.replicate) for one in self])
        return self[0].numpy()

    def rows(self) -> Iterator[dict[str, str | int | float | None]]:
        """One row a map, layer and head: what the head does, in numbers."""
        for one in self:
            place = {"source": one.source, "replicate": one.replicate, "seed": one.seed}
            for summary in one.summaries:
                yield place | summary.model_dump(include={*HEAD_COLUMNS})

    def to_pandas(self) -> Any:  # a pandas.DataFrame; pandas need not be installed
        """The rows as a data frame; raises `ImportError` without pandas."""
        return frame(self.rows(), (*MAP_COLUMNS, *HEAD_COLUMNS))

    def plot(self, *, sample: int = 0, layer: int = 0, head: int = 0) -> Picture:
        """One head of all maps side by side, the base model first.

        Raises `ValueError` for no map and `IndexError` for a place that was not recorded.
        """
        ordered = sorted(self, key=lambda one: (one.replicate, one.source != "base"))
        return attention_picture(ordered, (sample, layer, head))


def attention_picture(maps: Sequence[AttentionMap], place: tuple[int, int, int]) -> Picture:
    """Heat maps of one (sample, layer, head)."""
    from adaptlab.charts import AttentionPattern, attention_patterns

    sample, layer, head = place
    return Picture(
        attention_patterns(
            [
                AttentionPattern(
                    title=f"{one.source}, seed {one.seed}",
                    weights=tuple(map(tuple, one.numpy()[place].astype(float).tolist())),
                    tokens=tuple(str(token) for token in one.tokens[sample]),
                    learned_positions=one.learned_positions,
                    target_start=one.target_start,
                )
                for one in maps
            ],
            title=f"layer {layer}, head {head}, sample {sample}",
        )
    )
