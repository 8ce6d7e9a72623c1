r"""Compare methods at one budget.

Asks the server which methods fit the budget, trains those with the same number of trials, and
prints the results: python examples/compare_methods.py BASE_MODEL TASK BUDGET. After `make demo`,
for example:

    .venv/bin/python examples/compare_methods.py sort-asc-1l \
        '{name: sort_descending, length: 6}' 960
"""

import sys

import yaml

from adaptlab.statistics import seed_interval
from adaptlab_client import Client

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
        scores = {}
        for name, job in jobs.items():
            if client.jobs.wait(job.id).succeeded:
                own = [
                    e
                    for e in client.jobs.evaluations(job.id, attached=True)
                    if e.task == job.resolved_spec.task
                ]
                scores[name] = seed_interval([e.correct for e in own], [e.total for e in own])
        for name, score in sorted(scores.items(), key=lambda entry: -entry[1].mean):
            used = jobs[name].budget
            count = 0 if used is None else used.trainable_parameters
            print(f"{name:20} {count:8,} {score.mean:6.1%} ({score.low:.1%} to {score.high:.1%})")


if __name__ == "__main__":
    main(sys.argv[1], yaml.safe_load(sys.argv[2]), int(sys.argv[3]))
