"""What can be chosen of a job's attention: seeds, samples, layers, heads, steps of the output."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from adaptlab.wording import shortened
from adaptlab_answers.attention import MapView
from adaptlab_services.results.attention_heads import MapOutline

Option = tuple[int, str]
LONGEST_SAMPLE = 60


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the maps of a job somebody looks; `step` counts the tokens of the output."""

    replicate: int = 0
    sample: int = 0
    layer: int = 0
    head: int = 0
    step: int = 0

    def within(self, maps: Sequence[MapOutline]) -> "Place":
        """The nearest place that these maps have; there must be one."""
        known = {one.replicate for one in maps}
        first = maps[0]
        samples, layers, heads, rows, _ = first.shape
        return replace(
            self,
            replicate=self.replicate if self.replicate in known else min(known),
            sample=min(self.sample, samples - 1),
            layer=min(self.layer, layers - 1),
            head=min(self.head, heads - 1),
            step=min(self.step, max(rows - first.target_start, 1) - 1),
        )


@dataclass(frozen=True, slots=True)
class AttentionView:
    """The choices above the heat maps; `learned_positions` of the adapted maps, if any."""

    replicates: tuple[Option, ...]
    samples: tuple[Option, ...]
    layers: tuple[Option, ...]
    heads: tuple[Option, ...]
    steps: int
    learned_positions: int
    adapted: bool


def attention_view(maps: Sequence[MapOutline], one: MapView) -> AttentionView:
    """The choices that the maps of a job leave; `one` of them has the samples."""
    _, layers, heads, rows, _ = maps[0].shape
    return AttentionView(
        replicates=_distinct((found.replicate, str(found.seed)) for found in maps),
        samples=tuple((n, _sample(n, one)) for n in range(len(one.tokens))),
        layers=tuple((n, str(n)) for n in range(layers)),
        heads=tuple((n, str(n)) for n in range(heads)),
        steps=max(rows - one.target_start, 1),
        learned_positions=max(found.learned_positions for found in maps),
        adapted=any(found.source == "adapted" for found in maps),
    )


def question(one: MapView, sample: int) -> tuple[int, ...]:
    """The tokens of a sample that were given; those after them are the model's answer."""
    return one.tokens[sample][: one.target_start + 1]


def _sample(number: int, one: MapView) -> str:
    text = " ".join(str(token) for token in question(one, number))
    return f"{number}: {shortened(text, LONGEST_SAMPLE)}"


def _distinct(options: Iterable[Option]) -> tuple[Option, ...]:
    return tuple(sorted(dict(options).items()))
