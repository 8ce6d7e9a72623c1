"""Diagnoses: which measurements lead to which cause, and that the text cites them."""

import math
from typing import Any

import pytest
from tests.making import a_replicate

from adaptlab.diagnosis import (
    LABEL,
    Diagnosis,
    Evidence,
    MethodEvidence,
    TrialEvidence,
    chance_loss,
    diagnose,
    trial_evidence,
)
from adaptlab.tasks.filter_less_than_first import FilterLessThanFirst
from adaptlab.tasks.sort_descending import SortDescending

RATES = (1e-4, 1e-3, 1e-2)
CHANCE = math.log(8)


def trials(
    loss: float, accuracy: float | None, half: float | None = None
) -> tuple[TrialEvidence, ...]:
    """Two seeds × three rates that all end alike."""
    return tuple(
        TrialEvidence(
            seed=seed,
            trial=trial,
            learning_rate=rate,
            final_loss=loss,
            half_loss=loss if half is None else half,
            accuracy=accuracy,
        )
        for seed in range(2)
        for trial, rate in enumerate(RATES)
    )


REFERENCE = MethodEvidence(
    method="full_finetuning",
    trials=trials(0.02, 0.99),
    test_accuracy=0.99,
    first_layer_deviation=0.5,
)
STUCK = MethodEvidence(
    method="prefix_tuning", trials=trials(1.4, 0.0), test_accuracy=0.001, first_layer_deviation=0.0
)
RELAXED = MethodEvidence(method="attention_bias", trials=trials(1.3, 0.0), test_accuracy=0.0)


def found(**changes: Any) -> Diagnosis:
    """The diagnosis of a method stuck out of reach, with evidence replaced."""
    subject = STUCK.model_copy(update=changes.pop("subject", {}))
    evidence = Evidence(
        subject=subject,
        reference=REFERENCE,
        relaxed=RELAXED,
        chance_loss=CHANCE,
        chance_accuracy=8.0**-10,
        counted_length=10,
    )
    return diagnose(evidence.model_copy(update=changes))


def test_reach_rests_on_losses_attention_and_the_relaxed_method():
    diagnosis = found()
    assert diagnosis.cause == "reach"
    assert diagnosis.missing == ()
    assert diagnosis.text.endswith(LABEL)
    # The loss from which on a trial counts as high: a quarter of the way from 0.02 to ln 8.
    for number in (
        "0.1%",
        "99.0%",
        "1.40",
        f"{0.02 + 0.25 * (CHANCE - 0.02):.2f}",
        "2.08",
        "0.0e+00",
    ):
        assert number in diagnosis.text
    assert "2 seeds and 3 learning rates" in diagnosis.text
    assert "attention_bias has 0.0%" in diagnosis.text


def test_reach_without_the_relaxed_method_says_so():
    diagnosis = found(relaxed=None)
    assert diagnosis.cause == "reach"
    assert diagnosis.missing == ("attention_bias, the relaxed method, on the same task",)


def test_the_relaxed_method_itself_lacks_no_relaxed_method_beside_it():
    diagnosis = found(relaxed=STUCK)
    assert (diagnosis.cause, diagnosis.missing) == ("reach", ())
    assert diagnosis.text.count("has 0.1% of the test items right") == 1


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ({"first_layer_deviation": None}, "captured attention"),
        ({"first_layer_deviation": 0.2}, "relative attention did move"),
        ({"trials": trials(1.4, 0.0, half=2.0)}, "still falling, from 2.00"),
        ({"trials": trials(1.4, 0.0)[:1]}, "1 were tried"),
        (
            {"trials": tuple(t.model_copy(update={"half_loss": None}) for t in STUCK.trials)},
            "at half of the training",
        ),
    ],
)
def test_without_one_of_its_grounds_reach_is_not_concluded(subject: dict[str, Any], said: str):
    diagnosis = found(subject=subject)
    assert diagnosis.cause == "undecided"
    assert said in diagnosis.text


def test_no_reach_where_the_relaxed_method_succeeds():
    relaxed = RELAXED.model_copy(update={"test_accuracy": 0.9})
    assert found(relaxed=relaxed).cause == "optimisation"


def test_one_rate_that_succeeds_makes_it_optimisation():
    lucky = STUCK.trials[1].model_copy(update={"final_loss": 0.03, "accuracy": 0.97})
    diagnosis = found(subject={"trials": (*STUCK.trials[:1], lucky, *STUCK.trials[2:])})
    assert diagnosis.cause == "optimisation"
    assert (
        "1 of 6 trials succeed, among them seed 0 at rate 0.001 (97.0% on validation)"
        in diagnosis.text
    )


def test_trained_well_and_tested_badly_is_generalisation():
    diagnosis = found(subject={"trials": trials(0.03, 0.02), "test_accuracy": 0.02})
    assert diagnosis.cause == "generalisation"
    assert "6 of 6 trials train to a loss of 0.03" in diagnosis.text
    assert "at most 2.0%" in diagnosis.text


def test_a_middling_loss_is_neither_reach_nor_generalisation():
    # 0.35 nats a token are 3.5 an answer of ten tokens: one in thirty likely, also in training.
    diagnosis = found(subject={"trials": trials(0.35, 0.27), "test_accuracy": 0.22})
    assert diagnosis.cause == "undecided"
    # The reference's 0.02, and half of its likelihood spread over ten tokens.
    assert f"with 0.35, and above the {0.02 + math.log(2) / 10:.2f}" in diagnosis.text


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
    assert chance_loss(SortDescending(alphabet=8, length=10)) == pytest.approx(math.log(8))
