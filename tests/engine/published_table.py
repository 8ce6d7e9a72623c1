"""The table of docs/reference/published-models.md.

Run it with `python -m tests.engine.published_table`.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.engine.library_models import MODELS as LIBRARY_MODELS
from tests.engine.published import MODELS, Pair, pair

from adaptlab.engine.measuring.layer_recorder import LayerRecorder

HEAD = """\
| Architecture | Family | Linear sites of a block | Logits, float32 | Patterns, float32 | Logits, float64 |
| --- | --- | --- | ---: | ---: | ---: |
"""  # noqa: E501
EVERY_MODEL = {**MODELS, **LIBRARY_MODELS}


@dataclass(frozen=True)
class Row:
    """An architecture with its sites and its largest differences.

    The differences are those from the library.
    """

    architecture: str
    family: str
    sites: str
    logits: float = 0.0
    patterns: float = 0.0
    double_logits: float = 0.0

    def __str__(self) -> str:
        measured = (self.logits, self.patterns, self.double_logits)
        numbers = " | ".join(f"{number:.0e}" if number else "0" for number in measured)
        return f"| `{self.architecture}` | `{self.family}` | {self.sites} | {numbers} |"


def sites_of(both: Pair) -> str:
    """Return the names of the linear sites of the first block."""
    block = (s for s in both.ours.family.shape().linear_sites if s.layer == 0)
    return ", ".join(site.name.rpartition(".")[2] for site in block)


def _differences(both: Pair) -> tuple[float, float]:
    recorder = LayerRecorder()
    logits = both.logits(recorder=recorder)
    expected = both.expected(output_attentions=True)
    layers = zip(recorder.patterns, expected.attentions, strict=True)
    patterns = max(float((ours[0] - theirs).abs().max()) for ours, theirs in layers)
    return float((logits - expected.logits).abs().max()), patterns


def rows() -> Iterator[Row]:
    """Measure the largest difference over the models of every architecture."""
    found: dict[str, Row] = {}
    for make in EVERY_MODEL.values():
        with tempfile.TemporaryDirectory() as folder:
            both = pair(make, Path(folder) / "single", double=False)
            logits, patterns = _differences(both)
            double, _ = _differences(pair(make, Path(folder) / "double", double=True))
        name = type(both.theirs).__name__
        old = found.get(name, Row(name, both.ours.family.name, sites_of(both)))
        found[name] = Row(
            name,
            old.family,
            old.sites,
            max(logits, old.logits),
            max(patterns, old.patterns),
            max(double, old.double_logits),
        )
    return iter(sorted(found.values(), key=lambda row: (row.family, row.architecture)))


if __name__ == "__main__":
    print(HEAD + "\n".join(map(str, rows())))
