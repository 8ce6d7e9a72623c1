"""Diagnoses: the causes that measurements lead to, and their text.

The text cites the measurements.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from tests.making import a_replicate

from adaptlab.comparisons.diagnosis import LABEL, Diagnosis, diagnose
from adaptlab.comparisons.diagnosis_evidence import (
    BaseEvidence,
    Evidence,
    MethodEvidence,
    TrialEvidence,
    trial_evidence,
)
from adaptlab.plugins.method import log_spaced
from adaptlab.studies.study import StudyExtension
from adaptlab.tasks.filter_less_than_first import FilterLessThanFirst
from adaptlab.tasks.sort_descending import SortDescending

RATES = (1e-3, 1e-2, 1e-1, 1.0)
BRACKETED = {1e-3: 0.4, 1e-2: 0.1, 1e-1: 0.0, 1.0: 0.3}
"""By how much more than the best a rate ends, where the best is within the sweep."""
CHANCE = math.log(8)


def trials(
    loss: float,
    accuracy: float | None,
    half: float | None = None,
    *,
    seeds: int = 3,
    extra: Mapping[float, float] | None = None,
) -> tuple[TrialEvidence, ...]:
    """Seeds × rates that end at the loss, and by `extra` above it."""
    return tuple(
        TrialEvidence(
            seed=seed,
            trial=trial,
            learning_rate=rate,
            final_loss=loss + more,
            half_loss=loss + more if half is None else half,
            accuracy=accuracy,
        )
        for seed in range(seeds)
        for trial, (rate, more) in enumerate((extra or dict.fromkeys(RATES, 0.0)).items())
    )


REFERENCE = MethodEvidence(
    method="full_finetuning", trials=trials(0.02, 0.99), test_accuracy=0.99, parameters=9000
)
STUCK = MethodEvidence(
    method="prefix_tuning",
    trials=trials(1.4, 0.0, extra=BRACKETED),
    test_accuracy=0.001,
    parameters=512,
    steps=1000,
    schedule="constant",
    pins_attention=True,
    restriction="it only adds a bias",
    configuration={"name": "prefix_tuning", "length": 8},
)
TWICE = STUCK.model_copy(update={"method": "twice", "steps": 2000})
LARGER = STUCK.model_copy(update={"method": "larger", "parameters": 1024})
PINNED = REFERENCE.model_copy(update={"method": "pinned_finetuning", "test_accuracy": 0.0})
RIVAL = REFERENCE.model_copy(update={"method": "lora", "test_accuracy": 0.9, "parameters": 512})
BOUND_ALIKE = RIVAL.model_copy(
    update={"method": "soft_prompt", "restriction": "it only adds a bias"}
)
LEARNED_BASE = BaseEvidence(accuracy=0.98, chance=0.0)


def found(**changes: Any) -> Diagnosis:
    """The diagnosis of a method stuck out of reach, with evidence replaced."""
    subject = STUCK.model_copy(update=changes.pop("subject", {}))
    evidence = Evidence(
        subject=subject,
        reference=REFERENCE,
        pinned=PINNED,
        sizes=(LARGER,),
        durations=(TWICE,),
        others=(RIVAL,),
        base=LEARNED_BASE,
        chance_loss=CHANCE,
        chance_accuracy=8.0**-10,
        counted_length=10,
    )
    return diagnose(evidence.model_copy(update=changes))


def learned(method: MethodEvidence) -> MethodEvidence:
    return method.model_copy(update={"test_accuracy": 0.9})


def test_reach_cites_everything_that_it_rests_on():
    diagnosis = found()
    assert diagnosis.cause == "reach"
    assert (diagnosis.missing, diagnosis.next_run) == ((), None)
    assert diagnosis.text.endswith(LABEL)
    for said in (
        "at the sizes, learning rates and steps tried",
        "prefix-tuning scores 0.1 % on the test items",
        "full fine-tuning scores 99.0 %",
        # The loss from which on a trial counts as high: a quarter of the way from 0.02 to ln 8.
        f"high from {0.02 + 0.25 * (CHANCE - 0.02):.2f}; chance 2.08",
        "3 seeds and 4 learning rates",
        "the rates from 0.001 to 1 bracket the best one",
        "1.40 nats after 1,000 steps and 1.40 nats after 2,000",
        "a size of 1,024 parameters fails too",
        "LoRA scores 90.0 %",
        "the pinned-attention reference fails too (fine-tuning with pinned attention scores 0.0 %",
    ):
        assert said in diagnosis.text


def test_where_the_pinned_reference_succeeds_attention_explains_nothing():
    diagnosis = found(pinned=learned(PINNED))
    assert diagnosis.cause == "reach"
    assert "not explained by a need for a new attention pattern in the first" in diagnosis.text
    assert "fine-tuning with pinned attention scores 90.0 %" in diagnosis.text
    assert "what remains: it only adds a bias" in diagnosis.text


RISING = dict(zip(RATES, (0.8, 0.5, 0.2, 0.0), strict=True))
ALIKE = dict.fromkeys(RATES, 0.0)
TOO_HIGH = dict(zip(RATES, (0.0, 0.2, 0.5, 0.8), strict=True))
DIVERGING = tuple(
    one.model_copy(update={"final_loss": None}) if one.learning_rate > 0.01 else one
    for one in trials(1.4, 0.0, extra=BRACKETED)
)
PLATEAU = {1e-4: 0.4, 1e-3: 0.0, 1e-2: 0.0}
"""Losses that stand still below the rate at which the same method may begin to succeed."""
ONE_SEED_LEFT = tuple(
    one.model_copy(update={"final_loss": None}) if one.seed else one for one in STUCK.trials
)


def at_one_rate(method: MethodEvidence, rate: float) -> MethodEvidence:
    """The method where only one of its rates was tried."""
    left = tuple(one for one in method.trials if one.learning_rate == rate)
    return method.model_copy(update={"trials": left})


def of_one_seed(method: MethodEvidence) -> MethodEvidence:
    left = tuple(one for one in method.trials if one.seed == 0)
    return method.model_copy(update={"trials": left})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"subject": {"trials": trials(1.4, 0.0, extra=RISING)}}, "the highest that did not"),
        ({"subject": {"trials": trials(1.4, 0.0, extra=ALIKE)}}, "the lowest that did not"),
        ({"subject": {"trials": trials(1.4, 0.0, extra=TOO_HIGH)}}, "the lowest that did not"),
        ({"subject": {"trials": DIVERGING}}, "the highest that did not diverge"),
        ({"subject": {"trials": trials(1.4, 0.0, seeds=1, extra=BRACKETED)}}, ", instead of 1"),
        ({"subject": {"schedule": "cosine"}}, "a constant schedule"),
        (
            {"subject": {"trials": trials(1.4, 0.0, half=2.0, extra=BRACKETED)}},
            "still falling, from 2.00",
        ),
        (
            {"subject": {"trials": tuple(
                one.model_copy(update={"half_loss": None}) for one in STUCK.trials
            )}},
            "the loss half way through",
        ),
        ({"durations": ()}, "for 2,000 steps, twice as many"),
        ({"durations": (TWICE.model_copy(update={"schedule": "cosine"}),)}, "for 2,000 steps"),
        (
            {"durations": (TWICE.model_copy(update={"trials": trials(1.2, 0.0)}),)},
            "the number of steps matters: the mean lowest loss is 1.40 nats after 1,000",
        ),
        ({"sizes": ()}, "a larger size, with 1,024 parameters"),
        ({"sizes": (learned(LARGER),)}, "a larger size succeeds: larger scores 90.0 %"),
        ({"others": ()}, "another method with at most 512 parameters"),
        ({"others": (RIVAL.model_copy(update={"parameters": 600}),)}, "another method with"),
        ({"others": (RIVAL.model_copy(update={"test_accuracy": 0.1}),)}, "another method with"),
        ({"pinned": None}, "fine-tuning with pinned attention, to show whether"),
        ({"base": BaseEvidence(accuracy=0.42, chance=0.0)}, "only 42.0 % on its own tasks"),
        ({"base": None}, "Not measured: the score of the base model alone on its own tasks"),
        ({"subject": {"trials": trials(1.4, 0.0, extra=PLATEAU)}}, "the highest that did not"),
        ({"subject": {"trials": ONE_SEED_LEFT}}, "did not diverge, instead of 1"),
        ({"durations": (at_one_rate(TWICE, 1e-3),)}, "for 2,000 steps, twice as many"),
        ({"durations": (of_one_seed(TWICE),)}, "for 2,000 steps, twice as many"),
        ({"sizes": (at_one_rate(LARGER, 1e-3),)}, "a larger size, with 1,024 parameters"),
        ({"sizes": (of_one_seed(LARGER),)}, "a larger size, with 1,024 parameters"),
        (
            {"sizes": (LARGER.model_copy(update={"steps": 500}),)},
            "a larger size, with 1,024 parameters",
        ),
        ({"others": (BOUND_ALIKE,)}, "another method with at most 512 parameters"),
        ({"others": (RIVAL, BOUND_ALIKE)}, "soft prompt scores 90.0 % on the test items"),
    ],
)  # fmt: skip
def test_without_one_of_its_grounds_reach_is_not_concluded(changes: dict[str, Any], said: str):
    diagnosis = found(**changes)
    assert diagnosis.cause == "undecided"
    assert said in diagnosis.text


def test_a_base_without_tasks_of_its_own_has_no_score_that_could_be_missing():
    diagnosis = found(base=None, base_has_tasks=False)
    assert (diagnosis.cause, diagnosis.missing) == ("reach", ())


def test_no_extension_of_a_study_scores_a_base():
    diagnosis = found(base=None)
    assert len(diagnosis.missing) == 1
    assert diagnosis.next_run is None


@pytest.mark.parametrize("highest", [10.0, log_spaced(1e-3, 10.0, 7)[-1]])
def test_losses_that_stay_alike_up_to_the_highest_rate_there_is_are_bracketed(highest: float):
    alike = {**BRACKETED, highest: 0.0}
    assert found(subject={"trials": trials(1.4, 0.0, extra=alike)}).cause == "reach"


def test_seeds_are_proposed_in_place_of_those_that_diverged():
    one, *others = (STUCK.trials[:4], STUCK.trials[4:8], STUCK.trials[8:])
    lost = [trial.model_copy(update={"final_loss": None}) for some in others for trial in some]
    diagnosis = found(subject={"trials": (*one, *lost)})
    assert "at least 3 seeds that did not diverge, instead of 1" in diagnosis.missing
    assert diagnosis.next_run == {"seeds": 5}


def test_a_method_of_one_size_that_can_change_attention_needs_neither_size_nor_control():
    subject = {"grows": False, "pins_attention": False}
    assert found(subject=subject, sizes=(), pinned=None).cause == "reach"


def test_what_is_missing_comes_with_the_run_that_would_supply_it():
    subject = {"trials": trials(1.4, 0.0, seeds=2, extra=RISING), "schedule": "cosine"}
    diagnosis = found(subject=subject, durations=(), sizes=(), others=(), pinned=None)
    assert diagnosis.next_run is not None
    extension = StudyExtension.model_validate_json(json.dumps(diagnosis.next_run))
    assert (extension.seeds, extension.budgets[0].trainable_parameters) == (3, 1024)
    assert isinstance(extension.methods, tuple)
    short, long, control, rival = extension.methods
    assert (short.name, short.model_extra) == ("prefix_tuning", {"length": 8})
    for one, steps in ((short, 1000), (long, 2000)):
        assert one.training is not None
        assert one.tuning is not None
        assert (one.training.steps, one.training.schedule) == (steps, "constant")
        assert one.tuning.learning_rate_range == (0.001, 10.0)
    assert (control.name, rival.name) == ("pinned_finetuning", "lora")


def test_what_is_there_already_is_not_proposed_again():
    assert found(durations=()).next_run == {
        "methods": [
            {
                "name": "prefix_tuning",
                "length": 8,
                "label": "prefix_tuning, constant rate, 2,000 steps",
                "training": {"schedule": "constant", "warmup_fraction": 0.0, "steps": 2000},
                "tuning": {"trials": 4, "learning_rate_range": [0.001, 1.0]},
            }
        ]
    }
    assert found(sizes=()).next_run == {"budgets": [1024]}
    assert found(pinned=None).next_run == {"methods": [{"name": "pinned_finetuning"}]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"durations": (learned(TWICE),)}, "with 2,000 instead of 1,000 steps, "),
        (
            {"sizes": (learned(STUCK.model_copy(update={"parameters": 256})),)},
            "a configuration of it that is no larger succeeds",
        ),
    ],
)
def test_what_succeeds_elsewhere_makes_it_optimisation(changes: dict[str, Any], said: str):
    diagnosis = found(**changes)
    assert diagnosis.cause == "optimisation"
    assert said in diagnosis.text


def test_one_rate_that_succeeds_makes_it_optimisation():
    lucky = STUCK.trials[1].model_copy(update={"final_loss": 0.03, "accuracy": 0.97})
    diagnosis = found(subject={"trials": (*STUCK.trials[:1], lucky, *STUCK.trials[2:])})
    assert diagnosis.cause == "optimisation"
    said = "1 of 12 trials and 1 of 3 seeds succeed, among them seed 0 at rate 0.01 (97.0 %"
    assert said in diagnosis.text


def test_held_out_items_that_one_trial_guessed_at_a_high_loss_are_no_success():
    lucky = STUCK.trials[1].model_copy(update={"accuracy": 0.6})
    diagnosis = found(subject={"trials": (*STUCK.trials[:1], lucky, *STUCK.trials[2:])})
    assert diagnosis.cause == "undecided"
    assert "a single trial scores 60.0 % on held-out items" in diagnosis.text


def test_trained_well_and_tested_badly_is_generalisation():
    diagnosis = found(subject={"trials": trials(0.03, 0.02), "test_accuracy": 0.02})
    assert diagnosis.cause == "generalisation"
    assert "12 of 12 trials end at a training loss of 0.03" in diagnosis.text
    assert "at most 2.0 %" in diagnosis.text


@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_that_overfit_decide_nothing(seeds: int):
    diagnosis = found(subject={"trials": trials(0.03, 0.02, seeds=seeds), "test_accuracy": 0.02})
    assert diagnosis.cause == "undecided"


def test_a_seed_that_overfits_among_others_that_do_not_decides_nothing():
    some = trials(0.03, 0.02, seeds=1)
    subject = {"trials": (*some, *STUCK.trials[len(some) :])}
    assert found(subject=subject).cause == "undecided"


def test_a_middling_loss_is_neither_reach_nor_generalisation():
    # 0.35 nats a token are 3.5 an answer of ten tokens: one in thirty likely, also in training.
    diagnosis = found(subject={"trials": trials(0.35, 0.27), "test_accuracy": 0.22})
    assert diagnosis.cause == "undecided"
    # The reference's 0.02, and half of its likelihood spread over ten tokens.
    low = f"{0.02 + math.log(2) / 10:.2f}"
    assert f"the lowest at 0.35 nats), but training items count as learned only below {low}" in (
        diagnosis.text
    )


def test_a_low_loss_of_short_answers_is_that_of_as_many_tokens_as_count():
    # Of a filter 4.9 tokens count, though an answer is guessed as often as one of 1.8 would be.
    task = FilterLessThanFirst()
    low = 0.02 + math.log(2) / (1 + 9 * 7 / 16)  # of 9 digits each is below the first in 7/16
    guesses = {
        "chance_loss": task.chance_loss(),
        "chance_accuracy": task.chance(),
        "counted_length": task.counted_length(),
    }
    of_loss = {
        loss: found(subject={"trials": trials(loss, 0.02), "test_accuracy": 0.02}, **guesses)
        for loss in (low - 0.01, low + 0.01)
    }
    assert [one.cause for one in of_loss.values()] == ["generalisation", "undecided"]
    assert f"(low below {low:.2f})" in of_loss[low - 0.01].text


def test_a_method_that_learned_the_task_needs_no_diagnosis():
    diagnosis = found(subject={"test_accuracy": 0.93})
    assert diagnosis.cause == "none"


def test_nothing_is_decided_where_nobody_learned_the_task():
    failing = REFERENCE.model_copy(update={"test_accuracy": 0.05})
    assert found(reference=failing).cause == "undecided"
    assert found(reference=None).cause == "undecided"
    assert "a reference such as full fine-tuning" in found(reference=None).missing[0]


@pytest.mark.parametrize(
    ("accuracy", "opening"),
    [
        (0.09, "The cause of the failure of prefix-tuning"),
        (0.3, "Why prefix-tuning learns only part of the task"),
    ],
)
def test_what_learns_a_part_is_no_failure(accuracy: float, opening: str):
    diagnosis = found(subject={"test_accuracy": accuracy}, reference=None)
    assert diagnosis.cause == "undecided"
    assert diagnosis.text.startswith(f"{opening} is undecided: ")


def test_nothing_is_decided_where_every_trial_diverged():
    lost = tuple(trial.model_copy(update={"final_loss": None}) for trial in STUCK.trials)
    assert "diverged" in found(subject={"trials": lost}).text


def test_replicates_become_evidence():
    one = a_replicate(3, seed=1, final_loss=0.5)
    lost = one.model_copy(update={"status": "diverged", "replicate": 4, "validation_accuracy": 0.2})
    kept, gone = trial_evidence([one, lost], {3: 0.9}, {3: 0.4})
    assert (kept.final_loss, kept.half_loss, kept.accuracy) == (0.5, 0.9, 0.4)
    assert (gone.final_loss, gone.half_loss, gone.accuracy) == (None, None, 0.2)
    assert trial_evidence([one.model_copy(update={"status": "eliminated"})]) == ()


def test_the_loss_of_guessing_is_the_log_of_the_alphabet():
    assert SortDescending(alphabet=8, length=10).chance_loss() == pytest.approx(math.log(8))
