"""Specs of jobs that train a tiny model in no time."""

from adaptlab.specs.spec import AdaptSpec, PretrainSpec

TASK = {"name": "sort_ascending", "length": 4, "alphabet": 5}


def pretraining(**changes: object) -> PretrainSpec:
    return PretrainSpec.model_validate(
        {
            "name": "tiny",
            "family": {"name": "minigpt", "width": 16, "heads": 2},
            "task": TASK,
            "training": {"steps": 30, "batch_size": 16},
            "seeds": 2,
            "evaluation": {"samples": 50},
            **changes,
        }
    )


def adapting(method: object, **changes: object) -> AdaptSpec:
    return AdaptSpec.model_validate(
        {
            "base_model": "tiny",
            "task": {**TASK, "name": "sort_descending"},
            "method": method,
            "training": {"steps": 20, "batch_size": 16},
            "evaluation": {"samples": 50},
            **changes,
        }
    )
