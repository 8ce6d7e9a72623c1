"""Rows of a table, and what each says about another.

They are equivalents, sizes, durations, rivals and controls.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from adaptlab.comparisons.diagnosis import diagnose
from adaptlab.comparisons.diagnosis_evidence import (
    BaseEvidence,
    DiagnosisEvidence,
    Schedule,
    TrialEvidence,
)
from adaptlab.comparisons.diagnosis_rows import (
    MeasuredRow,
    SharedSetting,
    base_evidence,
    evidence,
    repeated_rows,
)
from adaptlab.families.minigpt import MiniGPT
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.registry import by_name
from adaptlab.plugins.task import Task
from adaptlab.tasks.add import Add
from adaptlab.tasks.sort_descending import SortDescending

TASK = SortDescending(length=3, alphabet=4)
PLACE = SharedSetting(TASK, TASK.chance())


def row(
    label: str,
    method: Mapping[str, object],
    accuracy: float = 0.0,
    *,
    layers: int = 1,
    steps: int = 100,
    schedule: Schedule = "constant",
    is_control: bool = False,
) -> MeasuredRow:
    trial = TrialEvidence(seed=0, trial=0, learning_rate=0.1, final_loss=1.0, score=accuracy)
    return MeasuredRow(
        label=label,
        method=by_name(METHODS, method),
        shape=MiniGPT(layers=layers, width=8).resolved(6, 6).shape(),
        steps=steps,
        schedule=schedule,
        trials=(trial,),
        score=accuracy,
        is_control=is_control,
    )


PREFIX = {"name": "prefix_tuning", "length": 4}
PROMPT = {"name": "soft_prompt", "length": 4}
LORA = {"name": "lora", "rank": 1}
FULL = row("full", {"name": "full_finetuning"}, 1.0)


def by_label(*rows: MeasuredRow) -> dict[str, DiagnosisEvidence]:
    return {one.subject.method: one for one in evidence((FULL, *rows), "full", PLACE)}


def labels(evidences: tuple[object, ...]) -> list[str]:
    return [str(getattr(one, "method", "")) for one in evidences]


def test_with_one_layer_prefix_and_soft_prompt_are_one_piece_of_evidence():
    found = by_label(row("prefix", PREFIX), row("prompt", PROMPT, 0.9))
    (one,) = found.values()
    assert (one.subject.method, one.equivalent) == ("prefix", ("prompt",))
    assert [trial.score for trial in one.subject.trials] == [0.0, 0.9]
    # Each was diagnosed on its own: "reach" for the one and "none" for the other.
    diagnosis = diagnose(one.model_copy(update={"chance_loss": 9.0}))
    assert (diagnosis.cause, diagnosis.equivalent) == ("optimisation", ("prompt",))
    assert diagnosis.text.startswith("prefix (and prompt, the same function) can learn the task")


def test_with_two_layers_they_are_two():
    rows = [row("prefix", PREFIX, layers=2), row("prompt", PROMPT, layers=2)]
    found = {one.subject.method: one for one in evidence(rows, None, PLACE)}
    assert labels(found["prefix"].others) == ["prompt"]
    assert found["prefix"].equivalent == ()


def test_what_was_trained_otherwise_is_no_equivalent():
    found = by_label(row("prefix", PREFIX), row("prompt", PROMPT, steps=200))
    assert labels(found["prefix"].durations) == ["prompt"]
    assert (found["prefix"].equivalent, found["prefix"].others) == ((), ())


def a_prefix_among_others() -> dict[str, DiagnosisEvidence]:
    return by_label(
        row("prefix", PREFIX),
        row("longer", PREFIX, steps=200),
        row("cosine", PREFIX, schedule="cosine"),
        row("wider", {**PREFIX, "length": 8}),
        row("small start", {**PREFIX, "initial_scale": 0.02}),
        row("keys and values", {**PREFIX, "side": "key_value"}),
        row("pinned", {"name": "pinned_finetuning"}),
        row("scratch", {"name": "from_scratch"}),
        row("frozen", {"name": "frozen"}),
        row("lora", LORA),
    )


def test_sizes_durations_and_rivals_are_told_apart():
    one = a_prefix_among_others()["prefix"]
    assert labels(one.durations) == ["longer", "cosine"]
    assert labels(one.sizes) == ["wider", "small start"]
    assert labels(one.others) == ["lora"]


def test_full_and_pinned_finetuning_are_what_a_prefix_is_held_against():
    found = a_prefix_among_others()
    assert labels((found["prefix"].reference, found["prefix"].pinned)) == ["full", "pinned"]
    assert found["pinned"].pinned is None


def test_references_and_controls_are_not_diagnosed():
    assert {"full", "frozen"}.isdisjoint(a_prefix_among_others())


def test_a_prefix_pins_attention_and_grows():
    found = a_prefix_among_others()
    assert found["prefix"].subject.pins_attention
    assert found["prefix"].subject.grows
    assert not found["pinned"].subject.grows
    assert not found["lora"].subject.pins_attention


def test_what_is_trained_otherwise_than_most_methods_is_a_repetition():
    rows = [row("prefix", PREFIX), row("longer", PREFIX, steps=200)]
    assert repeated_rows(rows) == frozenset()  # which of the two is usual, nothing tells
    assert repeated_rows([*rows, row("lora", LORA)]) == {"longer"}
    cosine = row("cosine", PREFIX, schedule="cosine")
    assert repeated_rows([*rows, cosine, row("lora", LORA)]) == {"longer", "cosine"}
    assert repeated_rows([*rows, row("frozen", {"name": "frozen"})]) == frozenset()
    assert repeated_rows([rows[0], row("lora", LORA, steps=200)]) == frozenset()


def test_a_control_is_evidence_for_others_and_not_diagnosed():
    longer = row("longer", PREFIX, is_control=True)
    found = by_label(row("prefix", PREFIX, 0.5), longer)
    assert list(found) == ["prefix"]
    assert labels(found["prefix"].durations) == ["longer"]


def test_the_larger_size_is_one_that_the_method_has():
    found = by_label(row("prefix", PREFIX), row("bias", {"name": "attention_bias"}))
    assert found["prefix"].subject.larger["length"] == 8
    assert found["bias"].subject.larger == {}


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ([], None),
        ([(TASK, [])], None),
        ([(TASK, [0.5, 0.7])], BaseEvidence(accuracy=0.6, chance=TASK.chance())),
    ],
)
def test_a_base_is_known_by_its_own_tasks(
    tasks: list[tuple[Task, list[float]]], expected: BaseEvidence | None
):
    assert base_evidence(tasks) == expected


def test_the_scores_of_a_mixtures_tasks_count_together():
    other = Add(length=3, alphabet=4)
    found = base_evidence([(TASK, [0.5]), (other, [0.48])])
    assert found is not None
    assert found.accuracy == pytest.approx(0.98)


def test_a_base_says_nothing_about_a_method_that_does_not_start_from_it():
    rows = [FULL, row("scratch", {"name": "from_scratch"}), row("lora", LORA)]
    base = BaseEvidence(accuracy=0.1, chance=0.0)
    place = replace(PLACE, base=base)
    found = {one.subject.method: one for one in evidence(rows, "full", place)}
    assert (found["scratch"].base, found["lora"].base) == (None, base)
    assert (found["scratch"].base_has_tasks, found["lora"].base_has_tasks) == (False, True)


@pytest.mark.parametrize("has_tasks", [True, False])
def test_it_is_recorded_if_the_base_has_tasks_that_were_not_scored(has_tasks: bool):
    place = replace(PLACE, base_has_tasks=has_tasks)
    (found,) = evidence([FULL, row("lora", LORA)], "full", place)
    assert (found.base, found.base_has_tasks) == (None, has_tasks)
