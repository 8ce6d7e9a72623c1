"""Problems of many records, grouped by their code."""

from typing import Literal

from adaptlab.errors import AdaptlabError, InvalidSpec, Problem

MOST_PROBLEMS = 10
"""Limit of the codes that are reported."""

MOST_PLACES = 10_000
"""Records with a problem after which reading stops."""

Unit = Literal["line", "row", "record"]


class NotARecord(AdaptlabError):
    """A place of a file without a valid record.

    Attributes:
        place: the number of the line, row or record.
        code: a stable word for programs.
        what: what is wrong there, as a clause without its full stop.
        advice: what to change, as a sentence.
        column: the first wrong character of the line, counted from 1.
        is_final: nothing behind this place can be read.
    """

    def __init__(
        self,
        place: int,
        code: str,
        what: str,
        advice: str,
        *,
        column: int | None = None,
        is_final: bool = False,
    ) -> None:
        super().__init__(f"{place}: {what}. {advice}")
        self.place = place
        self.code = code
        self.what = what
        self.advice = advice
        self.column = column
        self.is_final = is_final


class GroupedProblems:
    """The problems of one file, the first of each code with a count."""

    def __init__(self, pointer: str, unit: Unit) -> None:
        self._pointer = pointer
        self._unit = unit
        self._first: dict[str, NotARecord] = {}
        self._places: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._first)

    @property
    def are_enough(self) -> bool:
        """True if so many records have a problem that reading should stop."""
        return sum(self._places.values()) >= MOST_PLACES

    def add(self, error: NotARecord) -> None:
        """Add a problem to those with its code."""
        self._first.setdefault(error.code, error)
        self._places[error.code] = self._places.get(error.code, 0) + 1

    def raise_any(self) -> None:
        """Raise `InvalidSpec` with the problems, if there are any."""
        if self._first:
            raise InvalidSpec(*map(self._problem, [*self._first.values()][:MOST_PROBLEMS]))

    def _problem(self, error: NotARecord) -> Problem:
        column = f", column {error.column}" if error.column else ""
        place = f"{self._unit.capitalize()} {error.place:,}{column}"
        detail = f"{place}: {error.what}{self._others(error.code)}. {error.advice}"
        return Problem(self._pointer, error.code, detail, column=error.column)

    def _others(self, code: str) -> str:
        """Return a clause with the number of further places that have the problem."""
        count = self._places[code] - 1
        if not count:
            return ""
        bound = "at least " if self.are_enough else ""
        noun = f"{self._unit} has" if count == 1 else f"{self._unit}s have"
        return f"; {bound}{count:,} more {noun} the same problem"
