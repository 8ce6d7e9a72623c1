"""Recommendations as the server answers them."""

from adaptlab_client.answers import Answer, Budget, Document, Estimate
from adaptlab_client.comparison_answers import ChosenBest, Interval, RankInterval, Verdict


class MeasuredMethod(Answer):
    """A method as it was configured, what it scored, and what it cost.

    `seconds` is the longest that one of its jobs took, each with all of its seeds and trials.
    """

    label: str
    method: Document
    score: Interval
    rank: RankInterval
    could_be_best: bool
    budget: Budget
    seconds: float | None = None
    seeds: tuple[int, ...] = ()
    trials: int = 1
    learning_rates: tuple[float, ...] = ()
    jobs: tuple[str, ...] = ()


class ThinEvidence(Answer):
    """A reason to trust a recommendation less."""

    kind: str
    text: str
    methods: tuple[str, ...] = ()


class ProposedJob(Answer):
    """A job that would settle something; `client.jobs.submit(job.spec)` runs it."""

    purpose: str
    text: str
    spec: Document
    spec_digest: str
    method: Document
    budget: Budget
    estimate: Estimate
    warnings: tuple[str, ...] = ()


class ProposedStudy(Answer):
    """A first study; `client.studies.create(study.spec)` runs it."""

    spec: Document
    jobs: int
    seconds: float
    warnings: tuple[str, ...] = ()


class Recommendation(Answer):
    """What to use, on what evidence, and what would settle it.

    `recommended` is None if nothing measured works, which `text` says, and without results, when
    there is a `first_study`.
    """

    text: str
    base_model: str
    task: Document
    requested: int
    recommended: MeasuredMethod | None = None
    runner_up: MeasuredMethod | None = None
    verdict: Verdict | None = None
    chosen: ChosenBest | None = None
    thin_evidence: tuple[ThinEvidence, ...] = ()
    measured: tuple[MeasuredMethod, ...] = ()
    jobs: tuple[ProposedJob, ...] = ()
    first_study: ProposedStudy | None = None
