"""Benchmarks as tasks: staged items, names, and refusals."""

from pathlib import Path
from typing import Any

import pytest
from tests.benchmarks import rendering
from tests.texts import COMPLETION, Stored, reviews, stored, without

from adaptlab.errors import InvalidSpec
from adaptlab.plugins.corpus import check_sample, read_corpus
from adaptlab.plugins.registry import as_json, by_name
from adaptlab.plugins.task import TASKS, Task
from adaptlab.records.rendered_items import RenderedItem, dataset_of, item_of
from adaptlab.runs.reported_answers import LONGEST_PROMPT, question_excerpt
from adaptlab.specs.job_tasks import evaluation_tasks, placed_tasks
from adaptlab.specs.spec import EvaluationSpec
from adaptlab.tasks.benchmark import Benchmark
from adaptlab.text.encoding import LeavesNothing, encoded_request
from adaptlab.text.tokeniser import ByteTokeniser

ARC = RenderedItem(0, ("Q:  ", "Q:  ", "Q:  "), (" a", " b", " a"), ("a", "b", "a"), 1)
WINO = RenderedItem(1, ("the cat and ", "the dog and "), (" left", " left"), ("cat", "dog"), 0)
PASSAGE = RenderedItem(2, ("Die Vögel",), (" singen",), (" singen",), 0)


@pytest.fixture
def arc(tmp_path: Path) -> Stored:
    records = [item.record(rendering("arc_easy")) for item in (ARC, WINO)]
    return stored(tmp_path, records, "arc_easy-0-shots")


@pytest.fixture
def passages(tmp_path: Path) -> Stored:
    about = rendering("lambada_openai", output="loglikelihood", choices=1, chance=1.0)
    return stored(tmp_path, [PASSAGE.record(about)], "lambada_openai-0-shots")


def benchmark(*tasks: str, **changes: Any) -> dict[str, Any]:
    return {"name": "benchmark", "tasks": list(tasks), **changes}


def watched(*documents: dict[str, Any], data: tuple[Stored, ...]) -> tuple[Task, ...]:
    spec = EvaluationSpec.model_validate({"tasks": documents})
    known = {one.facts.name: one.facts for one in data}
    return evaluation_tasks(None, placed_tasks(spec, known))


def refusal(*documents: dict[str, Any], data: tuple[Stored, ...]) -> tuple[str, str]:
    with pytest.raises(InvalidSpec) as error:
        watched(*documents, data=data)
    (problem,) = error.value.problems
    return problem.pointer, problem.detail


@pytest.mark.parametrize("item", [ARC, WINO, PASSAGE])
def test_an_item_is_what_its_record_says(item: RenderedItem):
    assert item_of(item.record(rendering("any"))) == item


def test_each_task_counts_as_one(arc: Stored, passages: Stored):
    both = benchmark("arc_easy", "lambada_openai")
    tasks = watched(without(COMPLETION), both, data=(arc, passages, a_dataset(arc)))
    names = [as_json(task).get("tasks") for task in tasks]
    assert names == [None, ["arc_easy"], ["lambada_openai"]]
    assert [task.available("test") for task in tasks[1:]] == [2, 1]
    assert [task.chance() for task in tasks[1:]] == [0.4, 1.0]
    spec = EvaluationSpec.model_validate({"tasks": [without(COMPLETION), both]})
    known = {one.facts.name: one.facts for one in (arc, passages, a_dataset(arc))}
    assert [place[-1] for place, _ in placed_tasks(spec, known)] == ["0", "1", "1"]
    for task in tasks[1:]:
        assert by_name(TASKS, as_json(task)) == task, "as it is stored"


def a_dataset(beside: Stored) -> Stored:
    return stored(beside.path.parent, reviews(40))


def test_what_is_not_staged_names_the_command(arc: Stored):
    assert refusal(benchmark("arc_easy", "sciq"), data=(arc,))[0].endswith("/tasks/0/tasks/1")
    pointer, detail = refusal(benchmark("sciq", shots=5, limit=9), data=(arc,))
    assert pointer == "/evaluation/tasks/0/tasks/0"
    assert "`adaptlab benchmarks add sciq --shots 5 --limit 9`" in detail


def test_a_benchmark_is_never_trained_on(arc: Stored):
    task = Benchmark.model_validate(benchmark("arc_easy")).settled(arc.datasets)
    (problem,) = task.split_problems(("train", "validation", "test"))
    assert problem.code == "only_evaluated"
    assert "evaluation.tasks" in problem.detail


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"dataset": "reviews"}, "/dataset"),
        ({"dataset": "lambada_openai-0-shots"}, "/tasks/0"),
        ({"splits": {"test": 0.5}}, "/splits"),
        ({"cluster": "document"}, "/cluster"),
        ({"tokens": {"cut": {"keep": "end"}}}, "/tokens/cut"),
    ],
)
def test_what_no_benchmark_has(arc: Stored, passages: Stored, changes: dict[str, Any], place: str):
    data = (arc, passages, a_dataset(arc))
    assert refusal(benchmark("arc_easy", **changes), data=data)[0] == f"/evaluation/tasks/0{place}"


def test_a_passage_has_no_choices_to_normalise(passages: Stored):
    document = benchmark("lambada_openai", score="acc_norm")
    assert refusal(document, data=(passages,))[0] == "/evaluation/tasks/0/score"


def test_names_of_datasets_are_short_and_differ():
    assert dataset_of("hellaswag", 5) == "hellaswag-5-shots"
    assert dataset_of("hellaswag", 0, 100) == "hellaswag-0-shots-first-100"
    names = [dataset_of(task, 5) for task in ("A/b", "a-b", "a_b", "x" * 90, "x" * 91)]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 63


def test_equal_choices_are_scored_once(arc: Stored):
    (task,) = watched(benchmark("arc_easy", score="acc_norm"), data=(arc,))
    assert isinstance(task, Benchmark)
    corpus = read_corpus(task.with_texts(arc.source()))
    assert corpus.requests is not None
    assert list(corpus.requests.counts) == [2, 2]
    assert list(corpus.requests.places) == [0, 1, 0, 1]
    assert list(corpus.requests.sizes) == [1, 1, 3, 3]
    assert list(corpus.labels) == [1, 0]
    # The spaces before the answers are theirs, and one context is read for both.
    assert bytes([*corpus.requests.answers][:8]) == b"   a   b"


def test_too_long_an_answer_is_refused_with_the_limit(arc: Stored):
    (task,) = watched(benchmark("arc_easy", tokens={"longest": 8}), data=(arc,))
    assert isinstance(task, Benchmark)
    records = [item.record(rendering("arc_easy")) for item in (ARC, WINO)]
    assert check_sample(task, records, ByteTokeniser()) == ()
    short = task.model_copy(update={"tokens": task.tokens.model_copy(update={"answer": 3})})
    with pytest.raises(InvalidSpec, match=r"more than 3 tokens.*the longest has 6"):
        check_sample(short, records, ByteTokeniser())


def test_a_context_that_leaves_nothing_is_refused():
    tokeniser = ByteTokeniser()
    assert encoded_request(tokeniser, "", "é").prompt == (256,)
    with pytest.raises(LeavesNothing):
        encoded_request(tokeniser, "  ", "a")
    with pytest.raises(LeavesNothing):
        encoded_request(tokeniser, "a", "")


def test_the_end_of_a_prompt_with_examples_is_shown():
    long = question_excerpt("example " * LONGEST_PROMPT + "the question?")
    assert len(long.text) == LONGEST_PROMPT
    assert long.text.startswith("…")
    assert long.text.endswith("the question?")
    assert question_excerpt("a question?").text == "a question?"
