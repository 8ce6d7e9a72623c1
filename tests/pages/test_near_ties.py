"""Items of standard tasks that hang on rounding, on a job's page."""

from adaptlab.comparisons.task_measures import near_tie_counts
from adaptlab_answers.results import EvaluationLinks, EvaluationView


def scored(seed: int, share: float | None, *, attached: bool = True) -> EvaluationView:
    return EvaluationView(
        id=seed,
        replicate=seed,
        seed=seed,
        task={"name": "benchmark", "tasks": ["arc_easy"], "shots": 2},
        split="test",
        attached=attached,
        correct=100,
        total=600,
        accuracy=1 / 6,
        measures={} if share is None else {"near_ties": share},
        links=EvaluationLinks(outcomes=""),
    )


def test_near_ties_are_counted_by_task() -> None:
    views = [scored(0, 3 / 600), scored(1, 1 / 600), scored(0, 1.0, attached=False)]
    assert near_tie_counts(views) == (
        "arc_easy (2 shots): 4 of 1,200 items over all seeds hang on less than 0.0001.",
    )
    assert near_tie_counts([scored(0, None)]) == (), "earlier workers do not send them"
