"""Every scenario with its defence, and without.

Run `python -m tests.chaos --seed 1 --jobs 3000`.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.killable import killable_servers
from tests.chaos.running import Outcome, run
from tests.chaos.scenarios import SCENARIOS, Scenario
from tests.chaos.world import Lab, lab

MOST_WITHOUT = 40  # jobs of a run whose defence is off; one problem is enough there
HEAD = (
    "| scenario | jobs | faults | attempts | refused | seconds | lost | twice | broken | "
    "caught without | by |\n|---|---|---|---|---|---|---|---|---|---|---|"
)
KILLS = ("kill -9", "SIGKILL", "SIGQUIT")


@dataclass(frozen=True)
class Pair:
    """The runs of a scenario, with its defence and possibly without."""

    scenario: Scenario
    defended: Outcome
    bare: Outcome | None

    @property
    def is_caught(self) -> bool:
        """Whether the lack of the defence, where it was tried, showed as it must."""
        return self.bare is None or self.bare.is_caught(self.scenario)


def main(arguments: Sequence[str]) -> int:
    """Run everything, print the table; 1 if anything was lost, or not caught.

    That defences are needed is shown in the first round alone.
    """
    asked = _asked(arguments)
    chosen = [one for one in SCENARIOS if not asked.only or one.name in asked.only]
    jobs = max(10, asked.jobs // len(chosen))
    ran: list[Pair] = []
    with killable_servers() as servers, lab(servers) as made, _folder(keep=asked.keep) as folder:
        for seed in range(asked.seed, asked.seed + asked.rounds):
            print(f"seed {seed}\n\n{HEAD}", flush=True)
            for scenario in chosen:
                place = folder / str(seed) / scenario.name.replace(" ", "-")
                ran.append(_both(made, scenario, jobs, seed, place, bare=seed == asked.seed))
                _tell(ran[-1])
            _sum_up(ran)
    return int(any(one.defended.problems or not one.is_caught for one in ran))


def _asked(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1, help="with one seed more each time")
    parser.add_argument("--jobs", type=int, default=300, help="with defences, in all scenarios")
    names = [one.name for one in SCENARIOS]
    parser.add_argument("--only", action="append", choices=names, help="may be repeated")
    parser.add_argument("--keep", action="store_true", help="keep the logs of the processes")
    return parser.parse_args(arguments)


@contextmanager
def _folder(*, keep: bool) -> Generator[Path]:
    """Where the processes write their logs; its name is printed if it is kept."""
    folder = Path(tempfile.mkdtemp(prefix="adaptlab-chaos-logs-"))
    try:
        yield folder
    finally:
        if keep:
            print(f"logs: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _both(made: Lab, scenario: Scenario, jobs: int, seed: int, place: Path, *, bare: bool) -> Pair:
    few = min(jobs, MOST_WITHOUT)
    return Pair(
        scenario,
        run(made, scenario, jobs, seed, place / "with"),
        run(made, scenario, few, seed, place / "without", defended=False) if bare else None,
    )


def _tell(pair: Pair) -> None:
    defended, bare = pair.defended, pair.bare
    kinds = defended.kinds
    broken = sum(kinds.values()) - kinds["lost"] - kinds["twice"]
    caught = "not run" if bare is None else ", ".join(sorted(bare.kinds)) or "nothing"
    print(
        f"| {defended.scenario} | {defended.jobs} | {defended.faults.total()} | "
        f"{defended.attempts} | {defended.refused} | {defended.seconds:.0f} | "
        f"{kinds['lost']} | {kinds['twice']} | {broken} | "
        f"{'yes' if pair.is_caught else 'NO'} | {caught} |",
        flush=True,
    )
    for problem in defended.problems:
        print(f"    {problem}", file=sys.stderr)


def _sum_up(ran: Sequence[Pair]) -> None:
    """Print what all rounds so far have come to."""
    outcomes = [one.defended for one in ran]
    faults = sum((one.faults for one in outcomes), start=Counter[str]())
    kills = sum(count for kind, count in faults.items() if kind.startswith(KILLS))
    problems = sum(len(one.problems) for one in outcomes)
    refused = sum(one.refused for one in outcomes)
    jobs, attempts = sum(one.jobs for one in outcomes), sum(one.attempts for one in outcomes)
    print(f"\n{jobs} jobs, {attempts} attempts, {faults.total()} faults, {kills} kills")
    print(f"{problems} problems; {refused} writes of lost attempts refused")
    for kind, count in sorted(faults.items()):
        print(f"  {count} x {kind}")
    bare = [one for one in ran if one.bare is not None]
    caught = sum(one.is_caught for one in bare)
    print(f"ablation detection: {caught} of {len(bare)}\n", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
