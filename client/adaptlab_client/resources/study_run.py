"""A study that was asked for: waited for with a bar, then compared, drawn and frozen."""

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
    """What `client.studies.run` gives; the server goes on without it.

        found = client.studies.run(spec).wait().comparison()
        found.to_pandas()

    The same `run` after a restart finds the same study, and `wait` goes on waiting.
    """

    def __init__(self, studies: "Studies", study: StudyView) -> None:
        self._studies = studies
        self.study = study
        """The study as it was last heard of."""

    @property
    def id(self) -> UUID:
        """The identity of the study."""
        return self.study.id

    @property
    def name(self) -> str:
        """The name of the study."""
        return self.study.name

    def wait(self, *, timeout: float | None = None, progress: Bars = "auto") -> "StudyRun":
        """Wait until all jobs have ended, however they end; a bar shows how far they are.

        Raises `WaitTimedOut` after `timeout` seconds. `study.succeeded` says whether all is well;
        what has failed is a warning of the comparison, and `extend` runs it again.
        """
        with bars(progress) as tell:
            self.study = self._studies.wait(self.id, timeout=timeout, on_progress=tell)
        return self

    def jobs(self) -> Iterator[JobView]:
        """The jobs of the study, those that make its base models included."""
        return self._studies.jobs(self.id)

    def comparison(
        self, *, level: float | None = None, margin: float | None = None
    ) -> StudyComparison:
        """Scores, verdicts and diagnoses as far as there are scores; read the warnings first."""
        return self._studies.comparison(self.id, level=level, margin=margin)

    def plot(self, kind: PlotKind = "budgets", *, budget: int | None = None) -> Picture:
        """A chart of the comparison; see `StudyComparison.plot`."""
        return self.comparison().plot(kind, budget=budget)

    def bundle(self, target: str | Path) -> Path:
        """Save the decision, with all that it rests on, as one file; see `Studies.bundle`."""
        return self._studies.bundle(self.id, Path(target))

    def __repr__(self) -> str:
        """Which study, and how far it is."""
        return f"<StudyRun {self.name}: {self.study.state}>"
