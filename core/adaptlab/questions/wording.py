"""The words of a question: its answer, and what is open."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from adaptlab.comparisons.row_names import method_in_sentence, starting
from adaptlab.figures import counted, listed, percent
from adaptlab.questions.goals import Goal, Goals, reference_of
from adaptlab.questions.passes import ComparisonPlace
from adaptlab.questions.statements import SeedStatement, Standing
from adaptlab.studies.question import WithinMarginOf
from adaptlab.studies.study import QuestionSpec

MOST_NAMED = 3
"""Open goals named in one sentence; the rest are counted."""


def asked_text(question: QuestionSpec) -> str:
    """Return what is asked: "Which method is the best, to within 1 point"."""
    margin = margin_text(question.margin)
    if isinstance(question.decide, WithinMarginOf):
        reference = method_in_sentence(question.decide.within_margin_of)
        return f"Which methods score at most {margin} less than {reference}"
    if question.decide == "works":
        return f"Which methods exceed the base model alone and chance by more than {margin}"
    if question.decide == "order":
        return f"Which order the methods have, unless they differ by less than {margin}"
    return f"Which method is the best, to within {margin}"


def margin_text(margin: float) -> str:
    """Return a margin in points: "1 point", "0.5 points"."""
    points = f"{100 * margin:g}"
    return f"{points} {'point' if points == '1' else 'points'}"


def statement_text(statement: SeedStatement) -> str:
    """Return a statement as a clause: "LoRA scores more than prefix tuning"."""
    first, by = method_in_sentence(statement.first), statement.by
    if statement.kind != "exceeds":
        return f"{first} scores {statement.kind} {percent(by)}"
    second = method_in_sentence(str(statement.second))
    if by == 0:
        return f"{first} scores more than {second}"
    if by < 0:
        return f"{first} scores at most {margin_text(-by)} less than {second}"
    return f"{first} scores over {margin_text(by)} more than {second}"


def goal_text(goal: Goal, limit: int) -> str:
    """Return how a goal was settled, or what it still needs.

    `limit` is the number of seeds that each method may have.
    """
    if (way := goal.way) is not None:
        return f"{starting(_way(way), goal.methods[0])}."
    nearest = goal.nearest
    shown = f"evidence {nearest.evidence:.3g} of {nearest.threshold:.3g}"
    aim = " and ".join(map(method_in_sentence, goal.methods))
    if goal.needs is None:
        return f"Open: {aim}; no number of seeds in reach is expected to settle it ({shown})."
    if goal.needs > limit:
        return (
            f"Open: {aim}; about {goal.needs:,} seeds would show that "
            f"{statement_text(nearest.statement)}, more than the {limit:,} allowed ({shown})."
        )
    more = counted(max(1, goal.needs - goal.seeds), "more seed")
    return f"Open: {aim}; {more} should show that {statement_text(nearest.statement)} ({shown})."


def table_sentence(
    question: QuestionSpec,
    *,
    goals: Goals,
    accuracies: Mapping[str, float | None],
    seeds: Mapping[str, int],
    waits: Sequence[str],
    failed: Sequence[str],
    times_longer: int = 1,
) -> str:
    """Return the answer at one place, or what is known so far."""
    parts: list[str] = []
    if waits:
        verb = "is" if len(waits) == 1 else "are"
        parts.append(
            f"No answer yet: {_listed(waits)} {verb} being tuned or run for the first time."
        )
    elif len(accuracies) - len(failed) > 1:
        parts.append(_finding(question, goals, accuracies, seeds))
        parts += _open(goals.open, question.at_most.seeds)
    if times_longer > 1:
        parts.append(
            f"All methods are trained for {times_longer} times the steps of the study, because "
            "losses still fell."
        )
    if failed:
        them = "it" if len(failed) == 1 else "them"
        names = starting(_listed(failed), failed[0])
        parts.append(f"{names} could not be run, so nothing is said about {them}.")
    return " ".join(parts) or "No answer yet: nothing has been run."


def _listed(labels: Sequence[str]) -> str:
    return listed([*map(method_in_sentence, labels)])


def spent_text(replicate_steps: int, passes: int, fixed: int) -> str:
    """Return what a study has cost, against a fixed grid with as many seeds."""
    share = (
        ""
        if not fixed
        else f", {100 * replicate_steps / fixed:.0f} % of a fixed grid with as many seeds"
    )
    return f"{replicate_steps:,} replicate-steps in {passes} passes{share}."


def ending_sentence(tables: Sequence[tuple[ComparisonPlace, str]]) -> str:
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
    known = {label: accuracy for label, accuracy in accuracies.items() if accuracy is not None}
    count = counted(max((seeds[label] for label in known), default=0), "seed")
    scored = {
        label: f"{method_in_sentence(label)} ({percent(accuracy)})"
        for label, accuracy in known.items()
    }
    if question.decide == "best":
        return _best(goals, scored, level, count, margin_text(question.margin))
    if not any(goal.way for goal in goals.goals):
        return f"Nothing is decided with {count}."
    if question.decide == "order":
        ranked = sorted(known, key=lambda label: known[label], reverse=True)
        return f"{_order(goals, ranked, scored)} ({level}, {count})."
    return f"{_of_reference(question, goals, scored)} ({level}, {count})."


def _best(goals: Goals, scored: Mapping[str, str], level: str, count: str, margin: str) -> str:
    leader, out = goals.left[0], [label for label in scored if label in goals.out]
    if len(goals.left) == 1 and not goals.goals:
        rest = listed([scored[label] for label in out])
        return (
            f"{starting(scored[leader], leader)} is the best: its seeds usually beat those of "
            f"{rest} ({level}, {count})."
        )
    leader = goals.goals[0].methods[0]
    near = [goal.methods[1] for goal in goals.goals if goal.way is not None]
    does = "does" if len(near) == 1 else "do"
    exceeds = f"{listed([scored[label] for label in near])} {does} not exceed"
    if not goals.open:
        return (
            f"{starting(scored[leader], leader)} is the best to within {margin}: "
            f"{exceeds} it by more ({level}, {count})."
        )
    named = [leader, *(goal.methods[1] for goal in goals.open)]
    parts = [
        f"Which of {listed([scored[label] for label in named])} is the best is not known with "
        f"{count}."
    ]
    if out:
        verb = "is" if len(out) == 1 else "are"
        parts.append(f"{starting(_listed(out), out[0])} {verb} not the best ({level}).")
    if near:
        they = starting(exceeds, near[0])
        parts.append(f"{they} {method_in_sentence(leader)} by more than {margin} ({level}).")
    return " ".join(parts)


def _order(goals: Goals, ranked: Sequence[str], scored: Mapping[str, str]) -> str:
    ways = [goal.way for goal in goals.goals if goal.way is not None]
    strict = {
        (way[0].statement.first, str(way[0].statement.second)) for way in ways if len(way) == 1
    }
    if all(pair in strict for pair in pairwise(ranked)):
        chain = ", then ".join(scored[label] for label in ranked)
        return f"The order is {chain}: seeds of each usually beat those of the next"
    return f"For most seeds, {'; '.join(_way(way) for way in ways)}"


def _of_reference(question: QuestionSpec, goals: Goals, scored: Mapping[str, str]) -> str:
    reference, margin = reference_of(question), margin_text(question.margin)
    settled = [goal for goal in goals.goals if goal.way is not None]
    yes = [goal.methods[0] for goal in settled if goal.way == goal.ways[0]]
    no = [goal.methods[0] for goal in settled if goal.way != goal.ways[0]]
    if question.decide == "works":
        more = f"of {method_in_sentence(str(reference))} and of chance by more than {margin}"
        says = (f"works, exceeding the scores {more}", f"work, exceeding the scores {more}")
        denies = ("does not work", "do not work")
    else:
        below = f"less than {scored[str(reference)]}"
        says = (f"scores at most {margin} {below}", f"score at most {margin} {below}")
        denies = (f"scores over {margin} {below}", f"score over {margin} {below}")
    clauses = [
        f"{listed([scored[label] for label in labels])} {words[len(labels) > 1]}"
        for labels, words in ((yes, says), (no, denies))
        if labels
    ]
    return f"For most seeds, {'; '.join(clauses)}"


def _open(goals: Sequence[Goal], limit: int) -> list[str]:
    texts = [goal_text(goal, limit) for goal in goals[:MOST_NAMED]]
    if (more := len(goals) - MOST_NAMED) > 0:
        texts.append(f"{counted(more, 'further pair')} {'is' if more == 1 else 'are'} open.")
    return texts


def _way(way: Sequence[Standing]) -> str:
    if len(way) == 2 and all(one.statement.by < 0 for one in way):
        one = way[0].statement
        first, second = method_in_sentence(one.first), method_in_sentence(str(one.second))
        return f"{first} and {second} differ by at most {margin_text(-one.by)}"
    return " and ".join(statement_text(one.statement) for one in way)
