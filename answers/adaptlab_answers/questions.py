"""Studies with a question: what is known, runs, and costs, and why."""

from typing import Literal
from uuid import UUID

from adaptlab.questions.passes import ComparisonPlace, PassKind, PassState
from adaptlab.questions.planning import Ending, NextPass, TableStanding
from adaptlab.values import Value
from adaptlab_answers.moments import Moment


class PassView(Value):
    """A pass that a study planned, with its job and the reason for it.

    It is `open` until a decision has seen that its job has ended, and `dropped` if its result was
    not needed any more. `decision` is the number of the decision that planned it.
    """

    number: int
    place: ComparisonPlace
    method: str
    kind: PassKind
    seeds: tuple[int, ...]
    rates: tuple[float, ...]
    replicate_steps: int
    reason: str
    state: PassState
    job: UUID
    job_state: str
    decision: int
    times_longer: int = 1


class QuestionView(Value):
    """The answer of a study with a question, or what is known so far.

    `is_open` is true while further passes can be planned. `ending` is `answered`, `given_up` if no
    number of seeds within the limit is expected to settle what is open, or `limit`.
    `replicate_steps` is the sum of the steps of all replicates that were trained, and
    `fixed_replicate_steps` that of a fixed grid of all rates with as many seeds for every method.
    """

    is_open: bool
    ending: Ending | None
    sentence: str
    tables: tuple[TableStanding, ...]
    passes: tuple[PassView, ...]
    decisions: int
    decided_at: Moment
    replicate_steps: int
    fixed_replicate_steps: int


class QuestionCost(Value):
    """What a study with a question is expected to cost.

    Replicate-steps are steps times replicates. `least` are the sweeps of rates and the first seeds,
    which always run; `most` is every method at the limit of seeds; `fixed` is a grid of all rates
    with that many seeds. Seconds are on one worker.
    """

    least_replicate_steps: int
    most_replicate_steps: int
    fixed_replicate_steps: int
    least_seconds: float
    most_seconds: float


class DecisionView(Value):
    """A decision of a study with a question: what it saw, and what it planned.

    `seen` are the numbers of the passes that had ended since the decision before. `replayed` is
    true if the same passes give the same decision again; null if this was not asked for.
    """

    object: Literal["study.decision"] = "study.decision"
    number: int
    at: Moment
    seen: tuple[int, ...]
    planned: tuple[NextPass, ...]
    unneeded: tuple[int, ...]
    ending: Ending | None
    sentence: str
    replayed: bool | None = None
