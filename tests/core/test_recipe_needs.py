"""What presets take from outside: base models and datasets by name."""

import pytest

from adaptlab.errors import InvalidSpec
from adaptlab.reproductions.preset_needs import Need, datasets_of, missing
from adaptlab.reproductions.recipe import RECIPES, Recipe
from adaptlab.reproductions.recipe_study import (
    RecipeRequest,
    departures,
    needs_of,
    recipe_named,
    study_of,
)

PROMPTS = "wen2023/hard-prompts"
ON_TEXTS = sorted(name for name in RECIPES.names() if "text" in recipe_named(name).presets)


def asked(**changes: object) -> RecipeRequest:
    return RecipeRequest.model_validate({"recipe": PROMPTS, "preset": "text", **changes})


@pytest.mark.parametrize("name", ON_TEXTS)
def test_a_preset_on_texts_needs_a_model_and_a_dataset(name: str) -> None:
    needs = recipe_named(name).needs["text"]
    assert {need.kind for need in needs} == {"base_model", "dataset"}
    for need in needs:
        made = "import" if need.kind == "base_model" else "upload"
        assert any(f" {made} {need.name} " in f"{command} " for command in need.commands)


def test_a_preset_must_declare_what_its_study_names() -> None:
    document = recipe_named(PROMPTS).model_dump()
    document["needs"] = {"text": document["needs"]["text"][:-1]}
    with pytest.raises(ValueError, match="short-polarity"):
        Recipe.model_validate(document)


def test_a_request_may_name_other_ones_which_replace_the_presets_everywhere() -> None:
    spec = study_of(asked(base_models=("mine", "theirs"), dataset="tweets"))
    assert spec.base_models == ("mine", "theirs")
    assert datasets_of(spec) == ("tweets",)
    assert spec.evaluation.base_models == ("theirs",)
    assert spec.methods != "all"
    assert {method.base_models for method in spec.methods} == {None, ("mine",)}
    assert departures(recipe_named(PROMPTS), "text", spec) == ()
    named = [need.name for need in needs_of(asked(base_models=("mine",), dataset="tweets"))]
    assert named == ["mine", "smollm2-reviews", "tweets"]


def test_another_change_of_the_task_is_still_a_departure() -> None:
    spec = study_of(asked(dataset="tweets"))
    (task,) = spec.tasks
    other = spec.model_copy(update={"tasks": (task.model_copy(update={"prompt": "{text} So"}),)})
    assert departures(recipe_named(PROMPTS), "text", other) == ("tasks",)


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"preset": "quick", "base_models": ("mine",)}, "/base_models"),
        ({"base_models": ("a", "b", "c")}, "/base_models"),
        ({"preset": "quick", "dataset": "tweets"}, "/dataset"),
    ],
)
def test_names_that_a_preset_has_no_use_for_are_refused(
    changes: dict[str, object], pointer: str
) -> None:
    with pytest.raises(InvalidSpec) as caught:
        study_of(asked(**changes))
    assert [problem.pointer for problem in caught.value.problems] == [pointer]


def test_a_missing_need_is_named_with_its_commands() -> None:
    need = Need(kind="dataset", name="tweets", description="short texts", commands=("fetch it",))
    (problem,) = missing((need,), "text")
    assert (problem.pointer, problem.code) == ("/dataset", "missing_dataset")
    assert problem.detail == (
        "The preset text needs a dataset named 'tweets', which is not here: short texts. Provide "
        "it with `fetch it`, or name another with `--dataset`."
    )
