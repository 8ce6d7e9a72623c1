"""Studies with a question: the evidence, the decisions, and the cost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from adaptlab_client.cli.printing.terminal import one_line, print_table

if TYPE_CHECKING:
    from adaptlab_answers.questions import DecisionView, QuestionCost, QuestionView

DECISIONS = ("decision", "ended", "planned", "replayed", "finding")
METHODS = ("method", "budget", "stage", "rate", "seeds", "score", "replicate-steps")


def print_question(question: "QuestionView") -> None:
    """Print the answer so far, the evidence, and what it has cost."""
    from adaptlab.comparisons.row_names import row_title
    from adaptlab.questions.wording import spent_text  # a plain `--help` loads no pydantic

    print(one_line(question.sentence))
    print()
    rows = [
        [
            row_title(m.label),
            table.place.budget,
            m.stage,
            m.rate,
            m.seeds,
            m.accuracy,
            m.replicate_steps,
        ]
        for table in question.tables
        for m in table.methods
    ]
    print_table(METHODS, rows)
    goals = [goal for table in question.tables for goal in table.goals]
    for goal in goals:
        print(one_line(f"{'settled' if goal.settled else 'open'}: {goal.text}"))
    print()
    spent = (question.replicate_steps, len(question.passes), question.fixed_replicate_steps)
    print(one_line(spent_text(*spent)))


def cost_text(cost: "QuestionCost") -> str:
    """Return what a study with a question is expected to cost."""
    return (
        f"The question takes {cost.least_replicate_steps:,} to {cost.most_replicate_steps:,} "
        f"replicate-steps, about {cost.least_seconds / 60:.1f} to {cost.most_seconds / 60:.1f} "
        f"minutes on one worker; a fixed grid with as many seeds would take "
        f"{cost.fixed_replicate_steps:,}."
    )


def decision_row(one: "DecisionView") -> list[object]:
    """Return a decision as a line of a table."""
    planned = "; ".join(f"{p.method}: {p.kind} {len(p.seeds)} seeds" for p in one.planned)
    seen = ", ".join(map(str, one.seen))
    return [one.number, seen, planned or one.ending, one.replayed, one.sentence]


def print_decisions(taken: Sequence["DecisionView"]) -> None:
    """Print every decision: what had ended, what was known, and what ran next and why."""
    for one in taken:
        again = {None: "", True: " (replayed: the same)", False: " (replayed: another decision)"}
        passes = "pass" if len(one.seen) == 1 else "passes"
        numbers = ", ".join(map(str, one.seen))
        ended = f"{passes} {numbers} ended" if one.seen else "nothing had ended"
        print(f"{one.number}. {ended}{again[one.replayed]}")
        print(one_line(f"   {one.sentence}"))
        for planned in one.planned:
            seeds = ", ".join(map(str, planned.seeds))
            what = f"{planned.method}, {planned.kind}, seeds {seeds}: {planned.reason}"
            print(one_line(f"   -> {what}"))
        for number in one.unneeded:
            print(f"   -> pass {number} is not needed any more")
        if one.ending is not None:
            print(f"   -> ends: {one.ending.replace('_', ' ')}")
