"""Units of work lock shared rows in one order, so none waits forever."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from pydantic import TypeAdapter
from sqlalchemy import select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_job, a_principal
from tests.watching import somebody_waits, until

from adaptlab.specs.spec import AnySpec, JobSpec
from adaptlab_db.tables import Job
from adaptlab_services.jobs import jobs
from adaptlab_services.lifecycle import adaptations

Sessions = sessionmaker[Session]
SPECS: TypeAdapter[AnySpec] = TypeAdapter(JobSpec)


@pytest.fixture
def adaptation(sessions: Sessions) -> UUID:
    """A job that waits for its base model."""
    with sessions.begin() as session:
        a_base_model(session, state="running")
        return a_job(session, state="waiting")


def check(sessions: Sessions, adaptation: UUID) -> str:
    """Create a job that measures the adaptation; returns its state."""
    document = {"kind": "theory", "checks": ["identities"], "adaptation": str(adaptation)}
    with sessions.begin() as session:
        made = jobs.create(session, a_principal(session), SPECS.validate_python(document))
    return made.job.state


def race(sessions: Sessions, adaptation: UUID) -> Callable[[], str]:
    """The base model's job ends while a check is created.

    The check comes between the two statements of the end.
    """
    with ThreadPoolExecutor(1) as pool, sessions.begin() as ending:
        base = select(Job.id).where(Job.base_model.is_(None)).with_for_update()
        assert ending.scalars(base).one()
        creating = pool.submit(check, sessions, adaptation)
        until(lambda: somebody_waits(sessions), "a creation that looks at the base model")
        ending.execute(update(Job).where(Job.id == adaptation).values(state="queued"))
        ending.commit()
        return creating.result


def test_a_check_is_created_while_the_base_model_of_its_adaptation_is_finished(
    sessions: Sessions, adaptation: UUID
) -> None:
    assert race(sessions, adaptation)() == "waiting"


def test_with_the_adaptation_locked_first_the_two_would_wait_for_each_other(
    sessions: Sessions, adaptation: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adaptations, "hold_base_models", lambda *_: None)
    with pytest.raises(OperationalError, match=r"deadlock detected|lock timeout"):
        race(sessions, adaptation)()
