"""The filter language of lists: `state = queued AND (method IN (lora, soft_prompt) OR …)`.

    filter     = conjunction { "OR" conjunction }
    conjunction = term { "AND" term }
    term       = [ "NOT" ] ( "(" filter ")" | comparison )
    comparison = field operator value | field "IN" "(" value { "," value } ")"
    operator   = "=" | "!=" | "<" | "<=" | ">" | ">="
    value      = a word, a number, a time, or a text in double quotes; `null` for nothing

AND binds tighter than OR, as in SQL. What is compared with what is decided in `job_filters`.
"""

import re
from dataclasses import dataclass
from typing import Literal

from adaptlab.errors import InvalidSpec, Problem

LONGEST_FILTER = 4000
DEEPEST_FILTER = 32

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "IN"]
OPERATORS: dict[str, Operator] = {
    "=": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "IN": "IN",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operand:
    """A value as written; `quoted` tells the text `"null"` from the word `null`."""

    text: str
    quoted: bool
    position: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """One field against one value, or several for `IN`."""

    field: str
    operator: Operator
    operands: tuple[Operand, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Combination:
    """Terms of which all (`AND`) or any (`OR`) must hold, or the one that must not (`NOT`)."""

    operator: Literal["AND", "OR", "NOT"]
    terms: "tuple[Filter, ...]"


Filter = Comparison | Combination


@dataclass(frozen=True, slots=True)
class _Token:
    kind: Literal["word", "text", "symbol", "end"]
    text: str
    position: int


_PATTERN = re.compile(
    r'\s*(?:(?P<symbol><=|>=|!=|[=<>(),])|"(?P<text>(?:[^"\\]|\\["\\])*)"|(?P<word>[^\s()=<>!,"]+))'
)


def parse(text: str) -> Filter:
    """The meaning of a filter; raises `InvalidSpec` that names the place of the first fault."""
    if len(text) > LONGEST_FILTER:
        raise fault(f"A filter has at most {LONGEST_FILTER} characters; this has {len(text)}.")
    parser = _Parser(_tokens(text))
    meaning = parser.disjunction(0)
    parser.finish()
    return meaning


def fault(detail: str, allowed: tuple[str, ...] = (), nearest: tuple[str, ...] = ()) -> InvalidSpec:
    """A complaint about the filter of a request."""
    return InvalidSpec(Problem("/query/filter", "invalid_filter", detail, allowed, nearest))


def _tokens(text: str) -> tuple[_Token, ...]:
    tokens: list[_Token] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _PATTERN.match(text, position)
        if match is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            raise fault(f"Character {start + 1} ({text[start]!r}) begins nothing known.")
        tokens.append(_token(match))
        position = match.end()
    return (*tokens, _Token("end", "the end", end))


def _token(match: re.Match[str]) -> _Token:
    if (symbol := match["symbol"]) is not None:
        return _Token("symbol", symbol, match.start("symbol"))
    if (quoted := match["text"]) is not None:
        return _Token("text", re.sub(r"\\(.)", r"\1", quoted), match.start("text"))
    return _Token("word", match["word"], match.start("word"))


class _Parser:
    """Recursive descent over the tokens; one method a rule of the grammar."""

    def __init__(self, tokens: tuple[_Token, ...]) -> None:
        self._tokens = tokens
        self._next = 0

    def disjunction(self, depth: int) -> Filter:
        return self._joined("OR", depth)

    def finish(self) -> None:
        if self._here.kind != "end":
            raise self._unexpected("AND, OR or the end")

    def _joined(self, word: Literal["AND", "OR"], depth: int) -> Filter:
        terms = [self._operand_of(word, depth)]
        while self._take_word(word):
            terms.append(self._operand_of(word, depth))
        return terms[0] if len(terms) == 1 else Combination(word, tuple(terms))

    def _operand_of(self, word: Literal["AND", "OR"], depth: int) -> Filter:
        return self._joined("AND", depth) if word == "OR" else self._term(depth)

    def _term(self, depth: int) -> Filter:
        if depth >= DEEPEST_FILTER:
            raise fault(f"A filter nests at most {DEEPEST_FILTER} levels deep.")
        if self._take_word("NOT"):
            return Combination("NOT", (self._term(depth + 1),))
        if self._take_symbol("("):
            inner = self.disjunction(depth + 1)
            self._expect_symbol(")")
            return inner
        return self._comparison()

    def _comparison(self) -> Comparison:
        field = self._here
        if field.kind != "word" or field.text in ("AND", "OR", "IN"):
            raise self._unexpected("a field")
        self._advance()
        operator = self._operator()
        operands = self._list() if operator == "IN" else (self._value(),)
        return Comparison(field.text, operator, operands, field.position)

    def _operator(self) -> Operator:
        token = self._here
        if token.kind == "text" or token.text not in OPERATORS:
            raise self._unexpected(f"one of {', '.join(OPERATORS)}")
        self._advance()
        return OPERATORS[token.text]

    def _list(self) -> tuple[Operand, ...]:
        self._expect_symbol("(")
        operands = [self._value()]
        while self._take_symbol(","):
            operands.append(self._value())
        self._expect_symbol(")")
        return tuple(operands)

    def _value(self) -> Operand:
        token = self._here
        if token.kind not in ("word", "text"):
            raise self._unexpected("a value")
        self._advance()
        return Operand(token.text, token.kind == "text", token.position)

    @property
    def _here(self) -> _Token:
        return self._tokens[self._next]

    def _advance(self) -> None:
        self._next += 1

    def _take_word(self, word: str) -> bool:
        return self._take("word", word)

    def _take_symbol(self, symbol: str) -> bool:
        return self._take("symbol", symbol)

    def _take(self, kind: str, text: str) -> bool:
        taken = self._here.kind == kind and self._here.text == text
        self._next += taken
        return taken

    def _expect_symbol(self, symbol: str) -> None:
        if not self._take_symbol(symbol):
            raise self._unexpected(repr(symbol))

    def _unexpected(self, wanted: str) -> InvalidSpec:
        here = self._here
        found = here.text if here.kind == "end" else repr(here.text)
        hint = " Write AND, OR, NOT and IN in capitals." if here.text in _LOWER_WORDS else ""
        return fault(f"At character {here.position + 1}, {wanted} is expected, not {found}.{hint}")


_LOWER_WORDS = ("and", "or", "not", "in")
