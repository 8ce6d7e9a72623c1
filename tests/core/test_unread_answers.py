"""Answers that no task reads are said, and not guessed as something else."""

import json
from pathlib import Path

import pytest

from adaptlab.inspection.file_inspection import Inspection, inspected

RECORDS = 120
TAGS = ("bug", "login", "refund", "speed")


def inspection_of(folder: Path, **values: list[object]) -> Inspection:
    """Return the inspection of texts beside columns with these values."""
    lines = [
        {"text": f"words of case number {n} here"}
        | {name: column[n % len(column)] for name, column in values.items()}
        for n in range(RECORDS)
    ]
    file = folder / "file.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return inspected(file, "jsonl")


def codes_of(report: Inspection) -> list[str]:
    return [one.code for one in report.findings]


PAIRS = [[TAGS[n % 4], TAGS[(n + 1 + n // 4 % 3) % 4]] for n in range(12)]


@pytest.mark.parametrize(
    "values",
    [
        [["bug"], *PAIRS],
        ["bug", *("; ".join(pair) for pair in PAIRS)],
        ["login", *("|".join(pair) for pair in PAIRS)],
        ["speed", *(",".join(pair) for pair in PAIRS)],
    ],
)
def test_several_labels_of_a_record_are_no_class(values: list[object], tmp_path: Path) -> None:
    report = inspection_of(tmp_path, tags=values)
    assert report.roles is None
    (finding,) = (one for one in report.findings if one.code == "several_labels")
    assert all(tag in finding.detail for tag in TAGS)


@pytest.mark.parametrize(
    "values",
    [
        ["Smith, John", "Doe, Jane", "Roe, Max"],
        ["1,5", "2,0", "2,5", "1,0", "3,5", "3,0", "1,2", "2,2", "3,1"],
        [["bug"], ["login"]],
        ["bug; login", "speed; refund"],
    ],
)
def test_labels_with_signs_stay_classes(values: list[object], tmp_path: Path) -> None:
    report = inspection_of(tmp_path, kind=values)
    assert report.roles is not None
    assert report.roles.task == "text_classification"
    assert "several_labels" not in codes_of(report)


def test_lists_beside_other_labels_leave_these(tmp_path: Path) -> None:
    report = inspection_of(tmp_path, tags=[*PAIRS], queue=["it", "hr"])
    assert report.roles is not None
    assert report.roles.answer == "queue"
    assert codes_of(report) == ["several_labels"]


def test_a_number_on_a_scale_is_said(tmp_path: Path) -> None:
    report = inspection_of(tmp_path, score=[n / 17 for n in range(RECORDS)])
    assert report.roles is None
    assert codes_of(report) == ["scale"]


def test_two_texts_with_a_score_are_no_prompt_and_answer(tmp_path: Path) -> None:
    """As in STS-B, whose score is the answer."""
    others: list[object] = [f"other words of case {n} there" for n in range(RECORDS)]
    scores: list[object] = [n / 17 for n in range(RECORDS)]
    assert inspection_of(tmp_path, other=others, score=scores).roles is None
    beside = inspection_of(tmp_path, other=others, price=scores).roles
    assert beside is not None
    assert beside.task == "text_completion"


def test_tags_of_words_are_said(tmp_path: Path) -> None:
    tokens: list[object] = [["a", "b", f"c{n}"] for n in range(RECORDS)]
    report = inspection_of(
        tmp_path, tokens=tokens, ner_tags=[[0, 1, n % 7] for n in range(RECORDS)]
    )
    assert report.roles is None
    assert "tagged_words" in codes_of(report)


def test_other_possible_labels_are_named(tmp_path: Path) -> None:
    report = inspection_of(tmp_path, bug=[0, 1], login=[0, 0, 1], refund=[1, 0, 0, 1])
    (finding,) = report.findings
    assert finding.code == "other_label"
    assert "login and refund" in finding.detail
    named = inspection_of(tmp_path, label=[0, 1], source=["x", "y", "z"])
    assert named.roles is not None
    assert named.roles.answer == "label"
    assert not named.findings
