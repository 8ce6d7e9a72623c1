"""Theory checks by a real worker, from the command line."""

import json

import pytest
from tests.whole.conftest import command
from tests.whole.small_bases import TASK, a_small_base

from adaptlab_client import Client
from adaptlab_stack.stack import Stack

pytestmark = pytest.mark.long("recipes")


def test_the_theorems_hold_in_a_job(stack: Stack) -> None:
    done = command(stack, "theory", "run", "theorems", "rotation", "--wait", "-o", "json")
    assert done.returncode == 0, done.stderr
    told = {check["name"]: check for check in json.loads(done.stdout)}
    assert told["theorem-1-unconditional"]["details"]["completions"] == 4**4 + 3**6
    assert {check["verdict"] for check in told.values()} == {"holds"}


BASE = a_small_base("measured")
PREFIX = {
    "kind": "adapt",
    "base_model": BASE["name"],
    "method": {"name": "prefix_tuning", "length": 3},
    "training": {"steps": 30, "batch_size": 16},
    "tuning": {"trials": 2},
    "seeds": 2,
    "evaluation": {"samples": 20},
}


def test_a_trained_prefix_is_measured_when_it_is_there(client: Client, stack: Stack) -> None:
    client.jobs.submit(BASE)
    tasks = ("sort_descending", "copy")
    one, other = (
        str(client.jobs.submit({**PREFIX, "task": {**TASK, "name": n}}).id) for n in tasks
    )
    checks = ("relative_attention", "prefix_attention", "span", "clusters")
    options = ("--adaptation", one, "--adaptation", other, "--wait", "-o", "json")
    done = command(stack, "theory", "run", *checks, *options)
    assert done.returncode in (0, 1), (
        done.stderr
    )  # what was trained so briefly may make no clusters
    told = {check["name"]: check for check in json.loads(done.stdout)}
    ends = ("adaptation-0", "adaptation-1")
    for number in (6, 7):
        for where in ("first-layer", "deeper-layers"):
            for end in ends:
                assert told.pop(f"equation-{number}.{where}.{end}")["verdict"] == "holds"
    for end in ends:
        assert told.pop(f"added-part-spans.{end}")["verdict"] == "holds"
        varies = told.pop(f"attention-over-prefix.{end}")
        assert varies["details"]["seeds"] == [0, 1]
        assert all(1 / 3 <= share <= 1 for share in varies["details"]["top_share_by_layer"])
    assert told.keys() == {"clusters.before", "clusters.after", "clusters.random"}
    assert len(told["clusters.after"]["details"]["accuracy_by_group"]) == 2
