"""Bytes of any kind are records or are refused, and nothing else happens."""

import csv
import io
import itertools
import json
from collections.abc import Iterator, Sequence

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_principal
from tests.security.serving import asking
from tests.uploading import a_complete_upload

from adaptlab.errors import InvalidSpec
from adaptlab.records.content import read_content
from adaptlab.records.facts import RecordsFacts
from adaptlab.records.file_forms import FileForm as Form
from adaptlab_answers.models import DatasetView
from adaptlab_db.artifacts import streamed
from adaptlab_db.tables import Artifact
from adaptlab_services.models import datasets
from adaptlab_services.models.record_datasets import ReadingLimits, RecordsFromUpload
from adaptlab_services.models.record_uploads import from_upload
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
LIMITS = ReadingLimits(2**28, 60)
NUMBERS = itertools.count()
SIGNS = [
    *'ab,;"\t\n\r\0 {}[]:\\',
    "\\u0000",
    "\\ud800",
    "\ufeff",
    "é",
    "🐔",
    '{"a":"b"}\n',
    "a,b\n",
]
TEXTS = st.lists(st.sampled_from(SIGNS), min_size=1, max_size=40).map("".join)
GARBAGE = st.binary(min_size=1, max_size=60) | TEXTS.map(str.encode)
CELLS = st.text(max_size=9)
ROWS = st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4)


def written(form: Form, rows: Sequence[tuple[str, str]]) -> bytes:
    """The rows as a file of that form, with whatever is in their cells."""
    file = io.StringIO()
    if form == "csv":
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    elif form == "tsv":
        file.write("\n".join("\t".join(row) for row in [("a", "b"), *rows]))
    else:
        file.write("\n".join(json.dumps(dict(zip("ab", row, strict=True))) for row in rows))
    return file.getvalue().encode()


@pytest.mark.long("many bad inputs")
@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
def test_any_bytes_are_records_or_are_refused(sessions: Sessions, form: Form) -> None:
    with sessions.begin() as session:
        owner = a_principal(session)
    made, pointers = list[DatasetView](), set[str]()

    @settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
    @given(GARBAGE | ROWS.map(lambda rows: written(form, rows)))
    def check(content: bytes) -> None:
        name = f"d{next(NUMBERS)}"
        new = RecordsFromUpload(
            name=name,
            kind="records",
            upload=a_complete_upload(sessions, owner, content),
            format=form,
        )
        try:
            made.append(from_upload(sessions.begin, sessions, owner, new, LIMITS).dataset)
        except InvalidSpec as error:
            pointers.update(problem.pointer for problem in error.problems)

    check()
    assert pointers == {"/upload"}
    assert len(made) > 5
    for dataset in made:
        assert_agree(sessions, dataset)
    with sessions() as session:
        assert set(session.scalars(select(Artifact.state))) == {"ready"}


def assert_agree(sessions: Sessions, made: DatasetView) -> None:
    """Content, facts and answer describe the same records."""
    records = list(read_content(streamed(sessions, made.digest), made.digest))
    with sessions() as session:
        facts = datasets.known(session)[made.name]
    assert isinstance(facts, RecordsFacts)
    assert (facts.records, list(facts.names())) == (len(records), [*records[0]])
    assert all(sum(field.buckets) == len(records) for field in facts.fields)
    assert made.fields is not None
    assert [field.values for field in made.fields] == [field.values for field in facts.fields]


@pytest.fixture
def client(settings: Settings, sessions: Sessions) -> Iterator[TestClient]:
    with asking(settings, sessions) as client:
        yield client


def test_a_list_of_datasets_stays_small(client: TestClient, sessions: Sessions) -> None:
    """Values of one dataset can have megabytes; a page has 200 datasets."""
    records = [
        {f"field-{field}": f"{field} {number} {'x' * 240}" for field in range(32)}
        for number in range(64)
    ]
    made = client.post("/v1/datasets", json={"name": "wide", "records": records})
    assert made.status_code == 201, made.text
    assert len(made.content) > 500_000
    assert len(client.get("/v1/datasets").content) < 10_000
    with sessions() as session:
        assert session.scalars(select(func.cardinality(datasets.Dataset.buckets))).one() == 32_000
