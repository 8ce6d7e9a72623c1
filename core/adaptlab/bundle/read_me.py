"""The README of a bundle: its members, and how to check it."""

from adaptlab.bundle.contents import MOST_PLOTS, FrozenStudy, StudyClaim
from adaptlab.bundle.decision import plain

# A change of the text needs another `contents.FORMAT`, because checks compare it.
_TEXT = """\
# The decision of the study {name}, frozen

{partial}Read `decision.md` first. Check everything, without any server, with

    adaptlab bundle check FILE --render FOLDER

which verifies every digest, computes all intervals, tests, ranks and verdicts again from the
outcomes in here, says whether they agree, and draws text and plots again.

| member | what it is |
| --- | --- |
| `decision.md` | findings, warnings, question, verdicts with intervals, limits of the evidence |
| `claim.json` | the same for programs, as the server's comparison of the study |
| `evidence.json` | which test items every seed of every row got right |
| `specs/study.json` | the study as it was sent, and with every default written out (`resolved`) |
| `specs/jobs.jsonl` | its jobs, one per line: as submitted, as run, and where |
| `tables/scores` | one row per method and budget |
| `tables/pairs` | every pair of methods with its difference, p-values and verdict |
| `tables/outcomes` | one row per seed; `outcomes` has one bit per test item, see below |
| `tables/learning_rates` | every trial of every method |
| `tables/missing` | missing scores, and why |
| `plots/T-curves.svg` | score against budget in the table T, counted from 0 |
| `plots/T-C-….svg` | ranks, differences and learning rates in the cell C of the table T |
| `manifest.json` | the size and the SHA-256 of every other member, digests, versions |

Tables are CSV and Parquet files. There are at most {most} plots. Bits of outcomes are packed
with the first item first and written as hexadecimal; in Python
`numpy.unpackbits(numpy.frombuffer(bytes.fromhex(text), "u1"), count=items)`.

Somebody who can change a bundle can change all of it consistently. Keep the SHA-256 of the whole
file, which `adaptlab studies bundle` prints, where nobody can change it.
"""


def read_me_text(study: FrozenStudy, claim: StudyClaim) -> str:
    """Return the README of a bundle."""
    partial = "**Partial: jobs of the study failed or were cancelled.** " if claim.partial else ""
    return _TEXT.format(name=plain(study.name), partial=partial, most=MOST_PLOTS)
