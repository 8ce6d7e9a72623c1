"""A base model that is trained in a second, and what it is asked."""

from typing import Any

TASK = {"length": 4, "alphabet": 5}


def a_small_base(name: str) -> dict[str, Any]:
    """The spec of one of two layers and two seeds."""
    return {
        "kind": "pretrain",
        "name": name,
        "family": {"name": "minigpt", "layers": 2, "width": 16, "heads": 2},
        "task": {**TASK, "name": "sort_ascending"},
        "training": {"steps": 40, "batch_size": 16},
        "seeds": 2,
        "evaluation": {"samples": 20},
    }
