"""What a job's page says of its trials and of how it is trained."""

import pytest
from tests.making import a_pretrain_spec, a_replicate

from adaptlab.plugins.generated_words import generated_words
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import write_resolved
from adaptlab.specs.spec import AdaptSpec, PretrainSpec, ResolvedSpec
from adaptlab_api.pages.jobs.page import rungs, spec_facts

BASE = PretrainSpec.model_validate(
    {"name": "base", "family": "minigpt", "task": {"name": "sort_ascending"}}
)


def facts(**changes: object) -> dict[str, str]:
    return dict(spec_facts(resolved(**changes)))


def resolved(**changes: object) -> ResolvedSpec:
    base = BaseModelFacts(
        name="base", digest="0" * 64, family=resolve(BASE, None).family, task=None, replicates=2
    )
    spec = {
        "base_model": "base",
        "task": "sort_descending",
        "method": {"name": "lora", "rank": 1},
        **changes,
    }
    return write_resolved(resolve(AdaptSpec.model_validate(spec), base))


def test_what_varies_over_the_trials_is_listed():
    tuning = {"learning_rates": [0.01, 0.1], "initial_scales": [1, 2], "selection": "pooled"}
    found = facts(tuning=tuning)
    assert found["Learning rate"] == "one of 0.01, 0.1"
    assert found["Initial scale"] == "one of 1, 2"
    assert found["Trial kept"] == "best on average over seeds"
    assert "one of" not in found["Weight decay"]


def test_a_plain_training_says_nothing_of_what_it_does_not_do():
    assert not {"Initial scale", "Trial kept", "Early stopping", "Gradient accumulation"} & set(
        facts()
    )


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"patience": 4}, "after 4 validations without a lower loss; the best is kept"),
        (
            {"patience": 2, "min_delta": 0.01},
            "after 2 validations without a lower loss by 0.01; the best is kept",
        ),
    ],
)
def test_early_stopping_and_parts_are_in_plain_words(rule: dict[str, object], text: str):
    found = facts(training={"early_stopping": rule, "accumulation": 4})
    assert found["Early stopping"] == text
    assert found["Gradient accumulation"] == "4 parts per batch"


@pytest.mark.parametrize(
    ("metric", "score"),
    [
        ("macro_f1", "a higher macro-F1 by 0.01, or a lower loss by 0.01 where that stays"),
        ("token_f1", "a higher token F1 by 0.01, or a lower loss by 0.01 where that stays"),
        ("perplexity", "a lower loss by 0.01"),
    ],
)
def test_early_stopping_is_by_the_metric_of_the_task(metric: str, score: str):
    spec = resolved(training={"early_stopping": {"min_delta": 0.01}})
    measured = spec.model_copy(update={"task": {"name": "text", "metric": metric}})
    found = dict(spec_facts(measured))["Early stopping"]
    assert found == f"after 3 validations without {score}; the best is kept"


def test_halving_says_who_is_to_go_on_and_who_did():
    halved = resolved(
        training={"steps": 400}, tuning={"trials": 8, "halving": {"rungs": 2}}, seeds=1
    )
    said = dict(spec_facts(halved))["Successive halving"]
    assert said == "8 trials, then at most 4 after step 100, 2 after step 200"
    ends = [("diverged", 7)] + [("eliminated", 100)] * 3 + [("eliminated", 200)] * 2
    ends += [("completed", 400)] * 2
    tried = [a_replicate(n, status=status, steps=steps) for n, (status, steps) in enumerate(ends)]
    assert rungs(halved, tried) == (
        "Replicates kept: 4 of 7 after step 100; 2 of 4 after step 200."
    )
    assert rungs(resolved(), tried) == ""


def test_a_job_says_which_words_it_asks():
    task = {"name": "word_translation", "words": 50, "longest": 8}
    spec = a_pretrain_spec(task=task, evaluation={"tasks": [task], "samples": 50})
    said = dict(spec_facts(write_resolved(resolve(spec, None))))["Task"]
    digest = generated_words().digest
    assert said.startswith(
        f"word translation (dataset generated (digest {digest[:12]}, source generated"
    )
    assert "words 50" in said
