"""Recommendations: what to use, on what evidence, and what would settle it."""

from typing import Literal
from uuid import UUID

from adaptlab.comparisons.comparison import WarningKind
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
    """A method as it was configured, what it scored, and what it cost.

    `method` is the resolved configuration, `label` its name in verdicts. `score` is over seeds and
    test items. `seconds` is the longest that one of `jobs` took, from claim to end; each trains
    `trials` settings for every one of its seeds, with these learning rates.
    """

    label: str
    method: JsonObject
    score: Interval
    rank: RankInterval
    could_be_best: bool
    budget: BudgetVector
    seconds: float | None
    seeds: tuple[int, ...]
    trials: int
    learning_rates: tuple[float, ...]
    jobs: tuple[UUID, ...]


class ThinEvidence(Value):
    """A reason to trust the recommendation less; `methods` are the ones that it touches."""

    kind: ThinKind
    text: str
    methods: tuple[str, ...] = ()


class ProposedJob(Value):
    """A job that would settle something; `spec` can be sent to `/v1/jobs` as it is.

    It has passed the checks of `validate_only`, of which the estimate and the warnings are.
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
    """A first study, to be sent to `/v1/studies` as it is; `seconds` are of all its jobs."""

    spec: JsonObject
    jobs: int
    seconds: float
    warnings: tuple[str, ...]


class Recommendation(Value):
    """What stored results say of the question; nothing is stored for it.

    `recommended` has the highest mean of the methods that could be the best and have three seeds,
    where any has. Its interval is above chance and its mean not below the base model alone; it is
    None if no method's are, and without results, when there is a `first_study`. `runner_up` is
    the best run of another method, and `verdict` whether the two can be told apart. `chosen` is
    its score corrected for being the highest of those measured. `measured` are
    all that were held against each other. `jobs` would settle what is open.
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
