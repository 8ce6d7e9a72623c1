"""The grammar of filters: valid ones as meant, others refused."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptlab.errors import InvalidSpec
from adaptlab_services.querying.conditions import condition
from adaptlab_services.querying.fields import Joins
from adaptlab_services.querying.filtering import (
    Combination,
    FieldComparison,
    Filter,
    Operand,
    parse,
)
from adaptlab_services.querying.job_fields import job_fields

WORDS = st.text("abcdefghijklmnopqrstuvwxyz_.0123456789-:", min_size=1, max_size=12)
TEXTS = st.text(max_size=20)
OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "~", "!~"])


def operands() -> st.SearchStrategy[Operand]:
    return st.one_of(
        WORDS.filter(lambda word: word != "null").map(lambda word: Operand(word, False, 0)),
        TEXTS.map(lambda text: Operand(text, True, 0)),
    )


COMPARISONS = st.one_of(
    st.builds(lambda f, o, v: FieldComparison(f, o, (v,), 0), WORDS, OPERATORS, operands()),
    st.builds(
        lambda f, o, v: FieldComparison(f, o, tuple(v), 0),
        WORDS,
        st.sampled_from(["IN", "NOT IN"]),
        st.lists(operands(), min_size=1, max_size=4),
    ),
)
FILTERS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds(lambda term: Combination("NOT", (term,)), inner),
        st.builds(
            lambda o, terms: Combination(o, tuple(terms)),
            st.sampled_from(["AND", "OR"]),
            st.lists(inner, min_size=2, max_size=3),
        ),
    ),
    max_leaves=8,
)


def written(meaning: Filter) -> str:
    """The filter as somebody would write it, with brackets around everything."""
    if isinstance(meaning, FieldComparison):
        values = ", ".join(_operand(one) for one in meaning.operands)
        several = meaning.operator in ("IN", "NOT IN")
        return f"{meaning.field} {meaning.operator} {f'({values})' if several else values}"
    if meaning.operator == "NOT":
        return f"NOT ({written(meaning.terms[0])})"
    return f" {meaning.operator} ".join(f"({written(term)})" for term in meaning.terms)


def _operand(operand: Operand) -> str:
    if not operand.quoted:
        return operand.text
    escaped = operand.text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def placeless(meaning: Filter) -> Filter:
    """The same without the places of its words."""
    if isinstance(meaning, FieldComparison):
        values = tuple(Operand(one.text, one.quoted, 0) for one in meaning.operands)
        return FieldComparison(meaning.field, meaning.operator, values, 0)
    return Combination(meaning.operator, tuple(placeless(term) for term in meaning.terms))


@given(FILTERS)
def test_what_is_written_is_read(meaning: Filter) -> None:
    text = written(meaning)
    assert placeless(parse(text)) == meaning


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    try:
        parse(text)
    except InvalidSpec as error:
        (problem,) = error.problems
        assert problem.column is not None
        assert 1 <= problem.column <= len(text) + 1


PIECES = st.sampled_from([
    "state", "method", "metrics.accuracy.mean", "labels.a", "spec.x.y", "created_at", "id", "study",
    "priority", "metrics.accuracy", "metrics.x.y", "labels.", "spec.", "study.x", "AND", "OR",
    "NOT", "IN", "IS", "NULL", "null", "(", ")", ",", "=", "!=", "<", "<=", ">", ">=", "~", "!~",
    "queued", "1", "-1", "0.5", "1e999", "nan", "2026-11-22", '""', "\"%_'\"", "9" * 30,
])  # fmt: skip


@given(st.lists(PIECES, max_size=14).map(" ".join))
def test_a_filter_of_jobs_is_a_condition_or_is_refused(text: str) -> None:
    joins = Joins()
    try:
        found = condition(text, job_fields(), joins)
    except InvalidSpec:
        return
    assert (found is None) == (not text.strip())


def test_and_binds_tighter_than_or() -> None:
    one, two, three = (FieldComparison(name, "=", (Operand("1", False, 0),), 0) for name in "abc")
    assert placeless(parse("a = 1 OR b = 1 AND c = 1")) == Combination(
        "OR", (one, Combination("AND", (two, three)))
    )
    assert placeless(parse("(a = 1 OR b = 1) AND c = 1")) == Combination(
        "AND", (Combination("OR", (one, two)), three)
    )
    assert placeless(parse("NOT a = 1 AND b = 1")) == Combination(
        "AND", (Combination("NOT", (one,)), two)
    )


def test_null_is_nothing_and_a_quoted_null_a_text() -> None:
    assert parse("a IS NULL") == FieldComparison("a", "=", (Operand("null", False, 5),), 0)
    assert parse("a IS NOT NULL") == FieldComparison("a", "!=", (Operand("null", False, 9),), 0)
    for text, is_null in (("a = null", True), ("a = NULL", True), ('a = "null"', False)):
        meaning = parse(text)
        assert isinstance(meaning, FieldComparison)
        assert meaning.operands[0].is_null is is_null


@pytest.mark.parametrize("word", ["AND", "OR", "NOT", "IN", "IS"])
def test_a_word_may_begin_with_a_keyword(word: str) -> None:
    meaning = parse(f"{word}X = {word}Y AND {word.lower()}z = 1")
    assert isinstance(meaning, Combination)
    first = meaning.terms[0]
    assert isinstance(first, FieldComparison)
    assert (first.field, first.operands[0].text) == (f"{word}X", f"{word}Y")


def test_many_terms_are_one_level() -> None:
    text = " AND ".join(f"NOT (a{n} = {n})" for n in range(100))
    meaning = parse(text)
    assert isinstance(meaning, Combination)
    assert len(meaning.terms) == 100
    deep = reduce(lambda inner, _: f"NOT ({inner})", range(32), "a = 1")
    assert isinstance(parse(deep), Combination)
    with pytest.raises(InvalidSpec, match="32 levels"):
        parse(f"({deep})")
