"""The query of the page: rows of conditions, free text, and grouping."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

MOST_ROWS = 12
LONGEST_VALUE = 400
OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "~", "!~", "IN", "NOT IN", "IS NULL", "IS NOT NULL")
ALONE = ("IS NULL", "IS NOT NULL")
"""Operators without a value."""
_WORD = re.compile(r'(?!(?:AND|OR|NOT|IN|IS|NULL|null)$)[^\s()=<>!~,"]+')


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """One row of the form; a row without a field is empty."""

    field: str = ""
    operator: str = "="
    value: str = ""

    def term(self) -> str:
        """Return the row in the query language; empty for an empty row."""
        if not self.field:
            return ""
        if self.operator in ALONE:
            return f"{self.field} {self.operator}"
        if self.operator in ("IN", "NOT IN"):
            values = ", ".join(_written(one.strip()) for one in self.value.split(","))
            return f"{self.field} {self.operator} ({values})"
        return f"{self.field} {self.operator} {_written(self.value)}"


@dataclass(frozen=True, slots=True)
class ResultsQuery:
    """The query as the address has it; `filter` is the free text."""

    rows: tuple[ConditionRow, ...] = ()
    filter: str = ""
    group_by: str = ""
    metric: str = ""
    order_by: str = ""
    project: str = ""
    columns: tuple[str, ...] = ()

    @classmethod
    def read(
        cls,
        fields: Sequence[str],
        operators: Sequence[str],
        values: Sequence[str],
        columns: Sequence[str] = (),
        **rest: str,
    ) -> "ResultsQuery":
        """Return the query of parallel lists, as a form sends them.

        A column can also be a list, separated by commas.
        """
        known = [one if one in OPERATORS else "=" for one in operators]
        rows = [
            ConditionRow(field.strip(), operator, value.strip())
            for field, operator, value in zip(fields, known, values, strict=False)
            if field.strip()
        ]
        names = (name.strip() for column in columns for name in column.split(","))
        chosen = tuple(dict.fromkeys(filter(None, names)))
        texts = {name: text.strip() for name, text in rest.items()}
        return cls(rows=tuple(rows), columns=chosen, **texts)

    def expression(self) -> str:
        """Return everything as one filter for `GET /v1/results`."""
        terms = [row.term() for row in self.rows]
        if self.filter:
            terms.append(f"({self.filter})" if terms else self.filter)
        return " AND ".join(terms)

    def groups(self) -> tuple[str, ...]:
        """Return the fields by which the results are grouped."""
        return tuple(name for one in self.group_by.split(",") if (name := one.strip()))

    def address(self, **more: str) -> str:
        """Return the address of the page with this query."""
        columns = {"columns": ",".join(self.columns)}
        rest = ((name, text) for name, text in {**columns, **more}.items() if text)
        query = urlencode([*self.pairs(), *rest])
        return f"/results?{query}" if query else "/results"

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Return the parameters of the address, without the columns."""
        conditions = (
            pair
            for row in self.rows
            for pair in (("field", row.field), ("operator", row.operator), ("value", row.value))
        )
        named = {
            "filter": self.filter,
            "group_by": self.group_by,
            "metric": self.metric,
            "order_by": self.order_by,
            "project": self.project,
        }
        return (*conditions, *((name, text) for name, text in named.items() if text))

    def file(self, form: str, columns: Sequence[str]) -> str:
        """Return the address of all matches as a file, in the API.

        Rows have the columns that are shown; groups have their own.
        """
        named = {"filter": self.expression(), "project": self.project, "format": form}
        grouped = {"group_by": ",".join(self.groups()), "metric": self.metric}
        ordered = {"order_by": self.order_by, "fields": ",".join(columns)}
        chosen = grouped if self.groups() else ordered
        query = urlencode({k: v for k, v in {**named, **chosen}.items() if v})
        return f"/v1/results?{query}"


def _written(value: str) -> str:
    """Return a value as the query language reads it: a word, or quoted."""
    if _WORD.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
