"""Studies of recipes: what they are called, what they make, and what they report when measured."""

from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    a_checkpoint,
    a_ledger,
    a_principal,
    a_replicate,
    a_summary,
    an_attention_map,
    an_environment,
)

from adaptlab import results
from adaptlab.errors import InvalidSpec, UnknownName
from adaptlab.recipe_report import ReportCell
from adaptlab.recipe_study import RecipeRequest
from adaptlab.spec import PretrainSpec, ResolvedSpec
from adaptlab.theory_report import Check
from adaptlab_services import recipes, studies
from adaptlab_services.errors import Conflict, NoReport, NotFound
from adaptlab_services.leases import Claim, DatabaseLedger
from adaptlab_services.recipes import StudyReport
from adaptlab_services.studies import Rules

Sessions = sessionmaker[Session]
TABLE_1 = "petrov2024/table-1"
ITEMS = 3200
MAP, WEIGHTS = Path("map.npy"), Path("weights.safetensors")


@dataclass(frozen=True)
class Run:
    """What a job is said to have measured, the same for every seed.

    `right` are the items right by task; the last trial of a seed has `last` of the validation
    items right, and the others none.
    """

    right: Mapping[str, int] = field(default_factory=dict[str, int])
    last: float = 0.0
    deviation: float | None = None
    checks: tuple[Check, ...] = ()
    fails: bool = False


def as_published(spec: ResolvedSpec) -> Run:
    """About what table 1 says, and nothing right at any rate of the prefix."""
    up, down = "sort_ascending", "sort_descending"
    if spec.method is None:
        return Run({up: 2912, down: 0})
    if spec.method["name"] == "full_finetuning":
        return Run({up: 0, down: 2720}, deviation=0.9)
    return Run({up: 0, down: 0}, deviation=3e-8)


def request(**changes: Any) -> RecipeRequest:
    return RecipeRequest.model_validate(
        {"recipe": TABLE_1, "preset": "quick", "seeds": 3} | changes
    )


def create(sessions: Sessions, **changes: Any) -> str:
    """The name of a study that was made from a recipe."""
    with sessions.begin() as session:
        asked = recipes.requested(session, request(**changes))
        who = a_principal(session)
        made = studies.create(session, who, asked.spec, Rules(), recipe=asked.recipe)
        return made.study.name


def run_all(sessions: Sessions, run_of: Callable[[ResolvedSpec], Run], most: int = 100) -> None:
    """Claim so many jobs, as they come, and end each as `run_of` says."""
    ledger = a_ledger(sessions)
    worker = ledger.register_worker("laptop", 4711, ["cpu"])
    while most and (claim := ledger.claim(worker, ["cpu"])) is not None:
        most -= 1
        run = run_of(claim.resolved_spec)
        if run.fails:
            ledger.fail(claim, "diverged", "The loss is not finite", retry=False)
            continue
        write(ledger, claim, run)
        ledger.finish(claim)


def write(ledger: DatabaseLedger, claim: Claim, run: Run) -> None:
    """Record what a run that came to its end would."""
    spec = claim.resolved_spec
    told = (
        results.TheoryChecked(place=place, check=check) for place, check in enumerate(run.checks)
    )
    replicates = tuple(ended(spec, run))
    started = results.Started(environment=an_environment(), replicates=len(replicates))
    decided = (results.ReplicatesDecided(replicates=replicates),) if replicates else ()
    ledger.record(claim, [started, *told, *decided], {})
    for one in replicates:
        if one.selected:
            ledger.record(claim, [*evaluated(spec, one, run)], {})
            keep(ledger, claim, one, run)


def keep(ledger: DatabaseLedger, claim: Claim, one: results.ReplicateResult, run: Run) -> None:
    """The weights of a base model, and the attention of what was captured."""
    which = {"replicate": one.replicate, "seed": one.seed}
    if claim.resolved_spec.kind == "pretrain":
        sha256 = ledger.put_artifact(claim, [b"weights of seed %d" % one.seed]).sha256
        checkpoint = a_checkpoint(**which, kind="base_model")
        written = results.CheckpointWritten(checkpoint=checkpoint, path=WEIGHTS)
        ledger.record(claim, [written], {WEIGHTS: sha256})
    if run.deviation is not None:
        heads = (a_summary(relative_deviation=run.deviation / (1 + one.seed)),)
        captured = an_attention_map(**which, summaries=heads)
        sha256 = ledger.put_artifact(claim, [b"a map"]).sha256
        ledger.record(
            claim, [results.AttentionCaptured(attention=captured, path=MAP)], {MAP: sha256}
        )


def ended(spec: ResolvedSpec, run: Run) -> Iterator[results.ReplicateResult]:
    """All trials of all seeds; the first of every seed is chosen."""
    if spec.kind == "theory":
        return
    trials = spec.training.trials
    for place, seed in enumerate(spec.seeds):
        for number, trial in enumerate(trials):
            accuracy = run.last if number == len(trials) - 1 else 0.0
            yield a_replicate(
                place * len(trials) + number,
                seed=seed,
                trial=number,
                learning_rate=trial.learning_rate,
                selected=number == 0,
                validation_accuracy=accuracy if len(trials) > 1 else None,
            )


def evaluated(
    spec: ResolvedSpec, one: results.ReplicateResult, run: Run
) -> Iterator[results.Evaluated]:
    for task in spec.scored_tasks:
        right = run.right[str(task["name"])]
        yield results.Evaluated(
            evaluation=results.Evaluation(
                replicate=one.replicate,
                seed=one.seed,
                task=task,
                split="test",
                correct=right,
                total=ITEMS,
                outcomes=np.packbits(np.arange(ITEMS) < right).tobytes().hex(),
            )
        )


def report(sessions: Sessions, study: str) -> StudyReport:
    with sessions.begin() as session:
        return recipes.report(session, study)


def findings(said: StudyReport) -> dict[str, str]:
    return {f"{one.claim} {one.wording}": one.finding for one in said.claims}


def cells(said: StudyReport) -> dict[tuple[str, str], ReportCell]:
    return {
        (row.label, cell.column): cell
        for table in said.tables
        for row in table.rows
        for cell in row.cells
    }


def test_recipes_are_listed_and_shown() -> None:
    listed = {one.name: one for one in recipes.listed().data}
    assert listed[TABLE_1].presets == ("quick", "faithful", "fair")
    shown = recipes.get(TABLE_1)
    assert [preset.preset for preset in shown.presets] == ["quick", "faithful", "fair"]
    assert all(preset.note and preset.spec["methods"] for preset in shown.presets)
    assert shown.links.self == f"/v1/recipes/{TABLE_1}"
    with pytest.raises(NotFound):
        recipes.get("petrov2024/table-9")


def test_a_study_of_a_recipe_is_numbered_where_its_name_is_taken(sessions: Sessions) -> None:
    assert create(sessions) == "petrov2024-table-1-quick"
    assert create(sessions) == "petrov2024-table-1-quick-2"
    assert create(sessions) == "petrov2024-table-1-quick-3"
    assert create(sessions, name="mine") == "mine"
    with pytest.raises(Conflict, match="mine"):
        create(sessions, name="mine")


def test_studies_that_are_asked_for_at_once_have_names_of_their_own(sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_principal(session)  # the threads would otherwise all make the user
    with ThreadPoolExecutor(4) as pool:
        names = set(pool.map(lambda _: create(sessions), range(4)))
    first = "petrov2024-table-1-quick"
    assert names == {first, f"{first}-2", f"{first}-3", f"{first}-4"}


def test_equal_base_models_are_shared_and_others_are_numbered(sessions: Sessions) -> None:
    create(sessions)
    with sessions.begin() as session:
        same = recipes.requested(session, request()).spec
        more = recipes.requested(session, request(seeds=4)).spec
    (known,), (another,) = same.base_models, more.base_models
    assert isinstance(known, PretrainSpec)
    assert isinstance(another, PretrainSpec)
    assert (known.name, another.name) == (
        "petrov2024-ascending-quick",
        "petrov2024-ascending-quick-2",
    )
    create(sessions, seeds=4)


@pytest.mark.parametrize(
    ("changes", "error", "pointer"),
    [
        ({"recipe": "petrov2024/table-11"}, UnknownName, "/recipe"),
        ({"recipe": "petrov2024/theorems"}, InvalidSpec, "/seeds"),
    ],
)
def test_what_cannot_be_asked_for_is_said_with_its_place(
    sessions: Sessions, changes: dict[str, Any], error: type[InvalidSpec], pointer: str
) -> None:
    with pytest.raises(error) as caught, sessions.begin() as session:
        recipes.requested(session, request(**changes))
    assert [problem.pointer for problem in caught.value.problems] == [pointer]


def test_a_study_like_the_published_one_reproduces_its_claims(sessions: Sessions) -> None:
    study = create(sessions)
    run_all(sessions, as_published)
    said = report(sessions, study)
    assert set(findings(said).values()) == {"reproduced"}
    table = cells(said)
    base = table["pretrained on ascending", "ascending"]
    assert base.measured is not None
    assert base.measured.mean == pytest.approx(0.91)
    assert base.published_inside is True
    assert [one.seed for one in base.seeds] == [0, 1, 2]
    assert table["LoRA", "descending"].state == "absent"
    rows = {row.label: row for row in said.tables[0].rows}
    assert (rows["prefix-tuning"].parameters, rows["prefix-tuning"].trials) == (96, 8)
    assert (said.study.name, said.study.state, said.departures) == (study, "succeeded", ())
    assert said.links.comparison.endswith("/comparison")


def test_a_prefix_that_learns_at_one_rate_is_reported_as_measured(sessions: Sessions) -> None:
    def run_of(spec: ResolvedSpec) -> Run:
        run = as_published(spec)
        is_prefix = spec.method is not None and spec.method["name"] == "prefix_tuning"
        return Run(run.right, last=0.5, deviation=0.2) if is_prefix else run

    study = create(sessions)
    run_all(sessions, run_of)
    found = findings(report(sessions, study))
    assert found["prefix-fails arxiv_v1"] == "not_reproduced"
    assert found["prefix-fails iclr"] == "reproduced"
    assert found["relative-attention-stays iclr"] == "not_reproduced"


def test_a_study_half_done_has_a_report(sessions: Sessions) -> None:
    study = create(sessions)
    assert set(findings(report(sessions, study)).values()) == {"not_measured"}
    run_all(sessions, as_published, most=1)
    said = report(sessions, study)
    assert findings(said)["base-sorts-up iclr"] == "reproduced"
    assert findings(said)["prefix-fails iclr"] == "not_measured"
    cell = cells(said)["prefix-tuning", "descending"]
    assert cell.state == "not_measured"
    assert cell.reason is not None
    assert "is queued" in cell.reason
    assert said.study.state == "running"


def test_a_job_that_failed_leaves_its_claims_unmeasured(sessions: Sessions) -> None:
    def run_of(spec: ResolvedSpec) -> Run:
        is_full = spec.method is not None and spec.method["name"] == "full_finetuning"
        return Run(fails=True) if is_full else as_published(spec)

    study = create(sessions)
    run_all(sessions, run_of)
    said = report(sessions, study)
    assert findings(said)["full-fine-tuning-learns iclr"] == "not_measured"
    evidence = next(one.evidence for one in said.claims if one.claim == "full-fine-tuning-learns")
    assert "failed (diverged): The loss is not finite" in evidence


def test_checks_alone_are_a_recipe_too(sessions: Sessions) -> None:
    names = ("theorem-1-unconditional", "theorem-2-conditional", "longer-questions")
    good = tuple(Check.at_most(name, "Exact.", 0, 0) for name in names)
    bad = Check.at_most("longer-answers", "Exact.", 3, 0)
    study = create(sessions, recipe="petrov2024/theorems", seeds=None)
    run_all(sessions, lambda _: Run(checks=(*good, bad)))
    said = report(sessions, study)
    assert findings(said) == {
        "any-sequence iclr": "reproduced",
        "any-map iclr": "reproduced",
        "any-longer-answer iclr": "not_reproduced",
        "any-longer-question iclr": "reproduced",
        "soft-beats-hard iclr": "not_measured",
    }


def test_a_study_of_no_recipe_has_no_report(sessions: Sessions) -> None:
    with sessions.begin() as session:
        asked = recipes.requested(session, request()).spec
        studies.create(session, a_principal(session), asked, Rules())
    with pytest.raises(NoReport, match="recipe"):
        report(sessions, "petrov2024-table-1-quick")
    with pytest.raises(NotFound):
        report(sessions, "nobody")


def test_a_report_takes_no_more_queries_for_more_jobs(sessions: Sessions) -> None:
    small, large = create(sessions), create(sessions, preset="fair")
    run_all(sessions, as_published)
    with counted(sessions) as first:
        report(sessions, small)
    with counted(sessions) as second:
        report(sessions, large)
    assert len(first) == len(second)
    assert len(second) < 20


@contextmanager
def counted(sessions: Sessions) -> Generator[list[str]]:
    """The statements that are sent meanwhile."""
    sent: list[str] = []

    def note(_c: object, _u: object, statement: str, *_: object) -> None:
        sent.append(statement)

    engine = sessions.kw["bind"]
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(engine, "before_cursor_execute", note)
