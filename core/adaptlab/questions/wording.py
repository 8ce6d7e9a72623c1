"""The words of a question: its answer, what is open, and what would settle it."""

from collections.abc import Mapping, Sequence

from adaptlab.figures import counted, listed, percent
from adaptlab.questions.goals import Goal, Goals, reference_of
from adaptlab.questions.passes import Place
from adaptlab.questions.statements import Standing, Statement
from adaptlab.studies.question import WithinMarginOf
from adaptlab.studies.study import QuestionSpec

MOST_NAMED = 3
"""Open goals named in one sentence; the rest are counted."""


def asked_text(question: QuestionSpec) -> str:
    """Return what is asked: "Which method is the best, to within 1 point"."""
    points = f"{100 * question.margin:g} {'point' if question.margin == 0.01 else 'points'}"
    if isinstance(question.decide, WithinMarginOf):
        return f"Which methods score at most {points} less than {question.decide.within_margin_of}"
    if question.decide == "works":
        return f"Which methods exceed the base model alone and chance by more than {points}"
    if question.decide == "order":
        return f"Which order the methods have, unless they differ by less than {points}"
    return f"Which method is the best, to within {points}"


def statement_text(statement: Statement) -> str:
    """Return a statement as a clause: "lora scores more than prefix_tuning"."""
    first, by = statement.first, statement.by
    if statement.kind != "exceeds":
        return f"{first} scores {statement.kind} {percent(by)}"
    second = statement.second
    if by == 0:
        return f"{first} scores more than {second}"
    if by < 0:
        return f"{first} scores at most {100 * -by:g} points less than {second}"
    return f"{first} scores over {100 * by:g} points more than {second}"


def goal_text(goal: Goal) -> str:
    """Return how a goal was settled, or what it still needs."""
    if (way := goal.way) is not None:
        return f"{' and '.join(statement_text(one.statement) for one in way)}."
    nearest = max(goal.nearest, key=lambda one: one.needs or 0)
    aim = " and ".join(goal.methods)
    if goal.needs is None:
        return f"Open: {aim}; no number of seeds in reach is expected to settle it."
    more = counted(max(1, goal.needs - goal.seeds), "more seed")
    return (
        f"Open: {aim}; {more} should show that {statement_text(nearest.statement)} (evidence "
        f"{nearest.evidence:.3g} of {nearest.threshold:.3g})."
    )


def table_sentence(
    question: QuestionSpec,
    *,
    goals: Goals,
    accuracies: Mapping[str, float | None],
    seeds: Mapping[str, int],
    waits: Sequence[str],
    failed: Sequence[str],
) -> str:
    """Return the answer at one place, or what is known so far."""
    parts: list[str] = []
    if waits:
        parts.append(
            f"Not known yet: {listed(waits)} {_are(waits)} still being tuned or run first."
        )
    elif len(accuracies) - len(failed) > 1:
        parts.append(_finding(question, goals, accuracies, seeds))
        parts += _open(goals.open)
    if failed:
        parts.append(f"{listed(failed)} could not be run, so nothing is said about it.")
    return " ".join(parts) or "Not known yet: nothing has been run."


def ending_sentence(tables: Sequence[tuple[Place, str]]) -> str:
    """Return the answers of all places, named if there are several."""
    if len(tables) == 1:
        return tables[0][1]
    return " ".join(
        f"{place.task} on {place.base_model} at {place.budget:,}: {sentence}"
        for place, sentence in tables
    )


def _finding(
    question: QuestionSpec,
    goals: Goals,
    accuracies: Mapping[str, float | None],
    seeds: Mapping[str, int],
) -> str:
    level = f"{100 * question.confidence:g} % confidence at every look"
    settled = [goal for goal in goals.goals if goal.way is not None]
    if question.decide == "best":
        return _best(goals, accuracies, seeds, level, question.margin)
    if question.decide == "order":
        if not settled:
            return "No two methods have been told apart."
        clauses = listed([_way(goal.way) for goal in settled if goal.way])
        return f"{clauses} ({level})."
    reference = reference_of(question)
    yes = [goal.methods[0] for goal in settled if goal.way == goal.ways[0]]
    no = [goal.methods[0] for goal in settled if goal.way != goal.ways[0]]
    if question.decide == "works":
        decided = ("works", "work"), ("does not work", "do not work")
    else:
        near = f"within {100 * question.margin:g} points of {reference}"
        decided = (f"is {near}", f"are {near}"), (f"is not {near}", f"are not {near}")
    clauses = [
        f"{listed([_scored(label, accuracies) for label in labels])} {words[len(labels) > 1]}"
        for labels, words in zip((yes, no), decided, strict=True)
        if labels
    ]
    return f"{'; '.join(clauses)} ({level})." if clauses else "Nothing is decided yet."


def _best(
    goals: Goals,
    accuracies: Mapping[str, float | None],
    seeds: Mapping[str, int],
    level: str,
    margin: float,
) -> str:
    left = goals.left
    count = counted(max(seeds[label] for label in left), "seed")
    if len(left) == 1 and not goals.goals:
        rest = [label for label in accuracies if label != left[0] and label in goals.out]
        against = f"; {listed([_scored(label, accuracies) for label in rest])}" if rest else ""
        return f"{_scored(left[0], accuracies)} is the best{against} ({level}, {count})."
    if not goals.open:
        near = listed([goal.methods[1] for goal in goals.goals])
        return (
            f"{_scored(left[0], accuracies)} is the best to within {100 * margin:g} points of "
            f"{near} ({level}, {count})."
        )
    named = listed([_scored(label, accuracies) for label in left])
    out = [label for label in accuracies if label in goals.out]
    ruled_out = f" {listed(out)} cannot be the best ({level})." if out else ""
    return f"Which is the best of {named} is not known with {count}.{ruled_out}"


def _open(goals: Sequence[Goal]) -> list[str]:
    texts = [goal_text(goal) for goal in goals[:MOST_NAMED]]
    if len(goals) > MOST_NAMED:
        texts.append(f"{counted(len(goals) - MOST_NAMED, 'further pair')} are open.")
    return texts


def _way(way: Sequence[Standing]) -> str:
    if len(way) == 2 and all(one.statement.by < 0 for one in way):
        first, second, by = way[0].statement.first, way[0].statement.second, way[0].statement.by
        return f"{first} and {second} differ by less than {100 * -by:g} points"
    return " and ".join(statement_text(one.statement) for one in way)


def _scored(label: str, accuracies: Mapping[str, float | None]) -> str:
    accuracy = accuracies[label]
    return label if accuracy is None else f"{label} ({percent(accuracy)})"


def _are(labels: Sequence[str]) -> str:
    return "is" if len(labels) == 1 else "are"
