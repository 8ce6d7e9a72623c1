"""Items with several right answers: what metrics make of them."""

import json
import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from adaptlab.plugins.metric import METRICS, metrics
from adaptlab.records.accepted_answers import NotAnswers, accepted_in
from adaptlab.records.reading import read_records

PIECES = ("the ", "cat ", "sat", " on", "-", "3.5 ", "U.S.", "é", "東京", "\n", "!", " a ", "")
LIBRARIES: dict[str, Any] = {"bleu": BLEU, "chrf": CHRF}
REFERENCE = """
import json, sys
from rouge_score.rouge_scorer import RougeScorer
score = RougeScorer(["rougeL"], use_stemmer=False).score_multi
items = json.load(sys.stdin)
print(json.dumps([score(right, given)["rougeL"].fmeasure for given, right in items]))
"""


def drawn(seed: int, pieces: tuple[str, ...] = PIECES) -> list[tuple[str, list[str]]]:
    """Return given answers, each with one to four right ones."""
    draw = random.Random(seed)

    def text() -> str:
        return "cats " + "".join(draw.choices(pieces, k=draw.randrange(20)))

    given = [text() for _ in range(8)]
    return [
        (one, [one if draw.random() < 0.2 else text() for _ in range(draw.randrange(1, 5))])
        for one in given
    ]


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("seed", range(40))
def test_all_right_answers_count_as_in_sacrebleu(name: str, seed: int) -> None:
    items, metric = drawn(seed), METRICS.get(name)
    table = np.array([metric.of_references(given, right) for given, right in items])
    most = max(len(right) for _, right in items)
    streams = [
        [right[place] if place < len(right) else None for _, right in items]
        for place in range(most)
    ]
    expected = LIBRARIES[name]().corpus_score([given for given, _ in items], streams).score
    assert 100 * metric.value(table) == pytest.approx(expected, rel=1e-12)
    assert table.shape == (8, metric.columns), "one row per item"


def test_the_best_right_answer_counts_as_in_rouge_score() -> None:
    items = [item for seed in range(30) for item in drawn(seed, ("cat ", "The ", "dogs", " 3"))]
    found = subprocess.run(
        [sys.executable, "-c", REFERENCE],
        input=json.dumps(items), capture_output=True, text=True, check=True,
    )  # fmt: skip
    metric = METRICS.get("rouge_l")
    ours = [metric.of_references(given, right)[0] for given, right in items]
    assert ours == pytest.approx(json.loads(found.stdout), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "given", "right", "expected"),
    [
        ("squad_exact_match", "The Lima!", ("Quito", "lima"), (1,)),
        ("squad_f1", "city of Lima", ("Quito", "Lima", "big city"), (2 * 1 / 4,)),
        ("text_match", " Lima", ("Quito", "Lima "), (1,)),
        ("text_match", "lima", ("Quito", "Lima"), (0,)),
        ("token_f1", "the city", ("Quito", "city"), (2 * 1 / 3,)),
        ("numeric", "It is 12", ("7", "#### 12", "12.0"), (1, 1)),
        ("numeric", "It is 12", ("7", "#### 12"), (1, 0)),
        ("json", '{"a": 1.0}', ("[1]", '{"a": 1}'), (1, 1)),
    ],
)
def test_the_best_right_answer_counts(
    name: str, given: str, right: tuple[str, ...], expected: tuple[float, ...]
) -> None:
    assert METRICS.get(name).of_references(given, right)[: len(expected)] == expected


@pytest.mark.parametrize("metric", [one for one in metrics() if one.needs == "answers"])
def test_one_right_answer_is_as_before(metric: Any) -> None:
    right = next(some for some in ("a red car is 12", "12", "[1]") if metric.reads_answer(some))
    for given in (right, "no", ""):
        assert metric.of_references(given, (right,)) == metric.of_answer(given, right)
        assert metric.of_references(given, (right, right)) == metric.of_answer(given, right)


def test_a_signature_says_that_numbers_of_references_vary() -> None:
    bleu = METRICS.get("bleu")
    assert "|nrefs:1|" in bleu.signature()
    assert "|nrefs:var|" in bleu.of_several().signature()
    assert METRICS.get("chrf").of_several() is METRICS.get("chrf")


@pytest.mark.parametrize(
    ("value", "several", "expected"),
    [
        ('["Lima", "the city", "Lima"]', "list", ("Lima", "the city")),
        ('[" 1,200", 7, 1.50]', "list", (" 1,200", "7", "1.50")),
        (" Lima| the city", "bars", (" Lima", " the city")),
        ("Lima", "bars", ("Lima",)),
        ("Lima", "list", ("Lima",)),
    ],
)
def test_values_hold_answers(value: str, several: Any, expected: tuple[str, ...]) -> None:
    assert accepted_in(value, several) == expected


@pytest.mark.parametrize(
    ("value", "several"),
    [
        (" ", "list"),
        ('["Lima", " "]', "list"),
        ('[["Lima"]]', "list"),
        ("[NaN]", "list"),
        ("[" * 100_000, "list"),
        ('{"a": 1}', "list"),
        ("|Lima", "bars"),
        ("|".join(map(str, range(257))), "bars"),
    ],
)
def test_what_holds_none_is_refused_with_an_example(value: str, several: Any) -> None:
    with pytest.raises(NotAnswers, match="such as"):
        accepted_in(value, several)


def test_a_list_of_json_lines_becomes_one_of_texts() -> None:
    content = b'{"a": ["Lima", 7, true, 1.50], "b": []}\n'
    (record,) = read_records([content], "jsonl")
    assert [*record.values()] == ['["Lima", "7", "true", "1.50"]', "[]"]
    assert accepted_in(record["a"], "list") == ("Lima", "7", "true", "1.50")
