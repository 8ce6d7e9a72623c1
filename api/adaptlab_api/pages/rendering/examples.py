"""Example commands for pages without content."""

import json
import shlex
from collections.abc import Mapping

FIRST_JOB = {
    "kind": "pretrain",
    "name": "sort-asc-1l",
    "family": {"name": "minigpt", "layers": 1, "heads": 1, "width": 96},
    "task": "sort_ascending",
    "training": {"steps": 2000},
    "seeds": 5,
    "capture": {"attention": {"samples": 4}},
}


FIRST_STUDY = {
    "name": "first-study",
    "base_models": ["sort-asc-1l"],
    "tasks": ["sort_descending"],
    "methods": ["frozen", "full_finetuning", "lora", "prefix_tuning"],
    "budgets": [512, 4096],
    "seeds": 5,
    "tuning": {"trials": 4},
    "training": {"steps": 2000},
}


def first_job(server: str) -> str:
    """Return the command that submits a first job to a server."""
    return _posted(f"{server}/v1/jobs", FIRST_JOB)


def first_study(server: str) -> str:
    """Return the command that creates a study of the first job's base model."""
    return _posted(f"{server}/v1/studies", FIRST_STUDY)


def recipe_by_request(server: str, name: str, preset: str) -> str:
    """Return the command that posts a recipe to a server."""
    return _posted(f"{server}/v1/studies", {"recipe": name, "preset": preset})


def recipe_by_command(name: str, preset: str) -> str:
    """Return the command that runs a recipe and prints its report."""
    return f"adaptlab recipes run {name} --preset {preset}"


def _posted(address: str, document: Mapping[str, object]) -> str:
    body = json.dumps(document, indent=2)
    return (
        f"curl {shlex.quote(address)} \\\n"
        '  -H "Authorization: Bearer $(cat .adaptlab/token)" \\\n'
        "  -H 'Content-Type: application/json' \\\n"
        f"  -d {shlex.quote(body)}"
    )
