"""Theory checks of adaptations as runs: files in, reports out.

The reports have numbers known from algebra.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy import stats
from tests.engine.making import SMALL, SMALL_OF_EACH, Remembering
from tests.engine.running import local, run
from torch import Tensor

from adaptlab.engine.models.attachments import Attachments
from adaptlab.errors import BadCheckpoint, InvalidSpec
from adaptlab.families.formal import AttentionLayer, Formal, Head
from adaptlab.plugins.family import Family
from adaptlab.plugins.registry import by_name
from adaptlab.plugins.task import TASKS
from adaptlab.plugins.theory_check import MeasuredAdaptation
from adaptlab.runs.events import TheoryChecked
from adaptlab.runs.inputs import PlacedAdapterFile
from adaptlab.runs.theory_report import Check
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolve_theory import adaptation_of, resolve_theory
from adaptlab.specs.spec import AdaptSpec, TheorySpec
from adaptlab.theory.observation import FrozenBase, random_base
from adaptlab.theory.span import attention_over_prefix
from adaptlab.theory.subject import tokens_of

TASK = {"name": "sort_descending", "length": 5, "alphabet": 6}
OTHER = {"name": "copy", "length": 5, "alphabet": 6}
HEAD = Head(key_size=5, value_size=6)
FOLLOWING = Formal(
    width=8, stack=(AttentionLayer(heads=(HEAD, HEAD)), AttentionLayer(heads=(HEAD,)))
)
Prefix = dict[str, Tensor]


@dataclass
class Bench:
    """A base with replicates of random weights, and its adaptations.

    The adaptations have tensors of any kind.
    """

    folder: Path
    family: Family
    replicates: int = 1

    def __post_init__(self) -> None:
        self.family = self.family.resolved(8, 9)
        self.bases = [random_base(self.family, seed) for seed in range(self.replicates)]
        self.files = tuple(self.save(f"base-{i}", b.weights) for i, b in enumerate(self.bases))
        self.adaptations: list[MeasuredAdaptation] = []
        self.adapters: list[PlacedAdapterFile] = []

    @property
    def facts(self) -> BaseModelFacts:
        return BaseModelFacts(
            name="base",
            digest="0" * 64,
            family=self.family,
            task=by_name(TASKS, TASK),
            replicates=self.replicates,
        )

    def save(self, name: str, tensors: Mapping[str, Tensor]) -> Path:
        path = self.folder / f"{name}.safetensors"
        save_file({n: t[0].contiguous() for n, t in tensors.items()}, path)
        return path

    def adapt(
        self, method: dict[str, object], seeds: Sequence[int] = (0,), task: object = TASK
    ) -> None:
        """An adaptation with all tensors drawn separately for each seed."""
        document = {"base_model": "base", "task": task, "method": method, "seeds": seeds}
        resolved = resolve(AdaptSpec.model_validate(document), self.facts)
        job = UUID(int=len(self.adaptations))
        self.adaptations.append(adaptation_of(job, "1" * 64, resolved))
        shapes = resolved.method.tensors(self.family.shape())
        for seed in seeds:
            generator = torch.Generator().manual_seed(100 * len(self.adaptations) + seed)
            drawn = {
                n: torch.randn(1, *shape.shape, generator=generator) for n, shape in shapes.items()
            }
            self.add(seed, drawn)

    def add(self, seed: int, tensors: Mapping[str, Tensor]) -> None:
        place = len(self.adaptations) - 1
        path = self.save(f"adapter-{place}-{seed}", tensors)
        self.adapters = [a for a in self.adapters if (a.adaptation, a.seed) != (place, seed)]
        self.adapters.append(PlacedAdapterFile(adaptation=place, seed=seed, tensors=local(path)))

    def prefix(self, place: int) -> Attachments:
        """The prefix that is in a file."""
        rows = load_file(self.adapters[place].tensors.path)
        return Attachments(attention_inputs={n: t.double()[None] for n, t in rows.items()})

    def measure(self, *checks: object, **changes: object) -> dict[str, Check]:
        jobs = [one.job for one in self.adaptations]
        asked = TheorySpec.model_validate({"checks": checks, "adaptation": jobs, **changes})
        spec = resolve_theory(asked, self.facts, self.adaptations)
        seen = Remembering()
        there = {(p, s) for p, one in enumerate(spec.adaptations) for s in one.seeds}
        files = tuple(file for file in self.adapters if (file.adaptation, file.seed) in there)
        run(spec, self.files, self.folder, seen, adapters=files)
        return {told.check.name: told.check for told in seen.of(TheoryChecked)}


def bench(folder: Path, family: str | Family = "minigpt", replicates: int = 1) -> Bench:
    return Bench(folder, SMALL_OF_EACH[family] if isinstance(family, str) else family, replicates)


def prefix_of(base: FrozenBase, rows: Tensor) -> Prefix:
    """Return prefix tensors with the given rows [P, ...] in every layer.

    The rows are in the layer's first features.
    """
    found: Prefix = {}
    for site in base.family.shape().layer_sites("attention_input"):
        tensor = torch.zeros(1, len(rows), site.inputs)
        tensor[..., : rows.shape[1]] = rows
        found[site.name] = tensor
    return found


def floats(check: Check, name: str) -> tuple[float, ...]:
    found = check.details[name]
    assert isinstance(found, tuple)
    return tuple(float(x) for x in found)


EQUATIONS = {
    f"equation-{number}.{where}" for number in (6, 7) for where in ("first-layer", "deeper-layers")
}


@pytest.mark.parametrize("family", ["minigpt", "gpt2", "llama", "formal"])
@pytest.mark.parametrize("side", ["input", "key_value"])
def test_a_prefix_is_held_to_both_equations(tmp_path: Path, family: str, side: str):
    made = bench(tmp_path, family, replicates=2)
    made.adapt({"name": "prefix_tuning", "length": 3, "side": side}, seeds=(4, 5, 6))
    told = made.measure({"name": "relative_attention", "samples": 5})
    assert told.keys() == EQUATIONS
    assert {check.verdict for check in told.values()} == {"holds"}
    assert max(check.measured for check in told.values()) < 1e-13
    first = told["equation-6.first-layer"]
    assert (first.details["seeds"], first.details["layers"]) == ((4, 5, 6), 1)
    assert float(str(first.details["most_taken"])) > 0.5, "so that there was something to miss"


@pytest.mark.parametrize(
    ("method", "reports"),
    [
        ({"name": "soft_prompt", "length": 2}, {"equation-6.first-layer"}),
        ({"name": "suffix_tuning", "length": 2}, {"equation-6.first-layer"}),
        ({"name": "suffix_tuning", "length": 2, "scope": "input_only"}, {"equation-6.first-layer"}),
        ({"name": "adapter", "bottleneck": 2}, {n for n in EQUATIONS if "-6" in n}),
        ({"name": "attention_bias"}, {n for n in EQUATIONS if "-6" in n}),
    ],
)
def test_what_declares_that_it_cannot_move_attention_does_not(
    tmp_path: Path, method: dict[str, object], reports: set[str]
):
    made = bench(tmp_path, "gpt2")
    made.adapt(method)
    told = made.measure("relative_attention")
    assert told.keys() == reports
    assert {check.verdict for check in told.values()} == {"holds"}
    if "length" in method:
        most = told["equation-6.first-layer"].details["most_taken"]
        assert float(str(most)) > 0.1, "so that there was something to miss"


def test_lora_moves_attention_where_it_is_on_queries_and_nowhere_on_an_mlp(tmp_path: Path):
    made = bench(tmp_path)
    made.adapt({"name": "lora", "rank": 1, "sites": ["attn.q"]}, seeds=(0, 1))
    made.adapt({"name": "lora", "rank": 1, "sites": ["mlp"]})
    told = made.measure("relative_attention")
    queries, mlp = (told[f"relative-attention-moves.adaptation-{place}"] for place in (0, 1))
    assert (queries.bound, queries.verdict) == ("at least", "holds")
    assert min(floats(queries, "moved_by_replicate")) > 1e-3
    assert (mlp.measured, mlp.verdict) == (0, "fails"), "layer inputs are held equal"


def test_virtual_tokens_do_not_hide_what_else_moves_attention(tmp_path: Path):
    made = bench(tmp_path)
    lora = {"name": "lora", "rank": 1, "sites": ["attn.q"]}
    made.adapt({"name": "combine", "parts": [{"name": "soft_prompt", "length": 2}, lora]})
    (told,) = made.measure("relative_attention").values()
    assert told.name == "relative-attention-moves"
    assert told.measured > 1e-3


def test_attention_over_the_prefix_is_that_of_the_last_token_of_the_question(tmp_path: Path):
    made = bench(tmp_path)
    made.adapt({"name": "prefix_tuning", "length": 3}, seeds=(0, 1))
    told = made.measure({"name": "prefix_attention", "samples": 30})["attention-over-prefix"]
    questions = tokens_of(made.family, by_name(TASKS, TASK), 30)[..., :5]  # it is causal
    each = [attention_over_prefix(made.bases[0], questions, made.prefix(place)) for place in (0, 1)]
    gaps = [floats(check, "mean_gap_by_layer") for check in each]
    means = [sum(layer) / 2 for layer in zip(*gaps, strict=True)]
    assert floats(told, "gap_by_layer") == pytest.approx(means)
    assert told.measured == pytest.approx(max(means))
    assert floats(told, "largest_gap_by_replicate") == pytest.approx([max(one) for one in gaps])
    # Two replicates: half of their distance times Student's t, shared out over the layers.
    factor = float(stats.t.ppf(1 - 0.025 / len(means), 1)) / 2
    reaches = [factor * abs(one - other) for one, other in zip(*gaps, strict=True)]
    ends = [(m - reach, m + reach) for m, reach in zip(means, reaches, strict=True)]
    assert told.details["low"] == pytest.approx(max(0.0, *(low for low, _ in ends)))
    assert told.details["high"] == pytest.approx(max(high for _, high in ends))


def test_parts_of_the_inputs_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = bench(tmp_path)
    made.adapt({"name": "prefix_tuning", "length": 3})
    checks = ({"name": "prefix_attention", "samples": 30}, {"name": "relative_attention"})
    whole = made.measure(*checks)
    monkeypatch.setattr("adaptlab.theory.subject.MOST_ELEMENTS", 3000)
    parts = made.measure(*checks)
    assert parts["attention-over-prefix"].measured == pytest.approx(
        whole["attention-over-prefix"].measured, abs=1e-12
    )
    assert parts["equation-6.first-layer"].details["most_taken"] == pytest.approx(
        whole["equation-6.first-layer"].details["most_taken"], abs=1e-12
    )


def test_a_prefix_of_zeros_takes_attention_and_gives_the_second_layer_nothing(tmp_path: Path):
    made = bench(tmp_path, FOLLOWING)
    made.adapt({"name": "prefix_tuning", "length": 2}, seeds=(0, 1))
    random = made.measure("second_layer")["second-layer-four-terms"]
    assert random.verdict == "holds"
    assert float(str(random.details["size_prefix_prefix"])) > 0.1
    for seed in (0, 1):
        made.add(seed, prefix_of(made.bases[0], torch.zeros(2, 1)))
    zeros = made.measure("second_layer")["second-layer-four-terms"]
    assert (zeros.verdict, zeros.details["replicates"]) == ("holds", 2)
    without = {
        name: x for name, x in zeros.details.items() if "prefix_" in name or "_prefix" in name
    }
    assert without.pop("prefix_share") != 0
    assert set(without.values()) == {0.0}
    assert float(str(zeros.details["size_content_content"])) > 0


def test_prefixes_of_two_tasks_make_clusters_on_every_base(tmp_path: Path):
    made = bench(tmp_path, SMALL, replicates=2)
    made.adapt({"name": "prefix_tuning", "length": 2}, seeds=(0, 1))
    made.adapt({"name": "prefix_tuning", "length": 2}, seeds=(0, 1), task=OTHER)
    told = made.measure({"name": "clusters", "samples": 60})
    after = told["clusters.after"]
    assert (after.verdict, after.details["prefixes"], after.details["chance"]) == ("holds", 2, 0.5)
    assert len(floats(after, "accuracy_by_group")) == 2
    assert told["clusters.before"].verdict == "holds"
    assert told["clusters.before"].details["tasks"] == 2
    control = told["clusters.random"]
    assert (control.bound, control.tolerance) == ("at most", 0.9)
    assert len(floats(control, "accuracy_by_group")) == 2
    again = made.measure({"name": "clusters", "samples": 60})["clusters.random"]
    assert again == control, "random prefixes are drawn from the seeds of the trained ones"
    halves = made.measure({"name": "clusters", "samples": 60, "folds": 2})["clusters.before"]
    assert 0.2 < halves.measured <= halves.tolerance, (
        "no task is bound to a fold, whose centroids would lack it"
    )


def test_a_random_prefix_is_as_large_as_the_trained_one(tmp_path: Path):
    made = bench(tmp_path)
    made.adapt({"name": "prefix_tuning", "length": 2}, seeds=(0, 1))
    made.add(0, prefix_of(made.bases[0], torch.tensor([[0.0, 0.0], [0.0, 0.0]])))
    made.add(1, prefix_of(made.bases[0], torch.tensor([[0.0, 0.0], [0.0, 0.0]])))
    control = made.measure({"name": "clusters", "samples": 60})["clusters.random"]
    assert (control.verdict, control.measured) == ("holds", 0.5)


def test_only_the_first_seeds_are_measured_where_so_many_are_asked_for(tmp_path: Path):
    made = bench(tmp_path)
    made.adapt({"name": "prefix_tuning", "length": 2}, seeds=(7, 3, 5))
    told = made.measure({"name": "span"}, replicates=2)["added-part-spans"]
    assert told.details["seeds"] == (7, 3)
    assert len(floats(told, "effective_rank_by_replicate")) == 2


def test_what_was_not_trained_is_not_measured(tmp_path: Path):
    made = bench(tmp_path)
    made.adapt({"name": "prefix_tuning", "length": 2}, seeds=(0, 1))
    made.adapters = made.adapters[:1]
    assert made.measure("span")["added-part-spans"].details["seeds"] == (0,)
    with pytest.raises(InvalidSpec, match="Fewer than two prefixes"):
        made.measure("clusters")
    made.adapters = []
    with pytest.raises(InvalidSpec, match="No seed of"):
        made.measure("span")


def test_tensors_of_another_shape_are_refused(tmp_path: Path):
    made = bench(tmp_path)
    made.adapt({"name": "prefix_tuning", "length": 2})
    made.add(0, prefix_of(made.bases[0], torch.zeros(3, 2)))
    with pytest.raises(BadCheckpoint):
        made.measure("span")


@pytest.mark.parametrize("check", ["relative_attention", "prefix_attention", "span", "clusters"])
def test_a_model_that_fills_answers_in_is_measured(tmp_path: Path, check: str):
    made = bench(tmp_path, SMALL.model_copy(update={"attention": "bidirectional"}))
    made.adapt({"name": "prefix_tuning", "length": 2}, seeds=(0, 1))
    told = made.measure(check)
    assert told
    assert {c.verdict for c in told.values() if c.name.startswith("equation")} <= {"holds"}
