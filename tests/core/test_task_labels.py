"""Labels of tasks on records, in studies and next to scores."""

from collections.abc import Mapping
from typing import Any

from tests.texts import CLASSIFICATION, COMPLETION

from adaptlab.comparisons import scores
from adaptlab.specs.spec import Choice
from adaptlab.studies.study_methods import task_labels


def labels(*documents: Mapping[str, Any]) -> tuple[str, ...]:
    return task_labels([Choice.model_validate(document) for document in documents])


def test_a_task_is_labelled_by_its_dataset_and_by_what_differs_from_earlier_ones():
    digits = {"name": "mixture", "tasks": ["sort_ascending", "add"]}
    assert labels(CLASSIFICATION, digits, COMPLETION) == (
        "text_classification of reviews",
        "mixture(tasks=[sort_ascending, add])",
        "text_completion of reviews",
    )
    other = {**CLASSIFICATION, "prompt": "They say {text} and\n mean"}
    elsewhere = {**CLASSIFICATION, "dataset": "others"}
    unlimited = {name: knob for name, knob in CLASSIFICATION.items() if name != "tokens"}
    assert labels(CLASSIFICATION, other, elsewhere, unlimited) == (
        "text_classification of reviews",
        "text_classification of reviews (prompt=They say {text} and mean)",
        "text_classification of others",
        "text_classification of reviews (prompt={text}. It is, tokens=default)",
    )
    assert labels(CLASSIFICATION) == labels(CLASSIFICATION, other)[:1], "a later task changes none"


def test_labels_of_tasks_that_differ_late_are_numbered():
    prompts = (f"{{text}}{' in my opinion' * 9}{end}" for end in (".", "?", "!"))
    first, second, third = labels(*({**CLASSIFICATION, "prompt": prompt} for prompt in prompts))
    assert first == "text_classification of reviews"
    assert (
        second == "text_classification of reviews (prompt={text} in my opinion in my opinion in m…)"
    )
    assert third == f"{second}, task 3"


def test_a_resolved_task_is_named_by_its_dataset() -> None:
    dataset = {"name": "my_reviews", "digest": "ab", "splits": {}}
    task = {"name": "text_classification", "dataset": dataset, "prompt": "{text}"}
    label = "text_classification of my_reviews"
    assert scores.task_labels([task, dict(task)]) == [label, label]
    newer = {**task, "dataset": {**dataset, "digest": "cd"}}
    assert scores.task_labels([task, newer]) == [f"{label} (dataset=ab)", f"{label} (dataset=cd)"]


def test_a_task_on_images_is_named_by_its_dataset() -> None:
    as_given = {"name": "image_classification", "dataset": "leaves"}
    resolved = {"name": "image_classification", "dataset": {"name": "leaves", "digest": "ab"}}
    words = {"name": "word_translation", "dataset": {"name": "pairs", "digest": "ab"}}
    assert labels(as_given) == ("image_classification of leaves",)
    assert scores.task_labels([resolved]) == ["image_classification of leaves"]
    assert scores.task_labels([words]) == ["word_translation"], "it has words, and no records"


def test_a_task_that_is_not_installed_keeps_its_name() -> None:
    assert labels({"name": "of_a_plug_in", "dataset": "leaves"}) == (
        "of_a_plug_in(dataset=leaves)",
    )


def test_a_standard_task_is_named_by_itself_and_its_shots() -> None:
    given = {"name": "benchmark", "tasks": ["openbookqa"], "limit": 60}
    resolved = {**given, "shots": 0, "dataset": {"name": "openbookqa-0-shots-first-60"}}
    one = {"name": "benchmark", "tasks": ["hellaswag", "arc_easy"], "shots": 1}
    label = "openbookqa (0 shots, first 60)"
    assert labels(given, one) == (label, "hellaswag, arc_easy (1 shot)")
    normalised = {**resolved, "score": "acc_norm"}
    assert scores.task_labels([resolved]) == [label]
    assert scores.task_labels([resolved, normalised]) == [
        f"{label} (score=default)",
        f"{label} (score=acc_norm)",
    ]
