"""Command lines shown where there is nothing else to show yet."""

import json
import shlex

FIRST_JOB = {
    "kind": "pretrain",
    "name": "sort-asc-1l",
    "family": {"name": "minigpt", "layers": 1, "heads": 1, "width": 96},
    "task": "sort_ascending",
    "training": {"steps": 2000},
    "seeds": 3,
    "capture": {"attention": {"samples": 4}},
}


def first_job(server: str) -> str:
    """The command that submits a first job to the server at this address."""
    body = json.dumps(FIRST_JOB, indent=2)
    return (
        f"curl {shlex.quote(server + '/v1/jobs')} \\\n"
        '  -H "Authorization: Bearer $(cat .adaptlab/token)" \\\n'
        "  -H 'Content-Type: application/json' \\\n"
        f"  -d {shlex.quote(body)}"
    )
