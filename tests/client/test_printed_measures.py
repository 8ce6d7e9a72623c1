"""What a command prints of the metrics that tasks ask for."""

import pytest

from adaptlab_answers.results import EvaluationLinks, EvaluationView
from adaptlab_client.cli.printing.job_tables import print_measures

COMPLETION = {
    "name": "text_completion",
    "dataset": "capitals",
    "prompt": "{country}",
    "answer": {"field": "capital"},
    "metric": "token_f1",
}
STANDARD = {"name": "benchmark", "tasks": ["arc_easy"], "shots": 2}


def scored(
    task: dict[str, object], seed: int, *, attached: bool = True, **measures: float
) -> EvaluationView:
    return EvaluationView(
        id=seed,
        replicate=seed,
        seed=seed,
        task=task,
        split="test",
        attached=attached,
        correct=100,
        total=200,
        accuracy=0.5,
        measures=measures,
        links=EvaluationLinks(outcomes=""),
    )


def test_metrics_and_near_ties_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    evaluations = [
        *(scored(COMPLETION, seed, token_f1=0.6 + 0.1 * seed) for seed in range(3)),
        *(scored(COMPLETION, seed, attached=False, token_f1=0.25) for seed in range(3)),
        scored(STANDARD, 0, near_ties=0.01),
    ]
    print_measures(evaluations)
    told = " ".join(capsys.readouterr().out.split())
    assert "Token F1 3 70.0 % 45.2 % – 94.8 % 25.0 %" in told
    assert "2 of 200 items over all seeds hang on" in told


def test_tasks_without_a_metric_print_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_measures([scored(STANDARD, 0)])
    assert not capsys.readouterr().out
