"""An empty engine, for measurements of the work around a run."""

from pathlib import Path

from adaptlab.specs.resolved import Resolved


def run(
    spec: Resolved, bases: tuple[Path, ...], scratch: Path, observer: object, **_: object
) -> None:
    """Do nothing: the run ends as soon as it begins."""
