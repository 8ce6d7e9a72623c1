"""Recommendations, their evidence, and jobs that would settle them."""

from typing import Literal
from uuid import UUID

from adaptlab.comparisons.comparison_warnings import WarningKind
from adaptlab.comparisons.method_classes import Standing
from adaptlab.comparisons.verdict import Verdict
from adaptlab.specs.budget import BudgetVector
from adaptlab.statistics import ChosenBest, Interval
from adaptlab.statistics.ranks import RankInterval
from adaptlab.values import Value
from adaptlab_answers.documents import JsonObject
from adaptlab_answers.jobs import Estimate

ThinKind = (
    WarningKind
    | Literal[
        "chosen_by_score",
        "one_learning_rate",
        "rate_at_the_end",
        "other_budget",
        "no_run",
        "too_slow",
        "other_settings",
        "older_code",
        "left_out",
        "cannot_run",
    ]
)


Purpose = Literal["more_seeds", "equal_effort", "asked_budget", "missing_method", "newer_code"]


class MeasuredMethod(Value):
    """A configured method with its score and its cost.

    `method` is the resolved configuration, `label` its name in verdicts. `score` is the mean over
    seeds and test items. `seconds` is the longest run time of `jobs`, from claim to end. Each job
    trained `trials` settings per seed, with the listed learning rates.
    """

    label: str
    method: JsonObject
    score: Interval
    rank: RankInterval
    standing: Standing
    could_be_best: bool
    budget: BudgetVector
    seconds: float | None
    seeds: tuple[int, ...]
    trials: int
    learning_rates: tuple[float, ...]
    jobs: tuple[UUID, ...]


class ThinEvidence(Value):
    """A weak point of the evidence, and the methods that it concerns."""

    kind: ThinKind
    text: str
    methods: tuple[str, ...] = ()


class ProposedJob(Value):
    """A job that would strengthen the evidence.

    `spec` can be posted to `/v1/jobs` unchanged. It has passed `validate_only`, which returned the
    estimate and the warnings.
    """

    purpose: Purpose
    text: str
    spec: JsonObject
    spec_digest: str
    method: JsonObject
    budget: BudgetVector
    estimate: Estimate
    warnings: tuple[str, ...]


class ProposedStudy(Value):
    """A first study; `spec` can be posted to `/v1/studies` unchanged.

    `seconds` is the estimated time of all its jobs.
    """

    spec: JsonObject
    jobs: int
    seconds: float
    warnings: tuple[str, ...]


class Recommendation(Value):
    """The method that stored results support, with the evidence.

    `recommended` is the leader of the methods that may be the best, if most of its seeds beat the
    floor. If no method's do, it is null. Without any results it
    is null too, and `first_study` is set. `runner_up` is the best run of another method, and
    `verdict` compares the two. `chosen` is the score of `recommended`, corrected for being the
    highest of those measured. `measured` lists all methods compared, and `jobs` would settle open
    questions.
    """

    object: Literal["recommendation"] = "recommendation"
    text: str
    base_model: str
    base_digest: str
    task: JsonObject
    requested: int
    max_seconds: float | None
    recommended: MeasuredMethod | None
    runner_up: MeasuredMethod | None
    verdict: Verdict | None
    chosen: ChosenBest | None
    thin_evidence: tuple[ThinEvidence, ...]
    measured: tuple[MeasuredMethod, ...]
    jobs: tuple[ProposedJob, ...]
    first_study: ProposedStudy | None
