"""Estimates from stored runs."""

from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    a_base_model,
    a_job,
    a_pretrain_document,
    a_pretrain_spec,
    a_principal,
    a_resolved_job,
    an_adapt_spec,
    an_environment,
    base_facts,
)
from tests.watching import statements

from adaptlab.runs.events import Usage
from adaptlab.specs.cost import work
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt
from adaptlab.specs.spec import AdaptSpec, PretrainSpec
from adaptlab_answers.jobs import Estimate
from adaptlab_db.tables import AttemptRow, Dataset
from adaptlab_services.jobs import jobs
from adaptlab_services.jobs.estimates import CPU, estimate, estimate_each
from adaptlab_services.models import datasets, record_datasets

Sessions = sessionmaker[Session]
OVERHEAD = 2.0


def lora(steps: int = 1000, **changes: Any) -> AdaptSpec:
    return an_adapt_spec(
        **{
            "method": {"name": "lora", "rank": 2},
            "budget": {},
            "training": {"steps": steps, "batch_size": 64, "validations": 0},
        }
        | changes
    )


def measured(
    session: Session,
    spec: AdaptSpec,
    training_seconds: float,
    *,
    evaluation_seconds: float = 1.0,
    grown: int = 100_000_000,
    device: str = "cpu",
    **usage: Any,
) -> None:
    """A succeeded run of the spec that took so long."""
    job_id = a_job(session, spec, state="succeeded")
    attempt = session.scalars(select(AttemptRow).where(AttemptRow.job_id == job_id)).one()
    taken = Usage(
        **{
            "training_seconds": training_seconds,
            "training_steps": spec.training.steps,
            "evaluation_seconds": evaluation_seconds,
            "peak_memory_bytes": 300_000_000 + grown,
            "base_memory_bytes": 300_000_000,
        }
        | usage
    )
    attempt.usage = taken.model_dump()
    attempt.environment = an_environment(device=device).model_dump()
    seconds = OVERHEAD + training_seconds + evaluation_seconds
    attempt.ended_at = attempt.started_at + timedelta(seconds=seconds)
    session.flush()


def asked(session: Session, spec: AdaptSpec | PretrainSpec) -> Estimate:
    return estimate(session, a_resolved_job(spec), spec.resources.queue)


def test_nothing_measured_is_a_guess_and_says_so(sessions: Sessions) -> None:
    with sessions.begin() as session:
        found = asked(session, lora())
    assert (found.basis, found.runs) == ("default", 0)
    assert "Guessed" in found.explanation


@pytest.mark.parametrize("other", [False, True], ids=["first run", "another family ran"])
def test_a_guess_goes_by_the_products_that_a_run_of_the_family_measured(
    sessions: Sessions, other: bool
) -> None:
    """An import trains nothing, but says more than runs of other families."""
    unlike = a_pretrain_spec(family={"name": "llama", "layers": 1, "heads": 2, "width": 32})
    with sessions.begin() as session:
        unknown = asked(session, unlike).seconds
        if other:
            measured(session, lora(), 500.0)
        job_id = a_job(session, unlike, state="succeeded")
        attempt = session.scalars(select(AttemptRow).where(AttemptRow.job_id == job_id)).one()
        for gflops, factor in ((CPU.flops / 1e11, 1.7), (CPU.flops / 1e9, 1.0)):
            machine = an_environment(product_gflops=gflops, bfloat16_cost=2.0)
            attempt.environment = machine.model_dump()
            session.flush()
            found = asked(session, unlike)
            assert (found.basis, found.runs) == ("products", 0)
            assert found.seconds == pytest.approx(factor * unknown, rel=0.1)


def test_the_same_job_again_takes_what_it_took(sessions: Sessions) -> None:
    with sessions.begin() as session:
        measured(session, lora(), 20.0, evaluation_seconds=3.0)
        found = asked(session, lora())
    assert (found.basis, found.runs) == ("kind", 1)
    assert found.seconds == pytest.approx(OVERHEAD + 23.0, abs=0.1)
    assert found.memory_bytes == pytest.approx(400_000_000, rel=1e-3)


def test_three_times_the_steps_train_three_times_as_long(sessions: Sessions) -> None:
    with sessions.begin() as session:
        measured(session, lora(1000), 20.0)
        found = asked(session, lora(3000))
    assert found.seconds == pytest.approx(OVERHEAD + 60.0 + 1.0, abs=0.1)


def test_a_run_that_went_on_from_a_saved_state_counts_with_the_steps_it_made(
    sessions: Sessions,
) -> None:
    with sessions.begin() as session:
        measured(session, lora(1000), 5.0, training_steps=250)
        found = asked(session, lora(1000))
    assert found.seconds == pytest.approx(OVERHEAD + 20.0 + 1.0, abs=0.1)


def test_the_latest_runs_decide_and_an_outlier_does_not(sessions: Sessions) -> None:
    with sessions.begin() as session:
        for seconds in (500.0, 20.0, 21.0, 90.0, 19.0, 20.0):  # the first is too old to count
            measured(session, lora(), seconds)
        found = asked(session, lora())
    assert found.runs == 5
    assert found.seconds == pytest.approx(OVERHEAD + 20.0 + 1.0, abs=0.1)


def test_a_divided_step_says_nothing_of_memory(sessions: Sessions) -> None:
    with sessions.begin() as session:
        measured(session, lora(), 20.0, grown=100_000_000)
        measured(session, lora(), 20.0, grown=900_000_000, passes=4)
        found = asked(session, lora())
    assert found.memory_bytes == pytest.approx(400_000_000, rel=1e-3)


def test_without_a_run_of_the_kind_the_family_decides_and_then_anything(
    sessions: Sessions,
) -> None:
    prefix = lora(method={"name": "prefix_tuning", "length": 2})
    elsewhere = lora(resources={"queue": "gpu"})
    with sessions.begin() as session:
        measured(session, prefix, 20.0)
        assert asked(session, lora()).basis == "family"
        assert asked(session, prefix).basis == "kind"
        assert asked(session, elsewhere).basis == "default"


def test_many_jobs_are_estimated_as_each_alone_and_with_no_more_queries(
    sessions: Sessions,
) -> None:
    prefix = lora(method={"name": "prefix_tuning", "length": 2})
    specs = [
        prefix,
        lora(1000),
        lora(3000),
        lora(1000, method="ia3"),
        lora(resources={"queue": "far"}),
    ]
    with sessions.begin() as session:
        measured(session, lora(1000), 20.0)
        measured(session, lora(1000, method="ia3"), 50.0)
        alone = [asked(session, spec) for spec in specs]
        with statements(sessions) as sent:
            together = estimate_each(
                session, [(a_resolved_job(one), one.resources.queue) for one in specs * 10]
            )
    assert [one.basis for one in together[:5]] == ["family", "kind", "kind", "kind", "default"]
    assert together == (*alone,) * 10
    assert len(sent) <= 4, "one for each way of being alike, and one for a queue without runs"


def test_a_run_in_another_precision_is_of_another_kind(sessions: Sessions) -> None:
    double = lora(training={"steps": 1000, "batch_size": 64, "precision": "float64"})
    with sessions.begin() as session:
        measured(session, double, 20.0)
        assert asked(session, lora()).basis == "family"


def test_a_run_that_would_be_stopped_is_warned_of(sessions: Sessions) -> None:
    hurried = lora(10_000, resources={"max_seconds": 60})
    with sessions.begin() as session:
        a_base_model(session)
        measured(session, lora(), 20.0)
        seen = jobs.preview(session, hurried)
        unhurried = jobs.preview(session, lora(10_000))
    (warning,) = set(seen.warnings) - set(unhurried.warnings)
    assert "60 s" in warning
    assert seen.estimate.seconds == pytest.approx(OVERHEAD + 200.0 + 1.0, abs=0.1)


def test_an_inline_base_model_is_estimated_beside_the_job(sessions: Sessions) -> None:
    with sessions.begin() as session:
        given = jobs.preview(session, lora(base_model=a_pretrain_document()))
        a_base_model(session)
        known = jobs.preview(session, lora())
    assert given.base_estimate is not None
    assert known.base_estimate is None


# Milliseconds a step of the engine took on one core (a 1-layer miniGPT of width 96 on ten digits),
# by seeds, trials and batch size.
MEASURED: dict[str, dict[tuple[int, int, int], float]] = {
    "lora": {(1, 1, 64): 9.5, (3, 1, 64): 27.3, (3, 8, 64): 157.6, (3, 4, 16): 27.1},
    "prefix_tuning": {(1, 1, 64): 10.3, (3, 1, 64): 18.9, (3, 8, 64): 146.4, (3, 4, 16): 20.9},
}
KNOBS = {"lora": {"rank": 2}, "prefix_tuning": {"length": 4}}


@pytest.mark.parametrize("method", MEASURED)
def test_a_run_of_another_size_is_predicted_within_a_factor_of_one_and_a_half(
    method: str,
) -> None:
    """One measured size gives the ratio, which predicts every other size."""
    counted = {size: CPU.seconds(work(sized(method, *size)).training) for size in MEASURED[method]}
    for known, unknown in permutations(MEASURED[method], 2):
        predicted = counted[unknown] * MEASURED[method][known] / counted[known]
        assert 1 / 1.5 < predicted / MEASURED[method][unknown] < 1.5, (known, unknown)


def sized(method: str, seeds: int, trials: int, batch_size: int) -> ResolvedAdapt:
    """One training step of that size."""
    family = {"name": "minigpt", "width": 96, "layers": 1, "heads": 1}
    base = a_pretrain_spec(family=family, task={"name": "sort_ascending"}, seeds=1)
    adapting = an_adapt_spec(
        task={"name": "sort_descending"},
        method={"name": method} | KNOBS[method],
        budget={},
        training={"steps": 1, "batch_size": batch_size, "validations": 0},
        tuning={"trials": trials},
        seeds=seeds,
    )
    return resolve(adapting, base_facts(base))


def test_the_lengths_of_texts_come_from_their_dataset(sessions: Sessions) -> None:
    texts = [{"text": f"{'so ' * 20}{number}", "label": "yn"[number % 2]} for number in range(200)]
    task = {
        "name": "text_classification",
        "dataset": "texts",
        "prompt": "{text}",
        "label": {"field": "label", "words": {"n": "-", "y": "+"}},
        "tokens": {"longest": 1024, "answer": 1},
    }
    document = {
        "name": "reader",
        "family": {"name": "minigpt", "layers": 2, "heads": 2, "width": 64},
        "task": task,
        "training": {"steps": 2000},
    }
    with sessions.begin() as session:
        new = record_datasets.NewRecords.model_validate({"name": "texts", "records": texts})
        record_datasets.create(session, a_principal(session), new)
        spec = resolve(PretrainSpec.model_validate(document), None, datasets.known(session))
        known = estimate(session, spec, "cpu")
        earlier = [{"name": n, "longest": 63, "empty": 0} for n in ("text", "label")]
        session.execute(update(Dataset).values(fields=earlier))
        unknown = estimate(session, spec, "cpu")
    assert unknown.seconds > 5 * known.seconds
    assert unknown.memory_bytes == known.memory_bytes
