r"""Search settings with Optuna: python examples/search_with_optuna.py BASE_MODEL TASK BUDGET.

An own search in place of the grid of trials: Optuna asks, every suggestion is a job with that one
trial, and is told the accuracy on the validation split. Of the test scores only those of the
settings that won are read. Both methods get the same number of suggestions and steps; what each
took is printed, because a comparison says nothing where the effort was unequal. Needs Optuna
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
class Found:
    """The settings that won, their job, and the effort: suggestions and steps of all seeds."""

    settings: dict[str, float]
    job: JobView
    suggestions: int
    steps: int


def main(base_model: str, task: object, budget: int) -> None:
    """Search for each method in turn; print what won, its test accuracy and the effort."""
    asked = {
        "kind": "adapt",
        "base_model": base_model,
        "task": task,
        "budget": budget,
        "training": {"steps": STEPS},
    }
    with Client() as client:
        for method in METHODS:
            report(client, method, search(client, {**asked, "method": method}, SUGGESTIONS))


def search(client: Client, asked: dict[str, Any], suggestions: int) -> Found:
    """The best of so many suggestions for one method, by mean validation accuracy over seeds."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rates = client.methods.get(asked["method"]).learning_rate_range
    # Seeded, and without pruning, so that the search is the same and as long for every method.
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
        jobs.append(client.jobs.wait(client.jobs.submit({**asked, "tuning": tuning}).id))
        study.tell(trial, validation_accuracy(client, jobs[-1]))
    steps = sum(one.steps or 0 for job in jobs for one in client.jobs.replicates(job.id))
    best = study.best_trial
    return Found(best.params, jobs[best.number], len(jobs), steps)


def validation_accuracy(client: Client, job: JobView) -> float:
    """The last accuracy on the validation split, a mean over seeds; 0 for a seed that diverged."""
    if not job.succeeded:
        return 0.0
    kept = {one.replicate for one in client.jobs.replicates(job.id) if one.selected}
    curves = client.jobs.metrics(job.id, names=["validation_accuracy"])
    last = {curve.replicate: curve.values[-1] or 0.0 for curve in curves}
    seeds = len(client.jobs.replicates(job.id))
    return sum(last[replicate] for replicate in kept) / seeds


def report(client: Client, method: str, found: Found) -> None:
    """The settings that won with their accuracy on the task itself, and what was spent."""
    if not found.job.succeeded:
        print(f"{method:20} nothing that was tried succeeded: {found.job.reason}")
        return
    evaluations = client.jobs.evaluations(found.job.id, attached=True)
    own = [one.accuracy for one in evaluations if one.task == found.job.resolved_spec.task]
    settings = ", ".join(f"{knob} {value:.2g}" for knob, value in found.settings.items())
    print(f"{method:20} {mean(own):6.1%} on the test split with {settings}")
    print(f"{'':20} effort: {found.suggestions} trials a seed, {found.steps:,} steps in all")


if __name__ == "__main__":
    main(sys.argv[1], yaml.safe_load(sys.argv[2]), int(sys.argv[3]))
