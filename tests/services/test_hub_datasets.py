"""Datasets of a hub: which files a split has, and hubs that misbehave."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.hub_lab import Lab
from tests.hub_server import COMMIT, OTHER, Handler, Hub, a_hub

from adaptlab.errors import InvalidSpec
from adaptlab.weights.hub_name import HubDatasetName
from adaptlab_answers.models import DatasetView
from adaptlab_db.tables import Dataset, Upload
from adaptlab_services.hub.hub_access import HubFile, HubRepository
from adaptlab_services.hub.hub_card import configs_of
from adaptlab_services.hub.hub_splits import chosen, has_records
from adaptlab_services.models import datasets
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings

REPO = "datasets/lab/reviews"
SOURCE = "hub:lab/reviews"
ROWS = [("good, really", "1"), ("bad", "0"), ("fine", "1"), ("no", "-1")]
CSV = b'text,label\n"good, really",1\nbad,0\n'
MORE = b"label,text\n1,fine\n-1,no\n"
LABEL = {"name": "label", "dtype": {"class_label": {"names": {"0": "negative", "1": "positive"}}}}
NAMED = [("good, really", "positive"), ("bad", "negative"), ("fine", "positive"), ("no", "")]
LINES = b"".join(
    json.dumps({"text": text, "label": label}, separators=(",", ":")).encode() + b"\n"
    for text, label in NAMED
)
CARD = {
    "license": ["mit", "cc0-1.0"],
    "configs": [{"config_name": "plain", "data_files": [{"split": "train", "path": "x/*.csv"}]}],
    "dataset_info": {"config_name": "plain", "features": [LABEL]},
}


def parquet(path: Path, rows: int | None = None) -> bytes:
    """A table of Parquet: the reviews, or equal rows that pack well."""
    listed = ", ".join(f"('{text}', {label})" for text, label in ROWS)
    query = f"SELECT * FROM (VALUES {listed}) AS t(text, label)"
    if rows is not None:
        query = f"SELECT repeat('x', 1000) AS text, 0 AS label FROM range({rows})"
    with duckdb.connect() as database:
        database.sql(query).write_parquet(str(path), compression="zstd")
    return path.read_bytes()


@pytest.fixture
def hub() -> Iterator[Hub]:
    with a_hub() as hub:
        hub.files[REPO] = {"x/1.csv": CSV, "x/2.csv": MORE, "README.md": b"# Reviews"}
        hub.card.update(CARD)
        yield hub


@pytest.fixture
def lab(sessions: sessionmaker[Session], settings: Settings, hub: Hub, ada: Principal) -> Lab:
    return Lab(sessions, hub.settings(settings), ada)


def fetch(lab: Lab, source: str = SOURCE) -> Any:
    return lab.run(name="reviews", source=source, kind="dataset")


def look(lab: Lab) -> DatasetView:
    with lab.sessions() as session, access.inside(session, 1):
        return datasets.get(session, "reviews")


def test_files_are_joined_in_order_with_the_names_of_classes(lab: Lab, hub: Hub) -> None:
    made = fetch(lab)
    assert (made.state, made.error, made.source) == ("succeeded", None, SOURCE + "@main")
    assert made.dataset_plan.class_names == {"label": ("negative", "positive")}
    found = look(lab)
    assert found.size == len(LINES)
    assert found.origin is not None
    assert (found.origin.commit, found.origin.licence) == (COMMIT, "mit, cc0-1.0")
    assert (found.origin.config, found.origin.split) == ("plain", "train")
    assert found.origin.files == ("x/1.csv", "x/2.csv")
    assert made.bytes_done == made.bytes_total == len(CSV + MORE)


def test_a_dataset_of_scripts_is_that_of_its_conversion(lab: Lab, hub: Hub, tmp_path: Path) -> None:
    hub.files[REPO] = {"reviews.py": b"import os", "data.zip": b"PK", "x.pkl": b"no"}
    content = parquet(tmp_path / "a.parquet")
    hub.branches["refs/convert/parquet"] = hub.branches[OTHER] = OTHER
    hub.trees[REPO, OTHER] = {f"plain/partial-train/{n:04}.parquet": content for n in range(2)}
    made = fetch(lab)
    assert (made.state, made.error, made.commit) == ("succeeded", None, OTHER)
    found = look(lab)
    assert (found.records, found.copies) == (8, 4)
    assert found.origin is not None
    assert (found.origin.is_partial, found.origin.commit) == (True, OTHER)
    assert found.fields is not None
    values = found.fields[1].values or ()
    assert {one.value: one.count for one in values} == {"": 2, "negative": 2, "positive": 4}
    assert lab.count(Upload) == 0


def repository(*names: str, **card: Any) -> HubRepository:
    files = tuple(HubFile(name=name, size=1) for name in names)
    return HubRepository(
        commit=COMMIT, files=files, file_count=len(names), configs=configs_of(card)
    )


def card_of(files: object, **more: Any) -> Mapping[str, Any]:
    return {"configs": [{"config_name": "a", "data_files": files, **more}]}


ODD, BOTH, INSIDE = "data/odd-00000-of-00001.csv", ["b.csv", "a.csv"], "d/test.csv"
CHOICES: list[tuple[HubRepository, str, str, list[str]]] = [
    (repository("train.csv", "test.csv"), "", "default/train", ["train.csv"]),
    (repository("train.csv", "dev.csv"), "validation", "default/validation", ["dev.csv"]),
    (repository("a.jsonl", "b.jsonl"), "", "default/train", ["a.jsonl", "b.jsonl"]),
    (repository("test/train-me.csv", "b.csv"), "", "default/test", ["test/train-me.csv"]),
    (
        repository("data/train-00001-of-00002.parquet", "data/train-00000-of-00002.parquet"),
        "",
        "default/train",
        ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"],
    ),
    (repository("data/odd-00000-of-00001.csv", "a.csv"), "odd", "default/odd", [ODD]),
    (repository("de/train.csv", "en/train.csv"), "en/", "en/train", ["en/train.csv"]),
    (repository("train.csv", "train.parquet"), "", "default/train", ["train.parquet"]),
    (repository("b.csv", "c/a.csv", **card_of("**/*.csv")), "", "a/train", ["b.csv", "c/a.csv"]),
    (repository("b.csv", "c/a.csv", **card_of(["*.csv"])), "", "a/train", ["b.csv"]),
    (repository("b.csv", "a.csv", **card_of({"test": ["b.csv", "a.csv"]})), "", "a/test", BOTH),
    (repository("d/test.csv", "e.csv", **card_of(None, data_dir="d")), "", "a/test", [INSIDE]),
]  # fmt: skip


@pytest.mark.parametrize(("found", "part", "split", "files"), CHOICES)
def test_a_split_is_found_by_the_card_or_by_names(
    found: HubRepository, part: str, split: str, files: list[str]
) -> None:
    source = f"{SOURCE}#{part}" if part else SOURCE
    taken = chosen(found, HubDatasetName.read(source, "/source"))
    assert (f"{taken.config}/{taken.split}", [one.name for one in taken.files]) == (split, files)


REFUSED: list[tuple[HubRepository, str, str, str]] = [
    (repository(), "", "no_data_files", "Scripts, pickles and archives are never read"),
    (repository("train.csv", "test.csv"), "dev", "unknown_split", "--split: test, train"),
    (repository("de/a.csv", "en/a.csv"), "", "unknown_config", "--config: de, en"),
    (repository("de/a.csv", "en/a.csv"), "fr/train", "unknown_config", "no configuration 'fr'"),
    (repository("a.csv", **card_of("a.csv", column_names=["x"])), "", "other_reading", "column"),
]


@pytest.mark.parametrize(("found", "part", "code", "words"), REFUSED)
def test_what_a_dataset_lacks_is_refused_with_what_it_has(
    found: HubRepository, part: str, code: str, words: str
) -> None:
    with pytest.raises(InvalidSpec) as raised:
        chosen(found, HubDatasetName.read(f"{SOURCE}#{part}" if part else SOURCE, "/source"))
    (problem,) = raised.value.problems
    assert (problem.code, words in problem.detail) == (code, True)


def files(**named: bytes) -> Callable[[Hub, Path], None]:
    def change(hub: Hub, _: Path) -> None:
        hub.card.clear()
        hub.files[REPO] = {name.replace("__", "/") + ".csv": text for name, text in named.items()}

    return change


def answers(status: int, **headers: str) -> Callable[[Hub, Path], None]:
    def change(hub: Hub, _: Path) -> None:
        hub.changes["main"] = lambda handler: handler.answer(status, b"{}", **headers) or True

    return change


def many_files(hub: Hub, _: Path) -> None:
    hub.members["siblings"] = [{"rfilename": f"{n:06}.csv", "size": 9} for n in range(10**5)]


def lying_size(hub: Hub, _: Path) -> None:
    more = CSV + b"x" * 99
    hub.changes["1.csv"] = lambda handler: (
        handler.answer(200, more, x_repo_commit=COMMIT, content_length=str(len(more))) or True
    )


def other_bytes(hub: Hub, _: Path) -> None:
    def change(handler: Handler) -> bool:
        handler.bytes_of(CSV.replace(b"bad", b"odd"), x_repo_commit=COMMIT)
        return True

    hub.changes["1.csv"] = change


def huge(hub: Hub, _: Path) -> None:
    hub.members["siblings"] = [{"rfilename": "x/1.csv", "size": 10**13}]


def expanding(hub: Hub, folder: Path) -> None:
    hub.card.clear()
    hub.files[REPO] = {"train.parquet": parquet(folder / "big.parquet", rows=400_000)}


def elsewhere(hub: Hub, folder: Path) -> None:
    hub.card.clear()
    hub.files[REPO] = {"train.parquet": parquet(folder / "a.parquet")}
    hub.location = "http://169.254.169.254/latest"


ATTACKS: list[tuple[Callable[[Hub, Path], None], str, str]] = [
    (files(link=b"../../etc/passwd"), "no_records", "link.csv"),
    (files(nul=b"text,label\na\0b,1\n"), "nul_character", "nul.csv"),
    (files(a=CSV, b=b"text,other\nx,1\n"), "other_fields", "b.csv has the fields text, other"),
    (many_files, "too_many_files", "100,000 of 10,000"),
    (lying_size, "wrong_size", "announced another size"),
    (other_bytes, "wrong_digest", "Nothing was kept"),
    (huge, "too_many_bytes", "ADAPTLAB_MAX_DATASET_BYTES"),
    (expanding, "too_many_bytes", "train.parquet"),
    (elsewhere, "refused_host", "led to 169.254.169.254"),
    (answers(401), "absent", "no dataset lab/reviews"),
    (answers(403, x_error_code="GatedRepo"), "gated", "/datasets/lab/reviews, store your token"),
    (answers(404, x_error_code="RevisionNotFound"), "no_revision", "/datasets/lab/reviews/tree"),
]


@pytest.mark.parametrize(("attack", "code", "words"), ATTACKS)
def test_hostile_datasets_are_refused_and_leave_nothing(
    lab: Lab, hub: Hub, tmp_path: Path, attack: Callable[[Hub, Path], None], code: str, words: str
) -> None:
    attack(hub, tmp_path)
    made = fetch(lab)
    assert (made.state, made.code, words in str(made.error)) == ("failed", code, True), made.error
    assert lab.count(Dataset) == 0
    assert lab.count(Upload) == (code == "refused_host")  # kept for a retry


@pytest.mark.parametrize(
    "name", ["../x.csv", "/x.csv", "a//b.csv", "a/./b.csv", "a\\b.csv", "a\0.csv", ".git/a.csv",
             "x" * 2000 + ".csv", "a.py", "a.pkl", "a.csv.gz", "dataset_infos.json"],
)  # fmt: skip
def test_files_with_hostile_names_are_no_files_of_a_dataset(name: str) -> None:
    assert not has_records(name)


def test_an_interrupted_fetch_goes_on_after_the_files_that_are_there(
    lab: Lab, hub: Hub, tmp_path: Path
) -> None:
    first, second = parquet(tmp_path / "a"), parquet(tmp_path / "b", rows=10)
    hub.card.clear()
    hub.files[REPO] = {"train-0.parquet": first, "train-1.parquet": second}
    hub.changes["train-1.parquet"] = lambda handler: handler.answer(503) or True
    made = fetch(lab)
    assert (made.state, made.bytes_done) == ("pending", len(first))
    hub.changes.clear()
    hub.branches["main"] = OTHER
    lab.attempt().run()
    done = lab.look(made)
    assert (done.state, done.commit, look(lab).records) == ("succeeded", COMMIT, 14)
    assert hub.names().count("train-0.parquet") == 1
    assert lab.count(Upload) == 0


def test_a_moved_branch_changes_nothing_of_a_fetch(lab: Lab, hub: Hub) -> None:
    def move(handler: Handler) -> bool:
        hub.branches["main"] = OTHER
        return False

    hub.changes["1.csv"] = move
    assert (fetch(lab).state, look(lab).origin is not None) == ("succeeded", True)
    assert not [one.path for one in hub.asked if OTHER in one.path]
