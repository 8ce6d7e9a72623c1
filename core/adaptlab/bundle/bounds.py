"""How much work a bundle may make: counted before anything is computed from it.

Sizes of members bound what is read. What is computed grows faster: pairs with the square of the
rows, and each pair with its seeds and items.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from adaptlab.bundle.contents import CLAIM, EVIDENCE, JOBS, Claim, Evidence
from adaptlab.errors import BrokenBundle
from adaptlab.statistics import Scores

MOST_JOBS = 10_000
MOST_ROWS = 4_096
"""Of all tables together."""
MOST_PAIRS = 50_000
"""Of rows that are compared, of all tables together: each takes one or two milliseconds."""
MOST_SEEDS = 1_024
"""Of one row."""
MOST_ROW_OUTCOMES = 16_000_000
"""Seeds times items of one row, each eight bytes while it is compared."""
MOST_PAIRED_OUTCOMES = 20_000_000_000
"""Outcomes that all pairs together compare."""
MOST_REFERENCES = 100_000
"""Jobs and seeds that rows name, of all tables together."""


def check_jobs(content: bytes) -> None:
    """Raise `BrokenBundle` for more jobs than a study has; they are lines, not yet read."""
    _check(JOBS, content.count(b"\n") + 1, MOST_JOBS, "lines")


def check_claim(claim: Claim) -> None:
    """Raise `BrokenBundle` for a claim of too many rows."""
    rows = [row for table in claim.tables for row in table.methods]
    _check(CLAIM, len(rows), MOST_ROWS, "rows")
    named = sum(len(row.jobs) + len(row.seeds) for row in rows)
    _check(CLAIM, named, MOST_REFERENCES, "jobs and seeds of rows")


def check_evidence(evidence: Evidence) -> None:
    """Raise `BrokenBundle` for outcomes whose comparison would take too long."""
    rows = [row for table in evidence.tables for row in table.scores]
    _check(EVIDENCE, len(rows), MOST_ROWS, "rows")
    for row in rows:
        _check(EVIDENCE, len(row.seeds), MOST_SEEDS, f"seeds of {row.label!r}")
        outcomes = len(row.seeds) * row.items
        _check(EVIDENCE, outcomes, MOST_ROW_OUTCOMES, f"outcomes of {row.label!r}")
    named = sum(len(table.jobs) for table in evidence.tables)
    _check(EVIDENCE, named, MOST_REFERENCES, "jobs that count")
    pairs = [pairs_of(table.scores) for table in evidence.tables]
    _check(EVIDENCE, sum(pairs), MOST_PAIRS, "pairs of rows")
    largest = [_largest(table.scores) for table in evidence.tables]
    compared = sum(count * size for count, size in zip(pairs, largest, strict=True))
    _check(EVIDENCE, compared, MOST_PAIRED_OUTCOMES, "outcomes in pairs")


def pairs_of(rows: Sequence[Scores]) -> int:
    """How many two rows of a table are compared, at most: those of one budget or of none."""
    by_budget = Counter(row.budget for row in rows)
    everywhere = by_budget.pop(None, 0)
    within = sum(_pairs(count) for count in by_budget.values())
    return within + everywhere * by_budget.total() + _pairs(everywhere)


def _pairs(rows: int) -> int:
    return rows * (rows - 1) // 2


def _largest(rows: Iterable[Scores]) -> int:
    return max((len(row.seeds) * row.items for row in rows), default=0)


def _check(member: str, found: int, most: int, what: str) -> None:
    if found > most:
        raise BrokenBundle(member, f"{found:,} {what}; a bundle has at most {most:,}.")
