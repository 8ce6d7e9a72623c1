"""Theory checks by a real worker, from the command line."""

import json

from tests.whole.conftest import command

from adaptlab_stack.stack import Stack


def test_the_theorems_hold_in_a_job(stack: Stack) -> None:
    done = command(stack, "theory", "run", "theorems", "rotation", "--wait", "-o", "json")
    assert done.returncode == 0, done.stderr
    told = {check["name"]: check for check in json.loads(done.stdout)}
    assert told["theorem-1-unconditional"]["details"]["completions"] == 4**4 + 3**6
    assert {check["verdict"] for check in told.values()} == {"holds"}
