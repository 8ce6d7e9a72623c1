"""Records with several accepted answers, from a file to a task's scores."""

import json
import re
import string
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adaptlab.errors import InvalidSpec
from adaptlab.inspection.file_inspection import inspected
from adaptlab.plugins.metric import METRICS
from adaptlab.records.accepted_answers import accepted_in, published
from adaptlab.records.facts import RecordsFacts
from adaptlab.records.gathering import Gatherer
from adaptlab.records.reading import read_records
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.spec import Choice
from adaptlab.text.fitting import roles_of, task_document

ANSWERS = (("Ada", "Ada L."), ("Lima",), ("[1]",), ("Lima", "the city", "Lima"))


def squad(place: int, texts: tuple[str, ...]) -> dict[str, Any]:
    answers = {"text": [*texts], "answer_start": [0] * len(texts)}
    return {"question": f"Who is number {place}?", "answers": answers}


def facts_of(records: list[dict[str, str]]) -> RecordsFacts:
    gatherer = Gatherer()
    for record in records:
        gatherer.add(record)
    return gatherer.facts("people", gatherer.digest)


def official_scores(
    given: str, right: list[str], *, no_answer: bool = False
) -> tuple[float, float]:
    """Return exact match and F1 as the script of SQuAD 1.1 computes them.

    With `no_answer`, as that of SQuAD 2.0: without words on a side, F1 is 1 if they agree.
    """

    def normal(text: str) -> str:
        text = "".join(sign for sign in text.lower() if sign not in set(string.punctuation))
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())

    def f1(one: str, other: str) -> float:
        mine, theirs = normal(one).split(), normal(other).split()
        if no_answer and not (mine and theirs):
            return int(mine == theirs)
        same = sum((Counter(mine) & Counter(theirs)).values())
        if not same:
            return 0
        precision, recall = same / len(mine), same / len(theirs)
        return 2 * precision * recall / (precision + recall)

    return (
        max(float(normal(given) == normal(one)) for one in right),
        max(f1(given, one) for one in right),
    )


def test_squad_keeps_all_answers_and_a_single_one_stays_a_text() -> None:
    lines = "\n".join(json.dumps(squad(n, texts)) for n, texts in enumerate(ANSWERS))
    found = [record["answers"] for record in read_records([lines.encode()], "jsonl")]
    assert found == ['["Ada", "Ada L."]', "Lima", '["[1]"]', '["Lima", "the city"]']
    assert [accepted_in(value, "list") for value in found] == [
        tuple(dict.fromkeys(texts)) for texts in ANSWERS
    ]


def test_parquet_has_them_as_json_lines_do(tmp_path: Any) -> None:
    rows = [squad(n, texts) for n, texts in enumerate(ANSWERS)]
    path = tmp_path / "squad.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    report = inspected(path, "parquet")
    lines = "\n".join(map(json.dumps, rows)).encode()
    expected = facts_of([dict(one) for one in read_records([lines], "jsonl")])
    assert report.digest == expected.digest
    answers = next(field.answers for field in report.fields if field.name == "answers")
    assert answers is not None
    assert (answers.most, answers.answers, answers.longest) == (2, 6, 8)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"value": "Lima", "aliases": ["Lima", "the city"]}, ["Lima", "the city"]),
        ({"value": "Lima", "aliases": [], "type": "x"}, "Lima"),
        ({"text": [], "answer_start": []}, []),
        ({"text": "Lima"}, {"text": "Lima"}),
        ({"value": 3, "aliases": []}, {"value": 3, "aliases": []}),
        ("Lima", "Lima"),
    ],
)
def test_published_forms_become_values(given: object, expected: object) -> None:
    assert published(given) == expected


def facts(*values: str) -> RecordsFacts:
    return facts_of(
        [{"question": f"Who is {n}?", "answers": one} for n, one in enumerate(values * 40)]
    )


def resolved(found: RecordsFacts, **changes: Any) -> Any:
    roles = roles_of(found)
    assert roles is not None
    task: Mapping[str, Any] = task_document(found, roles) | changes
    return resolve_task(Choice.model_validate(task), "/task", {found.name: found})


def test_the_guessed_task_reads_all_and_its_floor_counts_them() -> None:
    found = facts("Lima", '["Lima", "the city"]', '["Quito", "the city"]')
    task = resolved(found)
    assert task.accepts_several()
    assert task.majority(found) == pytest.approx(2 / 3)


def test_lists_are_not_read_as_text_without_a_word() -> None:
    found = facts("Lima", '["Lima", "the city"]', "Quito")
    with pytest.raises(InvalidSpec, match="up to 2 right answers") as caught:
        resolved(found, answer={"field": "answers"})
    assert [one.code for one in caught.value.problems] == ["several_answers"]
    assert not resolved(
        facts('["Lima"]', '["a", "b"]'), answer={"field": "answers"}, metric="json"
    ).accepts_several()


def test_an_empty_text_is_refused_as_an_answer_that_is_missing() -> None:
    with pytest.raises(InvalidSpec, match="where a question has none"):
        resolved(facts("Lima", '["Lima", "the city"]', ""))


def test_questions_of_squad_2_without_an_answer_have_the_empty_one() -> None:
    rows = [squad(n, texts) for n, texts in enumerate([("Lima",), (), ("Quito",)] * 40)]
    lines = "\n".join(map(json.dumps, rows)).encode()
    found = facts_of([dict(one) for one in read_records([lines], "jsonl")])
    field = found.field("answers")
    assert field is not None
    assert field.answers is not None
    assert (field.answers.most, field.answers.unanswered, field.empty) == (1, 40, 0)
    task = resolved(found)
    assert task.accepted({"question": "Who is 1?", "answers": "[]"}) == ("",)
    assert task.majority(found) == pytest.approx(1 / 3), "of the empty answer too"
    with pytest.raises(InvalidSpec, match=r"as lists\. Set"):
        resolved(found, answer={"field": "answers"})


@pytest.mark.parametrize("metric", ["bleu", "chrf", "rouge_l", "numeric", "maths"])
def test_metrics_that_cannot_count_no_answer_are_refused(metric: str) -> None:
    with pytest.raises(InvalidSpec, match=rf"which {metric} cannot count\. Use squad_f1"):
        resolved(facts("Lima", '["Lima", "the city"]', "[]"), metric=metric)
    with pytest.raises(InvalidSpec, match=r"an empty list\. Set `several: list`"):
        resolved(facts("1", '["1", "2"]', "[]"), answer={"field": "answers", "several": "bars"})


@pytest.mark.parametrize("given", ["", "the", ". an", "Lima", "the city of Lima"])
@pytest.mark.parametrize("right", [[], ["Lima"], ["Lima", "the city", "city of Lima!"]])
def test_scores_are_those_of_squad_2(given: str, right: list[str]) -> None:
    """As in `evaluate-v2.0.py`, where no answer can be the right one."""
    exact, overlap = official_scores(given, right or [""], no_answer=True)
    ours = accepted_in(json.dumps(right), "list")
    for name, score in {"squad_exact_match": exact, "squad_f1": overlap}.items():
        metric = METRICS.get(name).of_several()
        assert max(metric.of_answer(given, one)[0] for one in ours) == pytest.approx(score)


@pytest.mark.parametrize("values", [("Lima",), ("[1, 2]", "Lima"), ("[x", "Lima"), ('{"a": 1}',)])
def test_other_fields_have_no_answers(values: tuple[str, ...]) -> None:
    field = facts(*values).field("answers")
    assert field is not None
    assert field.answers is None


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ("the Lima!", ["Quito", "Lima"]),
        ("city of Lima", ["Lima", "a big city", "Quito"]),
        ("nothing", ["Lima", "Quito"]),
        ("An apple, a day", ["apple day", "day"]),
        ("Ada Lovelace", ["Ada", "Lovelace of London", "Ada L."]),
    ],
)
def test_squad_scores_are_those_of_the_official_script(given: str, right: list[str]) -> None:
    exact, overlap = official_scores(given, right)
    assert METRICS.get("squad_exact_match").of_references(given, right)[0] == exact
    assert METRICS.get("squad_f1").of_references(given, right)[0] == pytest.approx(overlap)
