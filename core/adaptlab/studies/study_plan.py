"""The plan of a study: its cells and jobs, and what is left out."""

from collections.abc import Sequence
from typing import Literal

from adaptlab.errors import Problem
from adaptlab.plugins.sizing import PARAMETERS, BudgetAxis
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolved import ResolvedAdapt, ResolvedTheory, seedless_digest, spec_digest
from adaptlab.specs.spec import AdaptSpec, TheorySpec
from adaptlab.values import Value

Role = Literal["method", "reference", "control"]


class PlacedMethod(Value):
    """One method at one budget on one task and base model.

    `budget` is the limit on the study's axis: trainable parameters or context tokens. References
    and controls of fixed size are listed at every budget, even if they are larger.
    """

    base_model: str
    task: str
    method: str
    budget: int
    role: Role
    over_budget: bool
    trainable_parameters: int


class Cell(PlacedMethod):
    """A placed method with its job; `gap` is the unused budget.

    `demonstrations` are those before questions, None if the method has none.
    """

    gap: int
    digest: str
    demonstrations: int | None = None


class SkippedCell(Value):
    """A method that cannot run at a budget, with the nearest budgets.

    `budget` is None for a method that this base model cannot have at any budget.
    """

    base_model: str
    method: str
    budget: int | None
    problems: tuple[Problem, ...]
    nearest: tuple[int, ...]


class PlannedJob(Value):
    """A job of a study; it has one replicate per seed and trial."""

    spec: AdaptSpec
    resolved: ResolvedAdapt
    digest: str

    @property
    def seedless(self) -> str:
        """The digest shared by jobs that differ only in their seeds."""
        return seedless_digest(self.resolved)

    @property
    def replicates(self) -> int:
        """The number of trainings in the job: seeds times trials."""
        return len(self.resolved.seeds) * len(self.resolved.training.trials)

    @property
    def passes(self) -> int:
        """The number of passes: all replicates of a job are trained in one."""
        return 1

    def with_seeds(self, seeds: Sequence[int]) -> "PlannedJob":
        """Return the job for some of its seeds, on the same base replicates."""
        whole = self.resolved
        if tuple(seeds) == whole.seeds:
            return self
        starts = dict(zip(whole.seeds, whole.base_replicates, strict=True))
        changes = {"seeds": tuple(seeds), "base_replicates": tuple(starts[s] for s in seeds)}
        resolved = whole.model_copy(update=changes)
        spec = self.spec.model_copy(update=changes)
        return PlannedJob(spec=spec, resolved=resolved, digest=spec_digest(resolved))


class PlannedCheck(Value):
    """A theory check of a study as it will run.

    `base` is the base model that it measures, if any. `cells` are those whose adaptations it
    measures: all in one job if `together`, otherwise one cell, with one job for each of its jobs.
    `resolved` is the resolved check if every cell is one job.
    """

    label: str
    pointer: str
    base: BaseModelFacts | None
    of: str | None
    cells: tuple[Cell, ...]
    together: bool
    spec: TheorySpec
    resolved: ResolvedTheory


class StudyPlan(Value):
    """The plan of a study: cells in order, each job once, and gaps."""

    base_models: tuple[str, ...]
    jobs: tuple[PlannedJob, ...]
    cells: tuple[Cell, ...]
    skipped: tuple[SkippedCell, ...]
    checks: tuple[PlannedCheck, ...] = ()
    axis: BudgetAxis = PARAMETERS
