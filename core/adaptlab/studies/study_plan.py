"""What a study runs, as values: its cells, the jobs in them, and what no job can be made of."""

from collections.abc import Sequence
from typing import Literal

from adaptlab.errors import Problem
from adaptlab.specs.resolve import BaseModelFacts
from adaptlab.specs.resolved import ResolvedAdapt, ResolvedTheory, seedless_digest, spec_digest
from adaptlab.specs.spec import AdaptSpec, TheorySpec
from adaptlab.values import Value

Role = Literal["method", "reference"]


class PlacedMethod(Value):
    """One method at one budget on one task and base model.

    `budget` is the limit in trainable parameters. A reference stands at every budget, also where
    it is over it.
    """

    base_model: str
    task: str
    method: str
    budget: int
    role: Role
    over_budget: bool
    trainable_parameters: int


class Cell(PlacedMethod):
    """A place of a plan and the job that answers it; `gap` is what is left of the budget."""

    gap: int
    digest: str


class SkippedCell(Value):
    """A method that cannot run at a budget, with the nearest budgets that it can meet.

    `budget` is None for one that this base model cannot have at any budget.
    """

    base_model: str
    method: str
    budget: int | None
    problems: tuple[Problem, ...]
    nearest: tuple[int, ...]


class PlannedJob(Value):
    """A job of a study as it will run; its seeds and trials are its replicates."""

    spec: AdaptSpec
    resolved: ResolvedAdapt
    digest: str

    @property
    def seedless(self) -> str:
        """The digest that jobs share which differ in nothing but their seeds."""
        return seedless_digest(self.resolved)

    @property
    def replicates(self) -> int:
        """Trainings in the job: seeds times trials."""
        return len(self.resolved.seeds) * len(self.resolved.training.trials)

    @property
    def passes(self) -> int:
        """Passes of the engine: all replicates of a job are stacked into one."""
        return 1

    def with_seeds(self, seeds: Sequence[int]) -> "PlannedJob":
        """The same for some of its seeds, each from the replicate of the base that it had."""
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
    measures: all in one job if `together`, else one cell, with one job for each of its jobs.
    `resolved` is what the check comes to if every cell is one job.
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
    """All of a study: its cells in order, the jobs by digest, each once, and what was left out."""

    base_models: tuple[str, ...]
    jobs: tuple[PlannedJob, ...]
    cells: tuple[Cell, ...]
    skipped: tuple[SkippedCell, ...]
    checks: tuple[PlannedCheck, ...] = ()
