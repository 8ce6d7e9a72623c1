"""A running study: wait for it, then compare, plot or bundle it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from adaptlab_answers.jobs import JobView
from adaptlab_answers.studies import StudyView
from adaptlab_client.display.comparison_pictures import PlotKind
from adaptlab_client.display.comparison_tables import StudyComparison
from adaptlab_client.display.pictures import Picture
from adaptlab_client.display.progress_bars import Bars, bars

if TYPE_CHECKING:
    from adaptlab_client.resources.studies import Studies


class StudyRun:
    """A study returned by `client.studies.run`; it runs on the server.

        comparison = client.studies.run(spec).wait().comparison()
        comparison.to_pandas()

    After a restart, the same `run` returns the same study, and `wait` continues.
    """

    def __init__(self, studies: "Studies", study: StudyView) -> None:
        self._studies = studies
        self.study = study
        """The study as of the latest answer."""

    @property
    def id(self) -> UUID:
        """The id of the study."""
        return self.study.id

    @property
    def name(self) -> str:
        """The name of the study."""
        return self.study.name

    def wait(self, *, timeout: float | None = None, progress: Bars = "auto") -> "StudyRun":
        """Wait until all jobs have ended, with a progress bar.

        Then `study.succeeded` is True if all jobs succeeded. Failed jobs are warnings of the
        comparison; `client.studies.extend` runs them again. Raises `WaitTimedOut` after `timeout`
        seconds.
        """
        with bars(progress) as show_progress:
            self.study = self._studies.wait(self.id, timeout=timeout, on_progress=show_progress)
        return self

    def jobs(self) -> Iterator[JobView]:
        """Iterate over the jobs of the study, including those for base models."""
        return self._studies.jobs(self.id)

    def comparison(
        self, *, level: float | None = None, margin: float | None = None
    ) -> StudyComparison:
        """Return the comparison with the scores so far; read its warnings first."""
        return self._studies.comparison(self.id, level=level, margin=margin)

    def plot(self, kind: PlotKind = "budgets", *, budget: int | None = None) -> Picture:
        """Return a chart of the comparison; see `StudyComparison.plot`."""
        return self.comparison().plot(kind, budget=budget)

    def bundle(self, target: str | Path) -> Path:
        """Save the decision and its evidence as one file; see `Studies.bundle`."""
        return self._studies.bundle(self.id, Path(target))

    def __repr__(self) -> str:
        """The study's name and state."""
        return f"<StudyRun {self.name}: {self.study.state}>"
