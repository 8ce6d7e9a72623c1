"""A recipe from the command line to its report, by a real worker."""

import json

import pytest
from tests.whole.conftest import command

from adaptlab_stack.stack import Stack

pytestmark = pytest.mark.long("recipes")

THEOREMS = "petrov2024/theorems"


def test_the_theorems_are_run_and_their_claims_decided(stack: Stack) -> None:
    done = command(stack, "recipes", "run", THEOREMS, "--name", "theory", "-o", "json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["recipe"], said["study"]["state"]) == (THEOREMS, "succeeded")
    found = {claim["claim"]: claim["finding"] for claim in said["claims"]}
    assert found["any-sequence"] == found["any-longer-question"] == "holds"
    page = command(stack, "recipes", "report", "theory", "-o", "markdown")
    assert page.returncode == 0, page.stderr
    # The worker told where it measured, and there are no seeds to repeat.
    assert "- Versions: adaptlab" in page.stdout
    assert f"`adaptlab recipes run {THEOREMS} --preset quick`" in page.stdout
