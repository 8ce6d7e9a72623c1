"""What a job page says about attention: what can be chosen, and the figures of every head."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from adaptlab.results import AttentionSummary
from adaptlab_services.attention import MapView

Option = tuple[int, str]
# More heads than this are in the map's summaries (`GET /v1/jobs/{id}/attention`), not on the page.
MOST_ROWS = 600
LONGEST_SAMPLE = 60


@dataclass(frozen=True, slots=True)
class HeadRow:
    """One head of one layer and seed; `base_entropy` is its entropy before adaptation."""

    seed: int
    layer: int
    head: int
    base_entropy: float | None
    entropy: float
    learned_mass: float
    divergence: float
    relative_deviation: float


@dataclass(frozen=True, slots=True)
class AttentionView:
    """The choices above the heat maps and the table below them.

    `deviation` is the largest relative deviation in the first layer, None without an adapted shown.
    """

    replicates: tuple[Option, ...]
    samples: tuple[Option, ...]
    layers: tuple[Option, ...]
    heads: tuple[Option, ...]
    learned_positions: int
    adapted: bool
    deviation: float | None
    rows: tuple[HeadRow, ...]
    left_out: int


def attention_view(maps: Sequence[MapView]) -> AttentionView | None:
    """The view of all maps of a job; None when there is none."""
    if not maps:
        return None
    first = maps[0]
    _, layers, heads, *_ = first.shape
    rows = sorted(_rows(maps), key=lambda row: (row.layer, row.head, row.seed))
    adapted = [one for one in maps if one.source == "adapted"]
    return AttentionView(
        replicates=_distinct((one.replicate, str(one.seed)) for one in maps),
        samples=tuple((n, _sample(n, first)) for n in range(len(first.tokens))),
        layers=tuple((n, str(n)) for n in range(layers)),
        heads=tuple((n, str(n)) for n in range(heads)),
        learned_positions=max(one.learned_positions for one in maps),
        adapted=bool(adapted),
        deviation=_first_layer_deviation(adapted),
        rows=tuple(rows[:MOST_ROWS]),
        left_out=max(0, len(rows) - MOST_ROWS),
    )


def question(one: MapView, sample: int) -> tuple[int, ...]:
    """The tokens of a sample that were given; those after them are the model's answer."""
    return one.tokens[sample][: one.target_start + 1]


def _sample(number: int, one: MapView) -> str:
    text = " ".join(str(token) for token in question(one, number))
    short = text if len(text) <= LONGEST_SAMPLE else f"{text[: LONGEST_SAMPLE - 1]}…"
    return f"{number}: {short}"


def _distinct(options: Iterable[Option]) -> tuple[Option, ...]:
    return tuple(sorted(dict(options).items()))


def _rows(maps: Sequence[MapView]) -> list[HeadRow]:
    """One row a head, from the adapted map where there is one, else from the base's."""
    by_source = {(one.replicate, one.source): one for one in maps}
    rows: list[HeadRow] = []
    for replicate in sorted({one.replicate for one in maps}):
        base = by_source.get((replicate, "base"))
        shown = by_source.get((replicate, "adapted")) or base
        assert shown is not None
        before = {(s.layer, s.head): s.entropy for s in base.summaries} if base else {}
        rows += [_row(shown.seed, one, before) for one in shown.summaries]
    return rows


def _row(seed: int, one: AttentionSummary, before: dict[tuple[int, int], float]) -> HeadRow:
    return HeadRow(
        seed=seed,
        layer=one.layer,
        head=one.head,
        base_entropy=before.get((one.layer, one.head)),
        entropy=one.entropy,
        learned_mass=one.learned_mass,
        divergence=one.divergence,
        relative_deviation=one.relative_deviation,
    )


def _first_layer_deviation(adapted: Sequence[MapView]) -> float | None:
    found = chain.from_iterable(one.summaries for one in adapted)
    return max((one.relative_deviation for one in found if one.layer == 0), default=None)
