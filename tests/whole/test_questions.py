"""A study that plans its own runs, on the whole stack."""

import pytest
from tests.whole.conftest import command
from tests.whole.small_bases import TASK, a_small_base

from adaptlab_client import Client
from adaptlab_stack.stack import Stack

STUDY = {
    "name": "asked",
    "base_models": [a_small_base("asked")],
    "tasks": [{**TASK, "name": "sort_descending"}],
    "question": {
        "compare": ["frozen", "full_finetuning"],
        "decide": "best",
        "at_most": {"seeds": 8},
    },
    "budgets": [512],
    "training": {"steps": 30, "batch_size": 16},
    "tuning": {"trials": 2},
    "evaluation": {"samples": 50},
}


@pytest.mark.long("long trainings")
def test_it_ends_by_itself_and_every_decision_is_the_same_again(
    stack: Stack, client: Client
) -> None:
    made = client.studies.create(STUDY)
    assert made.question is not None
    assert [one.kind for one in made.question.passes] == ["evidence", "sweep"]
    ended = client.studies.wait(made.id, timeout=300)
    assert ended.question is not None
    assert (ended.succeeded, ended.question.is_open) == (True, False)
    assert ended.question.ending is not None
    explained = command(stack, "studies", "explain", "asked", "--replay")
    assert (explained.returncode, "another decision" in explained.stdout) == (0, False)
    assert explained.stdout.count("replayed: the same") == ended.question.decisions
    assert client.studies.comparison(made.id).tables[0].comparison is not None


def test_its_answer_and_its_cost_are_printed(stack: Stack, client: Client) -> None:
    ended = client.studies.wait(client.studies.run({**STUDY, "name": "printed"}).id, timeout=300)
    assert ended.question is not None
    shown = command(stack, "studies", "show", "printed").stdout
    assert ended.question.sentence.split(" (")[0] in shown
    assert f" in {len(ended.question.passes)} passes" in shown
