"""The recipe `capacity`: its base, and a tiny version of it.

The base has many tokens. The tiny version runs from end to end.
"""

from pathlib import Path

import pytest
from tests.core.planning import pretrained
from tests.engine.making import Remembering, made_base
from tests.engine.running import run

from adaptlab.reproductions.recipe import PRESETS
from adaptlab.reproductions.recipe_study import recipe_named
from adaptlab.runs.events import Evaluated, TheoryChecked
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolve_theory import resolve_theory
from adaptlab.specs.spec import PretrainSpec, TheorySpec

pytestmark = pytest.mark.long("recipes")

NAME = "petrov2024/capacity"
LENGTH = 10
"""Of the paper's completions."""


def test_every_preset_has_a_base_of_hundreds_of_tokens():
    recipe = recipe_named(NAME)
    for preset in PRESETS:
        if preset not in recipe.presets:
            continue
        bases = pretrained(recipe.study(preset))
        shapes = [family_shape(resolve(one, None).family) for one in bases]
        assert max(shape.vocabulary for shape in shapes) >= 500
        assert min(shape.vocabulary for shape in shapes) >= 30, "no claim rests on ten digits"
        assert all(shape.context >= LENGTH for shape in shapes)


def test_a_tiny_version_of_it_learns_its_task_and_is_counted(tmp_path: Path):
    """One seed at half the width, of which all 512 hard tokens are tried."""
    study = recipe_named(NAME).study("quick")
    spec, _ = pretrained(study)
    whole = spec.model_dump(mode="json")
    smaller: dict[str, dict[str, object]] = {
        "family": {"width": 32, "heads": 2},
        "training": {"steps": 400, "learning_rate": 1e-2},
        "evaluation": {"samples": 100},
    }
    tiny = whole | {name: whole[name] | knobs for name, knobs in smaller.items()} | {"seeds": [0]}
    seen = Remembering()
    facts, files = made_base(PretrainSpec.model_validate(tiny), tmp_path, seen)
    (scored,) = [one.evaluation for one in seen.of(Evaluated)]
    assert scored.correct > scored.total / 2

    (check,) = study.checks
    knobs = check.model_dump(mode="json", exclude_none=True)
    small = {"name": "capacity", "length": knobs["length"], "soft_tokens": 64}
    checks = [small | {"directed_tokens": 4, "steps": 2}]
    theory = TheorySpec.model_validate({"checks": checks, "base_model": facts.name})
    told = Remembering()
    run(resolve_theory(theory, facts), files, tmp_path, told)
    (found,) = [one.check for one in told.of(TheoryChecked)]
    details = found.details
    assert (details["vocabulary"], details["completion_length"]) == (512, LENGTH)
    assert (details["random_tried"], details["directed_tried"]) == (64, 4)
    hard = details["hard"]
    assert isinstance(hard, int)
    assert 256 < hard <= 512
