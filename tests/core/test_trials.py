"""The trials that the knobs make.

Their number never changes silently.
"""

import json

import pytest
from pydantic import TypeAdapter, ValidationError

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt
from adaptlab.specs.spec import AdaptSpec, JobSpec, PretrainSpec
from adaptlab.validation import validation_problems

BASE = {"kind": "pretrain", "name": "base", "family": "minigpt", "task": "sort_ascending"}
ADAPT = {
    "kind": "adapt",
    "base_model": "base",
    "task": "sort_descending",
    "method": "lora",
    "budget": 768,
}


def resolved(**changes: object) -> ResolvedAdapt:
    jobs: TypeAdapter[object] = TypeAdapter(JobSpec)
    base = jobs.validate_json(json.dumps(BASE), strict=True)
    assert isinstance(base, PretrainSpec)
    facts = BaseModelFacts(
        name="base", digest="0" * 64, family=resolve(base, None).family, task=None, replicates=2
    )
    spec = jobs.validate_json(json.dumps({**ADAPT, **changes}), strict=True)
    assert isinstance(spec, AdaptSpec)
    return resolve(spec, facts)


def tried(**changes: object) -> list[tuple[float, float, float]]:
    trials = resolved(**changes).training.trials
    return [(one.learning_rate, one.weight_decay, one.initial_scale) for one in trials]


def refused(**changes: object) -> list[Problem]:
    document = {**ADAPT, **changes}
    try:
        resolved(**changes)
    except ValidationError as error:
        return list(validation_problems(error.errors(), document))
    except InvalidSpec as error:
        return list(error.problems)
    raise AssertionError("nothing was refused")


def test_trials_are_the_product_of_rates_decays_and_scales_rates_outermost():
    tuning = {
        "learning_rates": [1e-3, 1e-2],
        "weight_decays": [0, 0.1],
        "initial_scales": [1, 2, 4],
    }
    expected = [(r, d, s) for r in (1e-3, 1e-2) for d in (0, 0.1) for s in (1, 2, 4)]
    assert tried(tuning=tuning) == expected
    assert tried(tuning={**tuning, "trials": 12}) == expected


def test_the_rates_share_the_trials_with_the_other_knobs():
    # four rates for each of two decays; LoRA's range is 1e-3 to 1
    found = tried(tuning={"trials": 8, "weight_decays": [0, 0.1]})
    rates = [1e-3, 1e-3, 1e-2, 1e-2, 1e-1, 1e-1, 1, 1]
    assert [rate for rate, _, _ in found] == pytest.approx(rates)
    assert [decay for _, decay, _ in found] == [0, 0.1] * 4


def test_a_range_that_is_given_takes_the_place_of_the_methods():
    found = tried(tuning={"trials": 3, "learning_rate_range": [1e-4, 1e-2]})
    assert [rate for rate, _, _ in found] == pytest.approx([1e-4, 1e-3, 1e-2])
    (single,) = tried(tuning={"learning_rate_range": [1e-4, 1e-2]})
    assert single[0] == pytest.approx(1e-3)


def test_a_fixed_rate_leaves_the_trials_to_the_other_knobs():
    training = {"learning_rate": 0.01}
    found = tried(training=training, tuning={"trials": 2, "initial_scales": [1, 3]})
    assert found == [(0.01, 0.0, 1.0), (0.01, 0.0, 3.0)]
    assert tried(training=training) == [(0.01, 0.0, 1.0)]


@pytest.mark.parametrize(
    ("changes", "pointer", "code", "nearest"),
    [
        ({"training": {"learning_rate": 0.01}, "tuning": {"trials": 8}},
         "/tuning/trials", "other_number_of_trials", (1,)),
        ({"tuning": {"trials": 7, "weight_decays": [0, 0.1], "initial_scales": [1, 2]}},
         "/tuning/trials", "other_number_of_trials", (4, 8)),
        ({"tuning": {"trials": 1, "weight_decays": [0, 0.1]}},
         "/tuning/trials", "other_number_of_trials", (2,)),
        ({"tuning": {"trials": 4, "learning_rates": [1e-3, 1e-2, 1e-1]}},
         "/tuning/trials", "other_number_of_trials", (3,)),
        ({"tuning": {"learning_rates": [k / 100 for k in range(1, 34)], "weight_decays": [0, 1]}},
         "/tuning", "too_many_trials", (64,)),
        ({"tuning": {"learning_rates": [1e-3], "learning_rate_range": [1e-4, 1e-2]}},
         "/tuning/learning_rate_range", "given_twice", ()),
        ({"training": {"learning_rate": 0.01}, "tuning": {"learning_rates": [0.1, 0.2]}},
         "/tuning/learning_rates", "given_twice", ()),
        ({"training": {"weight_decay": 0.1}, "tuning": {"weight_decays": [0, 0.1]}},
         "/tuning/weight_decays", "given_twice", ()),
        ({"tuning": {"initial_scales": [1, 2, 1]}}, "/tuning/initial_scales/2", "repeated", ()),
        ({"tuning": {"learning_rate_range": [0.1, 0.01]}},
         "/tuning/learning_rate_range", "empty_range", ()),
        ({"method": "bitfit", "budget": {}, "tuning": {"initial_scales": [1, 2]}},
         "/tuning/initial_scales", "nothing_to_scale", ()),
        ({"training": {"batch_size": 64, "accumulation": 5}},
         "/training/accumulation", "unequal_parts", (4, 8)),
        ({"training": {"batch_size": 6, "accumulation": 7}},
         "/training/accumulation", "unequal_parts", (6,)),
        ({"training": {"validations": 5, "early_stopping": {"patience": 5}}},
         "/training/early_stopping/patience", "never_stops", (4,)),
        ({"training": {"validations": 0, "early_stopping": {}}},
         "/training/early_stopping/patience", "never_stops", ()),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_refused_with_the_nearest(
    changes: dict[str, object], pointer: str, code: str, nearest: tuple[float, ...]
):
    (problem,) = refused(**changes)
    assert (problem.pointer, problem.code, problem.nearest) == (pointer, code, nearest)


@pytest.mark.parametrize(
    ("tuning", "pointer"),
    [
        ({"trials": 0}, "/tuning/trials"),
        ({"trials": 65}, "/tuning/trials"),
        ({"learning_rates": []}, "/tuning/learning_rates"),
        ({"learning_rates": [1, 0]}, "/tuning/learning_rates/1"),
        ({"weight_decays": [-1]}, "/tuning/weight_decays/0"),
        ({"initial_scales": [0]}, "/tuning/initial_scales/0"),
        ({"learning_rate_range": [0.1]}, "/tuning/learning_rate_range/1"),
        ({"selection": "best"}, "/tuning/selection"),
    ],
)
def test_values_out_of_bounds_are_pointed_at(tuning: dict[str, object], pointer: str):
    (problem,) = refused(tuning=tuning)
    assert problem.pointer == pointer


def test_pretraining_is_checked_as_well():
    jobs: TypeAdapter[PretrainSpec] = TypeAdapter(PretrainSpec)
    document = {**BASE, "training": {"batch_size": 9, "accumulation": 2}}
    with pytest.raises(InvalidSpec, match=r"cannot be split into 2 equal parts\. Use 1 or 3\."):
        resolve(jobs.validate_json(json.dumps(document), strict=True), None)
