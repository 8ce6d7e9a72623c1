"""Builders of studies and base models, for the recipes of any paper."""

from collections.abc import Sequence

from adaptlab.studies.study import StudySpec

Members = dict[str, object]
"""Members of a spec, or the knobs of a plug-in."""

SEEDS = 5
"""The fewest seeds of a preset; fewer can order no two methods."""


def base(
    name: str,
    family: Members,
    task: Members,
    training: Members,
    *,
    seeds: int,
    scored: Sequence[Members],
    samples: int = 3200,
    **members: object,
) -> Members:
    """Return a miniGPT to pretrain, scored on all tasks of the tables."""
    return {
        "name": name,
        "family": {"name": "minigpt", **family},
        "task": task,
        "training": training,
        "seeds": seeds,
        "evaluation": {"tasks": tuple(scored), "samples": samples},
        **members,
    }


def method(label: str, name: str, **given: object) -> Members:
    """Return a method of a study, by default on all tasks and bases."""
    return {"name": name, "label": label, **given}


def study(
    name: str,
    *,
    bases: Sequence[Members | str],
    tasks: Sequence[Members],
    methods: Sequence[Members],
    budget: int | Members,
    seeds: int | Sequence[int] = SEEDS,
    scored: Sequence[Members] = (),
    samples: int = 3200,
    **members: object,
) -> StudySpec:
    """Return a study of methods within one budget, by default of parameters.

    It is scored on its own tasks unless `scored` is given.
    """
    return StudySpec.model_validate(
        {
            "name": name,
            "base_models": tuple(bases),
            "tasks": tuple(tasks),
            "methods": tuple(methods),
            "budgets": (budget,),
            "seeds": seeds,
            "evaluation": {"tasks": tuple(scored or tasks), "samples": samples},
            **members,
        }
    )
