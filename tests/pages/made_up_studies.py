"""Studies in every state, created by the service, without training."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import ENOUGH_BASES, Run, a_measured_study_spec, run_all
from tests.making import a_base_model, a_ledger

from adaptlab.specs.spec import ResolvedSpec
from adaptlab_answers.studies import StudyView
from adaptlab_services.people.tokens import Principal
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

Sessions = sessionmaker[Session]
METHODS = ("frozen", "full_finetuning", "adapter", "lora", "prefix_tuning", "soft_prompt")


def a_base(sessions: Sessions) -> None:
    """The small base model that all these studies adapt."""
    with sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)


def a_study(sessions: Sessions, who: Principal, **changes: Any) -> StudyView:
    """A study of every method in `METHODS` at two budgets, not yet run."""
    spec = a_measured_study_spec(**{"methods": [*METHODS], **changes})
    with sessions.begin() as session:
        return studies.create(session, who, spec, Rules()).study


def ordinary(spec: ResolvedSpec) -> Run:
    """Ordinary results: LoRA near full fine-tuning, prefixes at chance.

    The adapter is ahead of LoRA at 32 and behind it at 64; its seeds are far apart.
    """
    budget = spec.budget.trainable_parameters
    runs = {
        "frozen": Run(right=0),
        "full_finetuning": Run(right=394, shift=2, loss=0.01, validation=0.9, own_task=(380, 20)),
        "lora": Run(right=270 if budget < 64 else 380, shift=4, validation=0.7, deviation=0.4),
        "adapter": Run(right=290, shift=20, validation=0.6, own_task=(380, 300)),
        "prefix_tuning": Run(right=4, shift=1, loss=1.3, deviation=1e-13, own_task=(380, 340)),
        "soft_prompt": Run(right=3, loss=1.3, deviation=1e-13, own_task=(380, 360)),
    }
    return runs.get(str((spec.method or {}).get("name")), Run(right=200, validation=0.4))


def failing(method: str, otherwise: Callable[[ResolvedSpec], Run] = ordinary):
    """As `otherwise`, but for one method whose jobs diverge."""

    def run(spec: ResolvedSpec) -> Run:
        return Run(fails=True) if (spec.method or {}).get("name") == method else otherwise(spec)

    return run


def run_some(sessions: Sessions, count: int) -> list[UUID]:
    """Claim so many jobs and leave them running."""
    ledger = a_ledger(sessions)
    worker = ledger.register_worker("laptop", 4711, ["cpu"])
    claims = [ledger.claim(worker, ["cpu"]) for _ in range(count)]
    return [claim.job_id for claim in claims if claim is not None]


__all__ = ["METHODS", "a_base", "a_study", "failing", "ordinary", "run_all", "run_some"]
