"""Generated answers are cut, read and compared, or refused."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.benchmarks import rendering
from tests.texts import Stored, stored

from adaptlab.plugins.answer_judge import AnswerJudge
from adaptlab.plugins.corpus import check_sample, read_corpus
from adaptlab.plugins.metric import measured_on
from adaptlab.plugins.registry import as_json
from adaptlab.records.gathering import LONGEST_VALUE
from adaptlab.records.generation import PART, Generation, generation_of
from adaptlab.records.rendered_items import RenderedItem
from adaptlab.records.task_groups import group_records
from adaptlab.specs.job_tasks import placed_tasks
from adaptlab.specs.spec import EvaluationSpec
from adaptlab.tasks.benchmark import Benchmark
from adaptlab.text.tokeniser import ByteTokeniser

STRICT = {"function": "regex", "regex_pattern": r"#### (\-?[0-9\.\,]+)"}
FLEXIBLE = {
    "function": "regex",
    "regex_pattern": "(-?[$0-9.,]{2,})|(-?[0-9]+)",
    "group_select": -1,
}
GSM8K: Mapping[str, Any] = {
    "until": ["Question:", "</s>"],
    "tokens": 12,
    "filters": [{"name": "strict", "steps": [STRICT]}, {"name": "flexible", "steps": [FLEXIBLE]}],
    "match": {"ignore_case": True, "regexes_to_ignore": [",", r"(?s).*#### ", r"\.$"]},
}
SUMS = RenderedItem(0, ("1+1? ", "1+1? "), (" 2\n#### 2", " two"), ("2\n#### 2", "two"), 0)


def judge(name: str = "strict", **changes: Any) -> AnswerJudge:
    return AnswerJudge(Generation.model_validate({**GSM8K, **changes}), name)


@pytest.fixture
def sums(tmp_path: Path) -> Stored:
    about = rendering("sums", output="generate_until", choices=1, chance=1.0)
    records = [SUMS.record(about, Generation.model_validate(GSM8K))]
    return stored(tmp_path, records, "sums-0-shots")


@pytest.mark.parametrize(
    ("text", "strict", "flexible"),
    [
        ("It is\n#### 1,234.", "1,234.", "1,234."),
        ("#### 5 or 6", "5", "6"),
        ("none", "[invalid]", "[invalid]"),
        ("7", "[invalid]", "7"),
    ],
)
def test_an_answer_is_read_by_each_filter(text: str, strict: str, flexible: str) -> None:
    assert judge("strict").read(text, ["1"]) == strict
    assert judge("flexible").read(text, ["1"]) == flexible


@pytest.mark.parametrize(
    ("answer", "targets", "rule", "is_right"),
    [
        ("#### 1,234.", ["so\n#### 1234"], {}, True),
        ("#### 5", ["4", "5"], {}, True),
        ("#### 5", ["4", "6"], {}, False),
        ("#### 5", ["#### 5."], {"regexes_to_ignore": ["#"]}, False),
        ("#### 5", ["#### 5."], {"regexes_to_ignore": ["[# .]"]}, True),
        ("#### 5", ["5!"], {"ignore_punctuation": True}, True),
        ("#### 5", ["6"], {"ignore_numbers": True}, True),
    ],
)
def test_an_answer_equals_one_of_the_targets(
    answer: str, targets: list[str], rule: dict[str, Any], is_right: bool
) -> None:
    assert judge(match=rule or GSM8K["match"]).is_right(answer, targets) is is_right


def test_steps_follow_one_another() -> None:
    steps = [
        {"function": "lowercase"},
        {"function": "regex", "regex_pattern": "(x)?(y)? (z*)", "group_select": 1},
        {"function": "uppercase"},
        {"function": "remove_whitespace"},
    ]
    assert judge("all", filters=[{"name": "all", "steps": steps}]).read("X Z ZZ ", ["-"]) == "ZZ"


def test_stop_sequences_are_looked_for_one_after_the_other() -> None:
    """The first takes away what the second would need."""
    stops = Generation.model_validate({**GSM8K, "until": ["Q:", "\n\nQ:"]})
    assert stops.cut("four\n\nQ: next") == "four\n\n"
    assert judge().cut("four</s>Question:") == "four"


def test_an_expression_that_hangs_is_a_wrong_answer() -> None:
    """The next answer is judged by another process."""
    hanging = [{"name": "strict", "steps": [{"function": "regex", "regex_pattern": "(a+)+b"}]}]
    start = time.monotonic()
    assert not judge(filters=hanging).is_right("a" * 64, ["a"])
    assert time.monotonic() - start < 30
    assert judge().is_right("#### 5", ["5"])


@pytest.mark.parametrize(
    "changes",
    [
        {"filters": []},
        {"filters": [{"name": "bad", "steps": [{"function": "regex", "regex_pattern": "("}]}]},
        {"filters": [{"name": "own", "steps": [{"function": "custom"}]}]},
        {"match": {"regexes_to_ignore": ["x" * 513]}},
        {"tokens": 5000},
        {"until": [""]},
    ],
)
def test_what_is_beyond_the_limits_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        judge(**changes)


def test_it_is_in_fields_that_facts_about_records_keep() -> None:
    assert PART <= LONGEST_VALUE
    generation = Generation.model_validate(GSM8K)
    fields = generation.fields()
    assert len(fields) > 1
    assert generation_of({**fields, "text": None}) == generation
    assert generation_of({**fields, "generation": None}) is None
    assert generation_of({**fields, "generation_1": "{"}) is None
    long = {**GSM8K, "match": {"regexes_to_ignore": ["x" * 500] * 8}}
    with pytest.raises(ValueError, match="3,840 are the limit"):
        Generation.model_validate(long).fields()


def watched(data: Stored, *others: Stored, **changes: Any) -> tuple[Benchmark, ...]:
    tasks = [{"name": "benchmark", "tasks": ["sums"], "tokens": {"longest": 40}, **changes}]
    known = {one.facts.name: one.facts for one in (data, *others)}
    spec = EvaluationSpec.model_validate({"tasks": tasks})
    return tuple(one for _, one in placed_tasks(spec, known) if isinstance(one, Benchmark))


def test_a_task_that_generates_knows_how(sums: Stored) -> None:
    (task,) = watched(sums)
    assert (task.score, task.answer_tokens(), task.passes_of_decoding()) == ("strict", 12, 1)
    assert [one.name for one in measured_on(as_json(task))] == ["cut_share"]
    assert Benchmark.model_validate_json(task.model_dump_json()) == task
    corpus = read_corpus(task.with_texts(sums.source()))
    assert bytes([*corpus.tokens]) == b"1+1?  2\n#### 2", "the space before an answer is kept"
    assert list(corpus.asked) == [5]
    assert (corpus.targets, corpus.end) == ([SUMS.choices], 256)


def test_a_long_context_loses_its_beginning(sums: Stored) -> None:
    (task,) = watched(sums, tokens={"longest": 15})
    corpus = read_corpus(task.with_texts(sums.source()))
    assert (list(corpus.asked), corpus.cut) == ([3], 1)
    (strict,) = watched(sums, tokens={"longest": 15, "if_longer": "refuse"})
    with pytest.raises(Exception, match=r"more than 15 tokens.*the longest has 17"):
        check_sample(strict, [SUMS.record(rendering("sums"))], ByteTokeniser())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"score": "acc_norm"}, "read by strict, flexible, not by 'acc_norm'"),
        ({"tokens": {"longest": 12}}, "up to 12 tokens, which leaves no room"),
    ],
)
def test_what_does_not_fit_is_refused(sums: Stored, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(Exception, match=reason):
        watched(sums, **changes)


def test_a_group_stands_for_its_tasks(sums: Stored, tmp_path: Path) -> None:
    def group(*tasks: str) -> Stored:
        return stored(tmp_path, group_records("all", tasks), "all-0-shots")

    (task,) = watched(sums, group("sums"), tasks=["all"])
    assert task.tasks == ("sums",)
    with pytest.raises(Exception, match="`adaptlab benchmarks add other`"):
        watched(sums, group("sums", "other"), tasks=["all"])
    with pytest.raises(Exception, match="sums occurs twice, once in a group"):
        watched(sums, group("sums"), tasks=["all", "sums"])
