"""`python -m tests.chaos --seed 1 --jobs 3000`: every scenario with its defence, and without."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.killable import killable_servers
from tests.chaos.running import Outcome, run
from tests.chaos.scenarios import SCENARIOS, Scenario
from tests.chaos.world import Lab, lab

MOST_WITHOUT = 40  # jobs of a run whose defence is off; one problem is enough there
HEAD = (
    "| scenario | jobs | faults | attempts | seconds | lost | twice | broken | "
    "caught without | by |\n|---|---|---|---|---|---|---|---|---|---|"
)


def main(arguments: Sequence[str]) -> int:
    """Run everything, print the table; 1 if anything was lost, or not caught."""
    asked = _asked(arguments)
    chosen = [one for one in SCENARIOS if not asked.only or one.name in asked.only]
    jobs = max(10, asked.jobs // len(chosen))
    print(HEAD)
    pairs: list[tuple[Outcome, Outcome]] = []
    with killable_servers() as servers, lab(servers) as made, _folder(keep=asked.keep) as folder:
        for scenario in chosen:
            pairs.append(_both(made, scenario, jobs, asked.seed, folder))
            _tell(scenario, *pairs[-1])
    return _summed_up(chosen, pairs)


def _asked(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
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


def _both(
    made: Lab, scenario: Scenario, jobs: int, seed: int, folder: Path
) -> tuple[Outcome, Outcome]:
    place = folder / scenario.name.replace(" ", "-")
    return (
        run(made, scenario, jobs, seed, place / "with"),
        run(made, scenario, min(jobs, MOST_WITHOUT), seed, place / "without", defended=False),
    )


def _tell(scenario: Scenario, defended: Outcome, bare: Outcome) -> None:
    kinds = defended.kinds
    broken = sum(kinds.values()) - kinds["lost"] - kinds["twice"]
    caught = ", ".join(sorted(bare.kinds)) or "nothing"
    print(
        f"| {defended.scenario} | {defended.jobs} | {defended.faults.total()} | "
        f"{defended.attempts} | {defended.seconds:.0f} | {kinds['lost']} | {kinds['twice']} | "
        f"{broken} | {'yes' if bare.is_caught(scenario) else 'NO'} | {caught} |",
        flush=True,
    )
    for problem in defended.problems:
        print(f"    {problem}", file=sys.stderr)


def _summed_up(chosen: Sequence[Scenario], pairs: Sequence[tuple[Outcome, Outcome]]) -> int:
    jobs = sum(defended.jobs for defended, _ in pairs)
    faults = sum((defended.faults for defended, _ in pairs), start=type(pairs[0][0].faults)())
    problems = sum(len(defended.problems) for defended, _ in pairs)
    caught = sum(bare.is_caught(one) for one, (_, bare) in zip(chosen, pairs, strict=True))
    print(f"\n{jobs} jobs, {faults.total()} faults, {problems} problems")
    for kind, count in sorted(faults.items()):
        print(f"  {count} x {kind}")
    print(f"ablation detection: {caught} of {len(pairs)}")
    return int(problems > 0 or caught < len(pairs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
