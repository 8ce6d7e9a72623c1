"""Diagnoses: the causes that measurements lead to, and their text.

The text cites the measurements.
"""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from tests.making import a_replicate

from adaptlab.comparisons.diagnosis import LABEL, Diagnosis, diagnose
from adaptlab.comparisons.diagnosis_evidence import (
    BaseEvidence,
    DiagnosisEvidence,
    MethodEvidence,
    TrialEvidence,
    trial_evidence,
)
from adaptlab.plugins.metric import METRICS
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
            score=accuracy,
        )
        for seed in range(seeds)
        for trial, (rate, more) in enumerate((extra or dict.fromkeys(RATES, 0.0)).items())
    )


REFERENCE = MethodEvidence(
    method="full_finetuning",
    trials=trials(0.02, 0.99),
    score=0.99,
    parameters=9000,
    steps=1000,
)
STUCK = MethodEvidence(
    method="prefix_tuning",
    trials=trials(1.4, 0.0, extra=BRACKETED),
    score=0.001,
    parameters=512,
    steps=1000,
    schedule="constant",
    pins_attention=True,
    restriction="it only adds a bias",
    configuration={"name": "prefix_tuning", "length": 8},
    larger={"name": "prefix_tuning", "length": 16},
    rival={"name": "lora", "rank": 2},
    usual_rates=(1e-3, 1.0),
    seconds=1e-3,
)
TWICE = STUCK.model_copy(update={"method": "twice", "steps": 2000})
LARGER = STUCK.model_copy(update={"method": "larger", "parameters": 1024})
PINNED = REFERENCE.model_copy(update={"method": "pinned_finetuning", "score": 0.0})
RIVAL = REFERENCE.model_copy(update={"method": "lora", "score": 0.9, "parameters": 512})
BOUND_ALIKE = RIVAL.model_copy(
    update={"method": "soft_prompt", "restriction": "it only adds a bias"}
)
LEARNED_BASE = BaseEvidence(accuracy=0.98, chance=0.0)


def found(**changes: Any) -> Diagnosis:
    """The diagnosis of a method stuck out of reach, with evidence replaced."""
    subject = changes.pop("subject", {})
    if not isinstance(subject, MethodEvidence):
        subject = STUCK.model_copy(update=subject)
    evidence = DiagnosisEvidence(
        subject=subject,
        reference=REFERENCE,
        pinned=PINNED,
        sizes=(LARGER,),
        durations=(TWICE,),
        others=(RIVAL,),
        base=LEARNED_BASE,
        chance_loss=CHANCE,
        chance_score=8.0**-10,
        counted_length=10,
    )
    return diagnose(evidence.model_copy(update=changes))


def learned(method: MethodEvidence) -> MethodEvidence:
    return method.model_copy(update={"score": 0.9})


def at_rates(method: MethodEvidence, *rates: float) -> MethodEvidence:
    """The method where only some of its rates were tried."""
    left = tuple(one for one in method.trials if one.learning_rate in rates)
    return method.model_copy(update={"trials": left})


def of_one_seed(method: MethodEvidence) -> MethodEvidence:
    left = tuple(one for one in method.trials if one.seed == 0)
    return method.model_copy(update={"trials": left})


def test_reach_is_one_sentence_with_its_facts_and_what_would_refute_it():
    diagnosis = found()
    assert diagnosis.cause == "reach"
    assert (diagnosis.missing, diagnosis.next_run, diagnosis.label) == ((), None, LABEL)
    assert diagnosis.text == (
        "Not reached here by prefix-tuning: 0 of 36 trials above 0.1 %, while LoRA scores 90.0 % "
        "with 512 parameters."
    )
    # Half way from chance, which is 8⁻¹⁰, to the best score.
    assert diagnosis.refuted_by.startswith("A trial of prefix-tuning above 49.5 %")
    for said in (
        "Prefix-tuning with 512 parameters scores 0.1 % on the test items.",
        "Full fine-tuning with 9,000 parameters scores 99.0 % on the test items.",
        "1,000 steps, rates 0.001 to 1, 3 seeds: best of 12 trials 0.1 % on held-out items.",
        "2,000 steps, rates 0.001 to 1, 3 seeds: best of 12 trials 0.1 % on held-out items.",
        "1,024 parameters, 1,000 steps, rates 0.001 to 1, 3 seeds: best of 12 trials 0.1 % on "
        "held-out items.",
        "LoRA with 512 parameters scores 90.0 % on the test items.",
        "With the first layer's attention pinned, fine-tuning scores 0.0 %, as it would if the "
        "task needed a new pattern there.",
    ):
        assert said in diagnosis.reasons


def test_where_the_pinned_reference_succeeds_attention_explains_nothing():
    reasons = found(pinned=learned(PINNED)).reasons
    assert any(one.endswith("failure: without one, fine-tuning scores 90.0 %.") for one in reasons)
    assert "What remains: it only adds a bias." in reasons


def test_a_pinned_reference_that_had_not_come_to_rest_shows_nothing():
    moving = PINNED.model_copy(update={"trials": trials(0.5, 0.2, half=1.5)})
    for schedule, said in (("constant", True), ("cosine", False)):
        reasons = found(pinned=moving.model_copy(update={"schedule": schedule})).reasons
        assert any(one.endswith("with a loss that still falls.") for one in reasons) == said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"durations": ()}, "twice the steps"),
        ({"durations": (at_rates(TWICE, 1e-3),), "subject": {"trials": STUCK.trials}},
         "twice the steps"),
        ({"durations": (of_one_seed(TWICE),)}, "twice the steps"),
        ({"sizes": ()}, "a larger size"),
        ({"sizes": (at_rates(LARGER, 1e-3, 1e-2),)}, "a larger size"),
        ({"sizes": (of_one_seed(LARGER),)}, "a larger size"),
        ({"sizes": (LARGER.model_copy(update={"steps": 500}),)}, "a larger size"),
        ({"others": ()}, "another method of at most 512 parameters that succeeds"),
        ({"others": (RIVAL.model_copy(update={"parameters": 1600}),)}, "another method of"),
        ({"pinned": None}, "fine-tuning with pinned attention"),
        ({"pinned": PINNED.model_copy(update={"steps": 500})}, "fine-tuning with pinned"),
        ({"pinned": at_rates(PINNED, 1e-2)}, "fine-tuning with pinned attention"),
    ],
)  # fmt: skip
def test_without_one_of_its_grounds_reach_is_not_concluded(changes: dict[str, Any], said: str):
    diagnosis = found(**changes)
    assert diagnosis.cause == "undecided"
    assert diagnosis.missing[0].startswith(said)
    assert diagnosis.text == "Undecided why prefix-tuning fails: 1 measurement is missing."


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"base": BaseEvidence(accuracy=0.42, chance=0.0)}, "only 42.0 % on its own tasks"),
        ({"base": None}, "the base model was not scored on its own tasks"),
        ({"others": (RIVAL.model_copy(update={"score": 0.1}),)},
         "tried and failed: another method of at most 512 parameters"),
        ({"others": (RIVAL, BOUND_ALIKE)}, "restriction succeeds: soft prompt scores 90.0 %"),
        ({"durations": (TWICE.model_copy(update={"trials": trials(0.9, 0.0)}),)},
         "the training loss still falls with the steps, from 1.40 to 0.90 nats"),
        ({"durations": (TWICE.model_copy(
            update={"trials": trials(1.4, 0.0, extra={1e-3: 0.0, 1e-2: 0.3, 1e-1: 0.4, 1.0: 0.5})}
        ),)}, "lowest at a rate of 0.001, an end of those tried"),
    ],
)  # fmt: skip
def test_what_no_control_can_settle_is_said_and_nothing_is_proposed(
    changes: dict[str, Any], said: str
):
    diagnosis = found(**changes)
    assert (diagnosis.cause, diagnosis.next_run) == ("undecided", None)
    assert "cannot be decided here, because " in diagnosis.text
    assert said in diagnosis.text


def test_losses_above_chance_are_noise_and_hide_nothing():
    noisy = TWICE.model_copy(update={"trials": trials(3.0, 0.0, half=4.0)})
    assert (
        found(subject={"trials": trials(4.0, 0.0, half=5.0)}, durations=(noisy,)).cause == "reach"
    )


def test_a_base_without_tasks_of_its_own_has_no_score_that_could_be_missing():
    diagnosis = found(base=None, base_has_tasks=False)
    assert (diagnosis.cause, diagnosis.missing) == ("reach", ())


@pytest.mark.parametrize(("score", "floor"), [(0.017, 0.0), (0.0594, 0.0594), (0.6, 0.6)])
def test_no_score_at_the_floor_is_called_learned(score: float, floor: float):
    """Prefix-tuning once "learned" 1.7 % where fine-tuning had 3.0 %."""
    failing = REFERENCE.model_copy(update={"score": max(0.03, floor)})
    subject = {"score": score}
    changes = {"reference": failing, "others": (), "pinned": None, "base_alone": floor}
    diagnosis = found(subject=subject, **changes)
    assert diagnosis.cause == "undecided"
    assert "cannot be decided here, because no method learns the task" in diagnosis.text


def test_a_method_of_one_size_that_can_change_attention_needs_neither_size_nor_control():
    subject = {"grows": False, "pins_attention": False}
    assert found(subject=subject, sizes=(), pinned=None).cause == "reach"


def test_the_proposal_is_one_extension_with_its_minutes():
    subject = {"trials": at_rates(STUCK, 1e-2, 1e-1).trials, "schedule": "cosine"}
    diagnosis = found(subject=subject, durations=(), sizes=(), others=(), pinned=None)
    extension = StudyExtension.model_validate(diagnosis.next_run)
    longer, larger, pinned, rival = extension.controls
    assert [one.name for one in extension.controls] == [
        "prefix_tuning", "prefix_tuning", "pinned_finetuning", "lora",
    ]  # fmt: skip
    assert (longer.model_extra, larger.model_extra) == ({"length": 8}, {"length": 16})
    for one, steps, schedule, rates in (
        (longer, 2000, "constant", 7),
        (larger, 1000, "cosine", 7),
        (pinned, 1000, "cosine", 4),
        (rival, 1000, "cosine", 7),
    ):
        assert one.training is not None
        assert one.tuning is not None
        assert (one.training.steps, one.training.schedule) == (steps, schedule)
        assert len(one.tuning.learning_rates or ()) == rates
    assert diagnosis.minutes is None  # the reference was not timed
    timed = REFERENCE.model_copy(update={"seconds": 1e-3})
    again = found(subject=subject, reference=timed, durations=(), sizes=(), others=(), pinned=None)
    # A millisecond per step of three seeds: 7 rates for 2,000 steps, 7, 4 and 7 for 1,000.
    assert again.minutes == pytest.approx(3 * (14 + 7 + 7 + 4) / 60)
    assert again.next_run_text == (
        "To decide it, train prefix-tuning for 2,000 steps at rates 0.001 to 1, at twice the size, "
        "fine-tuning with pinned attention and LoRA of the same size. About 2 minutes."
    )


def test_what_was_asked_for_is_not_proposed_again():
    first = found(durations=(), sizes=())
    assert first.next_run is not None
    labels = frozenset(str(one["label"]) for one in controls_of(first))
    assert len(labels) == 2
    running = found(durations=(), sizes=(), present=labels, running=labels)
    assert (running.next_run, running.text) == (None, "Undecided until 2 controls have ended.")
    failed = found(durations=(), sizes=(), present=labels)
    assert failed.next_run is None
    assert "cannot be decided here, because this was tried and failed: twice" in failed.text
    (left,) = controls_of(found(durations=(), sizes=(), present=frozenset(list(labels)[:1])))
    assert left["label"] == list(labels)[1]


def controls_of(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    controls = (diagnosis.next_run or {})["controls"]
    assert isinstance(controls, list)
    return controls


def test_a_size_that_the_method_does_not_have_is_not_proposed():
    diagnosis = found(subject={"larger": {}}, sizes=(), pinned=None)
    assert [one["name"] for one in controls_of(diagnosis)] == ["pinned_finetuning"]


def test_one_rate_that_succeeds_makes_it_optimisation():
    lucky = STUCK.trials[1].model_copy(update={"final_loss": 0.03, "score": 0.97})
    diagnosis = found(subject={"trials": (*STUCK.trials[:1], lucky, *STUCK.trials[2:])})
    assert diagnosis.cause == "optimisation"
    assert diagnosis.text == (
        "Prefix-tuning can learn the task, but not reliably: 1 of 12 trials learn at least half of "
        "it, in 1 of 3 seeds."
    )


def test_held_out_items_that_one_trial_guessed_at_a_high_loss_are_no_success():
    lucky = STUCK.trials[1].model_copy(update={"score": 0.6})
    diagnosis = found(subject={"trials": (*STUCK.trials[:1], lucky, *STUCK.trials[2:])})
    assert diagnosis.cause == "undecided"
    assert "because a single trial of many scores 60.0 %" in diagnosis.text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"durations": (learned(TWICE),)}, "learns the task with 2,000 instead of 1,000 steps: 90"),
        (
            {"sizes": (learned(STUCK.model_copy(update={"parameters": 256})),)},
            "learns the task with 256 instead of 512 parameters: 90.0 %",
        ),
    ],
)
def test_what_succeeds_elsewhere_makes_it_optimisation(changes: dict[str, Any], said: str):
    diagnosis = found(**changes)
    assert diagnosis.cause == "optimisation"
    assert said in diagnosis.text


def test_trained_well_and_tested_badly_is_generalisation():
    diagnosis = found(subject={"trials": trials(0.03, 0.02), "score": 0.02})
    assert diagnosis.cause == "generalisation"
    assert "12 of 12 trials learn their training items: losses of 0.03" in str(diagnosis.reasons)


@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_that_overfit_decide_nothing(seeds: int):
    diagnosis = found(subject={"trials": trials(0.03, 0.02, seeds=seeds), "score": 0.02})
    assert diagnosis.cause == "undecided"


def test_a_seed_that_overfits_among_others_that_do_not_decides_nothing():
    some = trials(0.03, 0.02, seeds=1)
    diagnosis = found(subject={"trials": (*some, *STUCK.trials[len(some) :])})
    assert diagnosis.cause == "undecided"
    assert "4 of 12 trials learn their training items, and not those held out" in diagnosis.text


def test_a_low_loss_of_short_answers_is_that_of_as_many_tokens_as_count():
    # Of a filter 4.9 tokens count, though an answer is guessed as often as one of 1.8 would be.
    task = FilterLessThanFirst()
    low = 0.02 + math.log(2) / (1 + 9 * 7 / 16)  # of 9 digits each is below the first in 7/16
    guesses = {
        "chance_loss": task.chance_loss(),
        "chance_score": task.chance(),
        "counted_length": task.counted_length(),
    }
    of_loss = {
        loss: found(subject={"trials": trials(loss, 0.02), "score": 0.02}, **guesses)
        for loss in (low - 0.01, low + 0.01)
    }
    assert [one.cause == "generalisation" for one in of_loss.values()] == [True, False]
    assert f"low below {low:.2f}" in str(of_loss[low - 0.01].reasons)


def test_a_method_that_learned_the_task_needs_no_diagnosis():
    subject = {"score": 0.93, "trials": trials(0.1, 0.93)}
    assert found(subject=subject).cause == "none"


def test_without_a_reference_another_method_shows_what_can_be_learned():
    assert found(reference=None).cause == "reach"
    nothing = found(reference=None, others=())
    assert nothing.missing[0].startswith("a reference such as full fine-tuning")
    extension = StudyExtension.model_validate(nothing.next_run)
    assert extension.methods[0].name == "full_finetuning"


def test_rates_are_lower_where_every_trial_diverged():
    lost = tuple(trial.model_copy(update={"final_loss": None}) for trial in STUCK.trials)
    (control,) = controls_of(found(subject={"trials": lost}, durations=()))
    rates = control["tuning"]["learning_rates"]
    assert (rates[0], rates[-1]) == (pytest.approx(1e-6), 1e-3)


def test_replicates_become_evidence():
    one = a_replicate(3, seed=1, final_loss=0.5)
    lost = one.model_copy(update={"status": "diverged", "replicate": 4, "validation_accuracy": 0.2})
    kept, gone = trial_evidence([one, lost], {3: 0.9}, {3: 0.4})
    assert (kept.final_loss, kept.half_loss, kept.score) == (0.5, 0.9, 0.4)
    assert (gone.final_loss, gone.half_loss, gone.score) == (None, None, 0.2)
    assert trial_evidence([one.model_copy(update={"status": "eliminated"})]) == ()


def test_the_loss_of_guessing_is_the_log_of_the_alphabet():
    assert SortDescending(alphabet=8, length=10).chance_loss() == pytest.approx(math.log(8))


def by_perplexity(method: MethodEvidence, value: float) -> MethodEvidence:
    """The method with this perplexity in the test and in all of its trials."""
    score = METRICS.get("perplexity").as_score(value)
    trials = tuple(one.model_copy(update={"score": score}) for one in method.trials)
    return method.model_copy(update={"score": score, "trials": trials})


def test_by_a_perplexity_the_floor_and_its_words_are_those_of_the_perplexity():
    """No method gets near a perplexity of 1, and all answers are wrong."""
    scored = {
        "metric": "perplexity",
        "chance_score": METRICS.get("perplexity").as_score(40.0),
        "subject": by_perplexity(STUCK, 39.0),
        "reference": by_perplexity(REFERENCE, 12.0),
        "pinned": by_perplexity(PINNED, 38.5),
        "sizes": (by_perplexity(LARGER, 38.8),),
        "durations": (by_perplexity(TWICE, 38.9),),
        "others": (by_perplexity(RIVAL, 14.0),),
    }
    diagnosis = found(**scored)
    assert diagnosis.cause == "reach"
    assert diagnosis.text == (
        "Not reached here by prefix-tuning: 0 of 36 trials below 38.8, while LoRA scores 14 with "
        "512 parameters."
    )
    assert diagnosis.refuted_by.startswith("A trial of prefix-tuning below 21.91 on held-out")
    assert "The floor, which needs no training, is 40." in diagnosis.reasons
    near = found(**{**scored, "reference": by_perplexity(REFERENCE, 36.0), "others": ()})
    assert near.text == (
        "Why prefix-tuning fails cannot be decided here, because no method learns the task: full "
        "fine-tuning scores 36, and the floor is 40."
    )
