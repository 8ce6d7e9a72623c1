r"""Compare methods at one budget.

Asks the server which methods fit the budget, trains those with the same number of trials, and
prints the results: python examples/compare_methods.py BASE_MODEL TASK BUDGET. After `make demo`,
for example:

    .venv/bin/python examples/compare_methods.py sort-asc-1l \
        '{name: sort_descending, length: 6}' 960
"""

import sys

import yaml

from adaptlab.statistics import Interval, seed_interval
from adaptlab_client import Client, JobView

TRIALS, STEPS = 4, 400


def main(base_model: str, task: object, budget: int) -> None:
    """Submit a job for every method that fits; print results, best first."""
    with Client() as client:
        solved = client.budgets.solve(budget, base_model=base_model).data
        for method in solved:
            if not method.feasible:
                nearest = ", ".join(f"{count:,}" for count in method.nearest)
                print(f"{method.name} does not fit; the nearest budgets are {nearest}")
        jobs = {
            method.name: client.jobs.submit(
                {
                    "kind": "adapt",
                    "base_model": base_model,
                    "task": task,
                    "method": method.name,
                    "budget": budget,
                    "training": {"steps": STEPS},
                    "tuning": {"trials": TRIALS},
                }
            )
            for method in solved
            if method.feasible
        }
        scores = {
            name: score(client, job)
            for name, job in jobs.items()
            if client.jobs.wait(job.id).succeeded
        }
        for name, interval in sorted(scores.items(), key=lambda entry: -entry[1].mean):
            used = jobs[name].budget
            count = 0 if used is None else used.trainable_parameters
            low, high = 100 * interval.low, 100 * interval.high
            accuracy = f"{100 * interval.mean:5.1f} % ({low:.1f} to {high:.1f} %)"
            print(f"{name:20} {count:8,} {accuracy}")


def score(client: Client, job: JobView) -> Interval:
    """Return a job's mean accuracy on its own task, with its interval over seeds."""
    evaluations = client.jobs.evaluations(job.id, attached=True)
    own = [e for e in evaluations if e.task == job.resolved_spec.task]
    return seed_interval([e.correct for e in own], [e.total for e in own])


if __name__ == "__main__":
    main(sys.argv[1], yaml.safe_load(sys.argv[2]), int(sys.argv[3]))
