"""The filter language and its parser.

An example is `state = queued AND (method IN (lora, ia3) OR NOT task ~ "sort")`.

The grammar is `GRAMMAR`, parsed by lark; AND binds tighter than OR, as in SQL. `conditions`
translates comparisons to SQL, and `job_fields` and `attention_fields` list the fields.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, cast

# lark does not type its own generics, nor the arguments of its decorator.
from lark import (
    Lark,
    Token,
    Transformer,
    v_args,  # pyright: ignore[reportUnknownVariableType]
)
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from adaptlab.errors import InvalidSpec, Problem

LONGEST_FILTER = 4000
DEEPEST_FILTER = 32
MOST_COMPARISONS = 100
MOST_VALUES = 1000
"""Number of values in one IN list."""

# A keyword ends where a word does, so that a field can be called NOTES.
GRAMMAR = r"""
?start: disjunction
?disjunction: conjunction (OR conjunction)*
?conjunction: term (AND term)*
?term: NOT term -> negation
     | "(" disjunction ")"
     | WORD COMPARES value -> comparison
     | WORD IN "(" values ")" -> membership
     | WORD NOT IN "(" values ")" -> exclusion
     | WORD IS NULL -> absence
     | WORD IS NOT NULL -> presence
values: value ("," value)*
value: WORD | TEXT

COMPARES: "<=" | ">=" | "!=" | "!~" | "=" | "<" | ">" | "~"
AND.2: /AND(?![^\s()=<>!~,"])/
OR.2: /OR(?![^\s()=<>!~,"])/
NOT.2: /NOT(?![^\s()=<>!~,"])/
IN.2: /IN(?![^\s()=<>!~,"])/
IS.2: /IS(?![^\s()=<>!~,"])/
NULL.2: /(NULL|null)(?![^\s()=<>!~,"])/
TEXT: /"([^"\\]|\\["\\])*"/
WORD: /(?!(AND|OR|NOT|IN|IS)(?![^\s()=<>!~,"]))[^\s()=<>!~,"]+/
%ignore /\s+/
"""

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "~", "!~", "IN", "NOT IN"]
OPERATORS: tuple[Operator, ...] = ("=", "!=", "<", "<=", ">", ">=", "~", "!~", "IN", "NOT IN")
NULL = "null"


@dataclass(frozen=True, slots=True)
class Operand:
    """A value as written.

    `quoted` distinguishes the text `"null"` from the word `null`.
    """

    text: str
    quoted: bool
    position: int

    @property
    def is_null(self) -> bool:
        """Return True if the value is the word `null`."""
        return not self.quoted and self.text.lower() == NULL


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """One field against one value, or several for `IN`; `IS NULL` is `= null`."""

    field: str
    operator: Operator
    operands: tuple[Operand, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Combination:
    """Terms combined by `AND` or `OR`, or one term negated by `NOT`.

    All terms of `AND` and any term of `OR` must hold; the term of `NOT` must not.
    """

    operator: Literal["AND", "OR", "NOT"]
    terms: "tuple[Filter, ...]"


Filter = FieldComparison | Combination


def parse(text: str) -> Filter:
    """Parse a filter.

    Raises `InvalidSpec` with the position of the first error.
    """
    if len(text) > LONGEST_FILTER:
        raise invalid_filter(
            f"A filter has at most {LONGEST_FILTER} characters; this has {len(text)}."
        )
    parser = _grammar().parse_interactive(text)  # pyright: ignore[reportUnknownMemberType]
    size = _Size()
    last: Token | None = None
    try:
        for token in parser.iter_parse():
            size = size.with_token(token, last)
            size.check(_place(token))
            last = token
        meaning = parser.feed_eof(last)  # pyright: ignore[reportUnknownMemberType]
        return cast("Filter", meaning)
    except UnexpectedCharacters as error:
        raise _unknown(text, cast("int", error.pos_in_stream)) from error
    except UnexpectedToken as error:
        raise _unexpected(error, text, size) from error


def invalid_filter(
    detail: str,
    position: int | None = None,
    *,
    allowed: Sequence[str] = (),
    nearest: Sequence[str] = (),
) -> InvalidSpec:
    """Return the error for an invalid filter.

    `position` counts characters from 0.
    """
    column = None if position is None else position + 1
    return InvalidSpec(
        Problem("/query/filter", "invalid_filter", detail, tuple(allowed), tuple(nearest), column)
    )


@cache
def _grammar() -> Lark:
    return Lark(GRAMMAR, parser="lalr", transformer=_Builder())


@v_args(inline=True)
class _Builder(Transformer[Token, Filter]):
    """Builder of the values of the grammar's rules.

    lark calls its methods while parsing.
    """

    def disjunction(self, *terms: Filter | Token) -> Filter:
        return Combination("OR", tuple(term for term in terms if not isinstance(term, Token)))

    def conjunction(self, *terms: Filter | Token) -> Filter:
        return Combination("AND", tuple(term for term in terms if not isinstance(term, Token)))

    def negation(self, _: Token, term: Filter) -> Filter:
        return Combination("NOT", (term,))

    def comparison(self, field: Token, compares: Token, operand: Operand) -> Filter:
        return _compared(field, cast("Operator", str(compares)), operand)

    def membership(self, field: Token, _: Token, operands: tuple[Operand, ...]) -> Filter:
        return _compared(field, "IN", *operands)

    def exclusion(self, field: Token, _: Token, __: Token, operands: tuple[Operand, ...]) -> Filter:
        return _compared(field, "NOT IN", *operands)

    def absence(self, field: Token, _: Token, null: Token) -> Filter:
        return _compared(field, "=", Operand(NULL, quoted=False, position=_place(null)))

    def presence(self, field: Token, _: Token, __: Token, null: Token) -> Filter:
        return _compared(field, "!=", Operand(NULL, quoted=False, position=_place(null)))

    def values(self, *operands: Operand) -> tuple[Operand, ...]:
        if len(operands) > MOST_VALUES:
            detail = f"A list has at most {MOST_VALUES} values; this has {len(operands)}."
            raise invalid_filter(detail, operands[MOST_VALUES].position)
        return operands

    def value(self, token: Token) -> Operand:
        if token.type == "WORD":
            return Operand(str(token), quoted=False, position=_place(token))
        return Operand(re.sub(r"\\(.)", r"\1", token[1:-1]), quoted=True, position=_place(token))


def _compared(field: Token, operator: Operator, *operands: Operand) -> FieldComparison:
    return FieldComparison(str(field), operator, operands, _place(field))


def _place(token: Token) -> int:
    return token.start_pos or 0


@dataclass(frozen=True, slots=True)
class _Size:
    """The depth and the number of comparisons of a filter, as read so far.

    The depth is that at the token read last.
    """

    brackets: int = 0
    negations: int = 0
    comparisons: int = 0
    in_list: bool = False

    def with_token(self, token: Token, before: Token | None) -> "_Size":
        negates = token.type == "NOT" and (before is None or before.type in _BEFORE_A_TERM)
        return _Size(
            self.brackets + {"LPAR": 1, "RPAR": -1}.get(token.type, 0),
            self.negations + 1 if negates else 0,
            self.comparisons + (token.type in ("COMPARES", "IN", "IS")),
            token.type == "IN" or (self.in_list and token.type != "RPAR"),
        )

    def check(self, position: int) -> None:
        if self.brackets + self.negations > DEEPEST_FILTER:
            raise invalid_filter(f"A filter nests at most {DEEPEST_FILTER} levels deep.", position)
        if self.comparisons > MOST_COMPARISONS:
            raise invalid_filter(f"A filter has at most {MOST_COMPARISONS} comparisons.", position)


_BEFORE_A_TERM = ("NOT", "LPAR", "AND", "OR")


def _unknown(text: str, at: int) -> InvalidSpec:
    quote = " A text needs a second quote." if text[at] == '"' else ""
    return invalid_filter(f"Character {at + 1} ({text[at]!r}) begins nothing known.{quote}", at)


def _unexpected(error: UnexpectedToken, text: str, size: _Size) -> InvalidSpec:
    token = cast("Token", error.token)
    is_end = token.type == "$END"
    at = len(text.rstrip()) if is_end else _place(token)
    named = "the end" if is_end else repr(str(token))
    hint = ""
    if str(token) in ("and", "or", "not", "in", "is"):
        hint = " Write AND, OR, NOT, IN and IS in capitals."
    wanted = _wanted(frozenset(error.expected), size)
    return invalid_filter(f"At character {at + 1}, {wanted} is expected, not {named}.{hint}", at)


def _wanted(expected: frozenset[str], size: _Size) -> str:
    if "COMPARES" in expected:
        return f"one of {', '.join(OPERATORS)}, IS NULL"
    if "WORD" in expected:
        return "a value" if "TEXT" in expected else "a field"
    for terminal, named in (("LPAR", "'('"), ("IN", "IN"), ("NULL", "NULL")):
        if terminal in expected:
            return named
    if size.in_list:
        return "',' or ')'"
    return "AND, OR or ')'" if size.brackets > 0 else "AND, OR or the end"
