r"""Search settings with Optuna, with the same effort for every method.

Replaces the grid of trials: every suggestion of Optuna is a job with that one trial, and Optuna
receives its validation accuracy. Test scores are read only for the winning settings. The effort is
printed, because a comparison with unequal effort shows nothing.

Usage: python examples/search_with_optuna.py BASE_MODEL TASK BUDGET. Needs Optuna
(`.venv/bin/pip install -e '.[examples]' -c constraints.txt`) and a server, for example after
`make demo`:

    .venv/bin/python examples/search_with_optuna.py sort-asc-1l \
        '{name: sort_descending, length: 6}' 960
"""

import sys
from dataclasses import dataclass
from statistics import mean
from typing import Any

import yaml

from adaptlab_client import Client, JobView

METHODS, SUGGESTIONS, STEPS = ("prefix_tuning", "lora"), 8, 400
KNOBS = ("learning_rates", "weight_decays", "initial_scales")


@dataclass(frozen=True)
class SearchResult:
    """The winning settings, their job, and the effort over all seeds."""

    settings: dict[str, float]
    job: JobView
    suggestions: int
    steps: int


def main(base_model: str, task: object, budget: int) -> None:
    """Search for each method; print the settings, test accuracy and effort."""
    spec = {
        "kind": "adapt",
        "base_model": base_model,
        "task": task,
        "budget": budget,
        "training": {"steps": STEPS},
    }
    with Client() as client:
        for method in METHODS:
            report(client, method, search(client, {**spec, "method": method}, SUGGESTIONS))


def search(client: Client, spec: dict[str, Any], suggestions: int) -> SearchResult:
    """Return the best suggestion for one method, by mean validation accuracy."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rates = client.methods.get(spec["method"]).learning_rate_range
    # Seeded and without pruning, so that the search is equal and equally long for every method.
    sampler = optuna.samplers.TPESampler(seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    jobs: list[JobView] = []
    for _ in range(suggestions):
        trial = study.ask()
        values = (
            trial.suggest_float("learning_rates", *rates, log=True),
            trial.suggest_float("weight_decays", 0, 0.1),
            trial.suggest_float("initial_scales", 0.3, 3, log=True),
        )
        tuning = {knob: [value] for knob, value in zip(KNOBS, values, strict=True)}
        jobs.append(client.jobs.wait(client.jobs.submit({**spec, "tuning": tuning}).id))
        study.tell(trial, validation_accuracy(client, jobs[-1]))
    steps = sum(r.steps or 0 for job in jobs for r in client.jobs.replicates(job.id))
    best = study.best_trial
    return SearchResult(best.params, jobs[best.number], len(jobs), steps)


def validation_accuracy(client: Client, job: JobView) -> float:
    """Return the last validation accuracy, as a mean over seeds.

    A seed that diverged counts as 0.
    """
    if not job.succeeded:
        return 0.0
    selected = {r.replicate for r in client.jobs.replicates(job.id) if r.selected}
    curves = client.jobs.metrics(job.id, names=["validation_accuracy"])
    last = {curve.replicate: curve.values[-1] or 0.0 for curve in curves}
    seeds = len(client.jobs.replicates(job.id))
    return sum(last[replicate] for replicate in selected) / seeds


def report(client: Client, method: str, result: SearchResult) -> None:
    """Print the winning settings with their test accuracy, and the effort."""
    if not result.job.succeeded:
        print(f"{method:20} no trial succeeded: {result.job.reason}")
        return
    evaluations = client.jobs.evaluations(result.job.id, attached=True)
    own = [e.accuracy for e in evaluations if e.task == result.job.resolved_spec.task]
    settings = ", ".join(f"{knob} {value:.2g}" for knob, value in result.settings.items())
    print(f"{method:20} {mean(own):6.1%} on the test split with {settings}")
    print(f"{'':20} effort: {result.suggestions} trials per seed, {result.steps:,} steps in all")


if __name__ == "__main__":
    main(sys.argv[1], yaml.safe_load(sys.argv[2]), int(sys.argv[3]))
