"""The short form of `python -m tests.chaos`: every fault, both ways."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chaos.running import run
from tests.chaos.scenarios import SCENARIOS, Scenario
from tests.chaos.world import Lab

JOBS = 26  # with the defence; over 300 in all scenarios together
JOBS_WITHOUT = 16
SEED = 1
# On a busy machine a fault may miss its moment, and then shows nothing: another is tried.
SEEDS_WITHOUT = range(1, 9)

# Their proof is that nothing happens for long; `python -m tests.chaos` waits for it.
LONG_TO_CATCH = {"broker lost", "trainers hung"}

every_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where processes write; what they logged is shown when the test fails."""
    folder = tmp_path / "run"
    yield folder
    for log in folder.rglob("processes.log"):
        print(log.read_text()[-20_000:])
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.long("chaos at length", but=1)
@every_scenario
def test_nothing_is_lost_and_nothing_done_twice(scenario: Scenario, lab: Lab, folder: Path):
    outcome = run(lab, scenario, JOBS, SEED, folder)
    assert outcome.problems == ()
    assert outcome.attempts >= outcome.jobs


@pytest.mark.long("chaos at length")
@pytest.mark.parametrize(
    "scenario",
    [one for one in SCENARIOS if one.name not in LONG_TO_CATCH],
    ids=lambda one: one.name,
)
def test_without_its_defence_it_is_caught(scenario: Scenario, lab: Lab, folder: Path):
    missed: list[object] = []
    for seed in SEEDS_WITHOUT:
        outcome = run(lab, scenario, JOBS_WITHOUT, seed, folder / str(seed), defended=False)
        if outcome.is_caught(scenario):
            return
        missed.append(outcome.problems)
    pytest.fail(f"{scenario.defence} was off, and nothing showed it: {missed}")
