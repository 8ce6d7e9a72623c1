"""Limits of the work that checking a bundle takes.

The sizes of members limit what is read, but the computation grows faster. The number of pairs grows
with the square of the rows, and the cost of a pair with its seeds and items. So they are counted
before anything is computed.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from adaptlab.bundle.contents import CLAIM, EVIDENCE, JOBS, ClaimEvidence, StudyClaim
from adaptlab.errors import BrokenBundle
from adaptlab.statistics import Scores

MOST_JOBS = 10_000
MOST_ROWS = 4_096
"""Rows of all tables together."""
MOST_PAIRS = 50_000
"""Compared pairs of rows in all tables together; each takes one or two milliseconds."""
MOST_SEEDS = 1_024
"""Seeds of one row."""
MOST_ROW_OUTCOMES = 16_000_000
"""Seeds times items of one row; each takes eight bytes during the comparison."""
MOST_PAIRED_OUTCOMES = 20_000_000_000
"""Compared outcomes of all pairs together."""
MOST_REFERENCES = 100_000
"""Jobs and seeds that rows name, of all tables together."""


def check_jobs(content: bytes) -> None:
    """Raise `BrokenBundle` for too many jobs, which are lines of the content."""
    _check(JOBS, content.count(b"\n") + 1, MOST_JOBS, "lines")


def check_claim(claim: StudyClaim) -> None:
    """Raise `BrokenBundle` for a claim with too many rows."""
    rows = [row for table in claim.tables for row in table.methods]
    _check(CLAIM, len(rows), MOST_ROWS, "rows")
    named = sum(len(row.jobs) + len(row.seeds) for row in rows)
    _check(CLAIM, named, MOST_REFERENCES, "jobs and seeds of rows")


def check_evidence(evidence: ClaimEvidence) -> None:
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
    """Return the most pairs of rows that a table compares.

    Rows are compared with those of the same budget and with those without a budget.
    """
    by_budget = Counter(row.budget for row in rows)
    everywhere = by_budget.pop(None, 0)
    within = sum(_pairs(count) for count in by_budget.values())
    return within + everywhere * by_budget.total() + _pairs(everywhere)


def _pairs(rows: int) -> int:
    return rows * (rows - 1) // 2


def _largest(rows: Iterable[Scores]) -> int:
    return max((len(row.seeds) * row.items for row in rows), default=0)


def _check(member: str, count: int, most: int, noun: str) -> None:
    if count > most:
        raise BrokenBundle(member, f"it has {count:,} {noun}. The limit is {most:,}.")
