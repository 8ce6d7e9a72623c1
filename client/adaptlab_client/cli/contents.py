"""The commands of `adaptlab` by subject, each with the place of its code."""

from collections.abc import Mapping

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Work": {
        "studies": "studies:application",
        "jobs": "jobs:application",
        "recommend": "recommend:recommend",
        "budgets": "catalogue:budgets_application",
        "recipes": "recipes:application",
        "theory": "theory:application",
        "sbatch-script": "slurm:sbatch_script",
    },
    "Results": {
        "compare": "compare:compare",
        "results": "results:application",
        "answers": "answers:answers",
        "attention": "attention:attention",
        "bundle": "bundle:application",
    },
    "Models and data": {
        "datasets": "datasets:application",
        "benchmarks": "benchmarks:application",
        "base-models": "base_models:application",
        "model-folders": "model_folders:application",
        "hub": "hub:application",
        "checkpoints": "checkpoints:application",
        "uploads": "uploads:application",
        "methods": "catalogue:methods",
        "tasks": "catalogue:tasks",
        "families": "catalogue:families",
    },
    "Team": {
        "login": "signing_in:login",
        "logout": "signing_in:logout",
        "whoami": "signing_in:whoami",
        "tokens": "tokens:application",
        "users": "people:users_application",
        "projects": "people:projects_application",
        "webhooks": "webhooks:application",
        "trackers": "trackers:application",
        "audit": "audit:application",
    },
    "Server": {
        "doctor": "doctor:doctor",
        "server": "server:application",
        "workers": "server:workers",
        "completion": "completion:completion",
    },
}
"""A place is a module of `adaptlab_client.cli.commands` with a command or, if its name says so, the
application of a group."""
PLACES = {name: place for section in SECTIONS.values() for name, place in section.items()}
OTHERS = "Server"
"""Section of our commands that come with extras."""
FIRST = ("demo", "down", "up")
