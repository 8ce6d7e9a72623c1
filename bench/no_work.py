"""What stands in for the engine where only the work around a run is measured."""

from pathlib import Path

from adaptlab.spec import ResolvedSpec


def run(
    spec: ResolvedSpec, bases: tuple[Path, ...], scratch: Path, observer: object, **_: object
) -> None:
    """Nothing to do: the run has ended as soon as it has begun."""
