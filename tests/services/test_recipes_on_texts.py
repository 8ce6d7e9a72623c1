"""Recipes on a published model: what they lack, and their reports."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.folders import a_model_folder, a_qwen3_folder
from tests.making import a_base_model, a_claim, a_made_up_ledger, a_principal
from tests.reproducing import ITEMS, Run, run_all
from tests.texts import a_byte_pair_tokeniser

from adaptlab.errors import InvalidSpec
from adaptlab.recipes.texts import KINDS
from adaptlab.reproductions.recipe_study import RecipeRequest
from adaptlab.specs.spec import ImportSpec, ResolvedSpec
from adaptlab_services.jobs import jobs
from adaptlab_services.models import record_datasets
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.recipes import recipe_studies, recipes
from adaptlab_services.studies.studies import Rules

pytestmark = pytest.mark.long("recipes")

Sessions = sessionmaker[Session]
PROMPTS = "wen2023/hard-prompts"
TEXTS = [
    {"text": f"a {word} film {number}", "label": label}
    for number in range(50)
    for word, label in (("fine", "positive"), ("poor", "negative"))
]


def asked(**changes: Any) -> RecipeRequest:
    return RecipeRequest.model_validate({"recipe": PROMPTS, "preset": "text", **changes})


def words_of(records: Sequence[dict[str, str]]) -> list[str]:
    """Return what a tokeniser learns whole words from: texts and labels."""
    words = ("It", "was", "great", "terrible", "good", "bad", "positive", "negative")
    learned = [f" {word}" for word in words for _ in range(len(records))]
    return [*learned, *(record["text"] for record in records for _ in range(2))]


def upload(session: Session, name: str, records: Sequence[dict[str, str]] = TEXTS) -> None:
    new = record_datasets.NewRecords.model_validate({"name": name, "records": list(records)})
    record_datasets.create(session, a_principal(session), new)


@pytest.fixture
def roots(tmp_path: Path) -> ModelRoots:
    """Two decoders with a tokeniser, and room for 64 tokens."""
    for seed, name in enumerate(("smollm2", "smollm2-reviews")):
        folder = a_qwen3_folder(tmp_path / "root" / name, seed=seed, vocabulary=320)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 64}))
        tokeniser = a_byte_pair_tokeniser(words_of(TEXTS))
        (folder / "tokenizer.json").write_bytes(tokeniser)
    return ModelRoots({"models": tmp_path / "root"})


def imported(session: Session, name: str, roots: ModelRoots) -> None:
    spec = ImportSpec(name=name, folder=f"models/{name}", kind="import")
    jobs.create(session, a_principal(session), spec, roots=roots)


def test_what_is_missing_is_said_with_the_commands_that_provide_it(sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session, "mine")
    with pytest.raises(InvalidSpec) as caught, sessions.begin() as session:
        recipes.requested(session, asked(base_models=("mine",)))
    problems = {problem.pointer: problem for problem in caught.value.problems}
    assert [problem.code for problem in problems.values()] == [
        "missing_base_model",
        "missing_dataset",
    ]
    assert "'smollm2-reviews'" in problems["/base_models"].detail
    assert "adaptlab base-models import smollm2-reviews" in problems["/base_models"].detail
    assert "adaptlab datasets upload short-polarity" in problems["/dataset"].detail


def test_a_need_that_is_there_under_another_name_is_met(sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session, "mine")
        a_base_model(session, "theirs")
        upload(session, "tweets")
        request = asked(base_models=("mine", "theirs"), dataset="tweets")
        spec = recipes.requested(session, request).spec
    assert spec.base_models == ("mine", "theirs")


def by_method(spec: ResolvedSpec) -> Run:
    """Half right alone, and three quarters with whatever a method finds."""
    assert spec.method is not None
    share = 0.5 if spec.method["name"] == "frozen" else 0.75
    return Run({"text_classification": round(share * ITEMS)}, last=share)


def test_a_published_model_alone_is_scored_by_the_jobs_that_add_nothing(
    sessions: Sessions, roots: ModelRoots
) -> None:
    with sessions.begin() as session:
        for name in ("smollm2", "smollm2-reviews"):
            imported(session, name, roots)
        upload(session, "short-polarity")
    ledger = a_made_up_ledger(sessions)
    for _ in range(2):
        ledger.finish(a_claim(ledger))
    with sessions.begin() as session:
        rules = Rules(roots=roots)
        study = recipe_studies.create(session, a_principal(session), asked(), rules).study.name
    run_all(sessions, by_method)
    with sessions.begin() as session:
        report = recipes.report(session, study)
    rows = {row.label: row.cells for table in report.tables for row in table.rows}
    means = {label: cells[0].measured and cells[0].measured.mean for label, cells in rows.items()}
    assert means.pop("empty prompt") == 0.5
    assert set(means.values()) == {0.75}
    other = rows["empty prompt"][1].measured
    assert other is not None
    assert other.mean == 0.5
    assert report.departures == ()


GLOSSES = [
    {"text": f"one of {number} {kind}s", "label": kind} for number in range(50) for kind in KINDS
]


@pytest.mark.parametrize(
    ("name", "dataset", "records", "checked"),
    [
        ("reweighting", "short-polarity", TEXTS, "label_attention"),
        ("error-diagnosis", "six-glosses", GLOSSES, "error_diagnosis"),
    ],
)
def test_label_words_of_texts_are_measured_on_a_published_decoder(
    sessions: Sessions,
    tmp_path: Path,
    name: str,
    dataset: str,
    records: list[dict[str, str]],
    checked: str,
) -> None:
    folder = tmp_path / "root" / "smollm2"
    a_model_folder(folder, vocabulary=320, layers=12, context=128)
    tokeniser = a_byte_pair_tokeniser(words_of(records))
    (folder / "tokenizer.json").write_bytes(tokeniser)
    roots = ModelRoots({"models": folder.parent})
    with sessions.begin() as session:
        imported(session, "smollm2", roots)
        upload(session, dataset, records)
    ledger = a_made_up_ledger(sessions)
    ledger.finish(a_claim(ledger))
    request = asked(recipe=f"wang2023/{name}")
    with sessions.begin() as session:
        rules = Rules(roots=roots)
        study = recipe_studies.create(session, a_principal(session), request, rules).study
    specs: list[ResolvedSpec] = []

    def measured(spec: ResolvedSpec) -> Run:
        specs.append(spec)
        return Run({}) if spec.kind == "theory" else by_method(spec)

    run_all(sessions, measured)
    (check,) = [spec for spec in specs if spec.kind == "theory"]
    assert [one["name"] for one in check.checks] == [checked]
    assert len({cell.method for cell in study.cells}) == len(specs) - 1
    with sessions.begin() as session:
        report = recipes.report(session, study.name)
    assert report.departures == ()
    claimed = {one.claim: one.finding for one in report.claims}
    assert set(claimed.values()) <= {"not_measured", "undecided"}, "no premise is reported"
