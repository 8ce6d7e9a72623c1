"""The pretraining that is broken off and resumed."""

from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedPretrain
from adaptlab.specs.spec import PretrainSpec

STEPS = 400  # curve points stand two steps apart, so that a break can fall between them


def spec(**changes: object) -> ResolvedPretrain:
    document = {
        "name": "tiny",
        "family": {"name": "minigpt", "width": 8, "heads": 2},
        "task": {"name": "sort_ascending", "length": 4, "alphabet": 5},
        "training": {"steps": STEPS, "batch_size": 8},
        "seeds": 2,
        "evaluation": {"samples": 50},
        **changes,
    }
    return resolve(PretrainSpec.model_validate(document), None)
