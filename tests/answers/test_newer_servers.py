"""Answers of newer servers are kept, written again, and never fatal."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, ValidationError
from pydantic.fields import FieldInfo
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import address, client, invoke
from tests.comparing import ENOUGH_BASES, a_measured_study, as_known, run_all
from tests.making import a_base_model
from tests.patience import patient_comparisons

from adaptlab.comparisons.comparison import Comparison
from adaptlab.values import Value
from adaptlab_answers import (
    attention,
    comparisons,
    jobs,
    models,
    people,
    recipes,
    results,
    server,
    studies,
)
from adaptlab_answers.reading import read
from adaptlab_client import Client
from adaptlab_client.transport.connection import Request, path_of

__all__ = ["address", "client", "invoke", "patient_comparisons"]  # found here by pytest

ADDED = {"from": ["a newer server", 1, None]}
NEW_WORD = "a-newer-word"
RECIPE = ("recipes", "petrov2024", "table-3")
QUESTIONS: Sequence[tuple[type[BaseModel], Sequence[str]]] = (
    (jobs.JobView, ("jobs", "{job}")),
    (jobs.EventPage, ("jobs", "{job}", "events")),
    (results.Replicates, ("jobs", "{job}", "replicates")),
    (results.Attempts, ("jobs", "{job}", "attempts")),
    (attention.Maps, ("jobs", "{job}", "attention")),
    (studies.StudyView, ("studies", "small")),
    (comparisons.StudyComparisonView, ("studies", "small", "comparison")),
    (recipes.RecipeView, RECIPE),
    (models.Methods, ("methods",)),
    (models.BaseModelView, ("base-models", "tiny-sort")),
    (people.Me, ("me",)),
    (server.Capabilities, ("capabilities",)),
)
WITHOUT_WORDS = {jobs.EventPage, results.Attempts, attention.Maps, models.Methods}


@pytest.fixture
def answered(client: Client, sessions: sessionmaker[Session]) -> "Answered":
    """A server with a study that has been measured, to be asked."""
    with sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)
    client.studies.create(a_measured_study(methods=["frozen", "lora"], seeds=5))
    run_all(sessions, as_known)
    job = next(iter(client.studies.jobs("small", filter="kind = adapt")))
    return Answered(client, str(job.id))


class Answered:
    """What a real server says."""

    def __init__(self, client: Client, job: str) -> None:
        self._client, self._job = client, job

    def __call__(self, path: Sequence[str]) -> bytes:
        request = Request("GET", path_of(*(part.format(job=self._job) for part in path)))
        return self._client.jobs._connection.send(request).content


def members(value: BaseModel, document: Mapping[str, object]) -> dict[str, FieldInfo]:
    """The members of a value, without those left out at their default."""
    return {
        name: field
        for name, field in type(value).model_fields.items()
        if name in document or not field.exclude_if
    }


def objects(value: object, document: object) -> Iterator[tuple[BaseModel, dict[str, Any]]]:
    """The values in an answer, each with the JSON object it was read from."""
    if isinstance(value, BaseModel):
        assert isinstance(document, dict)
        yield value, document
        for name in members(value, document):
            yield from objects(getattr(value, name), document[name])
    elif isinstance(value, tuple | list):
        assert isinstance(document, list)
        for part, inner in zip(value, document, strict=True):
            yield from objects(part, inner)
    elif isinstance(value, dict):
        assert isinstance(document, dict)
        for name, part in value.items():
            yield from objects(part, document[name])


def words(annotation: object) -> Iterator[object]:
    """The words that a member may have, where there is a list of them."""
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for part in get_args(annotation):
            yield from words(part)


def newer(answer: type[BaseModel], content: bytes) -> dict[str, Any]:
    """The answer with a new member in every object, and unknown words.

    Words are replaced where the schema lists them.
    """
    document: dict[str, Any] = json.loads(content)
    changed = 0
    for value, place in [*objects(read(answer, content), document)]:
        for name, field in members(value, place).items():
            # A test of an unknown kind is no test to this version: see below.
            is_kind = name == "kind" and type(value).__module__ == "adaptlab.reproductions.claim"
            if (
                place[name] in [*words(field.annotation)]
                and place[name] is not None
                and not is_kind
            ):
                place[name] = NEW_WORD
                changed += 1
        place["added"] = ADDED
    assert changed or answer in WITHOUT_WORDS, f"no word of {answer.__name__} was changed"
    return document


def test_members_and_words_that_are_not_known_are_kept(answered: Answered) -> None:
    """One test of all, since its study takes longer than they do."""
    for answer, path in QUESTIONS:
        document = newer(answer, answered(path))
        content = json.dumps(document)
        found = read(answer, content)
        assert type(found) is answer
        for value, place in objects(found, document):
            assert (value.model_extra or {})["added"] == ADDED
            assert {*place} >= {*members(value, place), "added"}
        assert json.loads(found.model_dump_json()) == document
        assert found.model_dump(mode="json") == document
        with pytest.raises(ValidationError):
            answer.model_validate_json(content)

    document = json.loads(answered(RECIPE))
    changed = document["claims"][0]["wordings"]["iclr"]
    changed["test"] = {"kind": "score_rises", "rows": ["prefix"]}
    recipe = read(recipes.RecipeView, json.dumps(document))
    assert recipe.claims[0].wordings["iclr"].test == changed["test"]
    assert isinstance(recipe.claims[1].wordings["iclr"].test, Value)
    assert json.loads(recipe.model_dump_json()) == document


def test_a_client_gives_what_the_server_has_made(answered: Answered, client: Client) -> None:
    study = client.studies.get("small")
    assert (type(study), study.project) == (studies.StudyView, "default")
    job = client.jobs.get(study.cells[0].jobs[0].id)
    assert (type(job), job.project, type(job.id)) == (jobs.JobView, "default", UUID)
    (attempt,) = client.jobs.attempts(job.id)
    assert (type(attempt), attempt.error) == (results.AttemptView, None)
    (table,) = client.studies.comparison("small").tables
    assert type(table.comparison) is Comparison


def test_what_is_no_answer_is_refused() -> None:
    for content in (b"", b"[]", b"{}", b'{"name": 1}', b"<html>"):
        with pytest.raises(ValidationError):
            read(models.BaseModelView, content)


class Inner(Value):
    size: Annotated[int, Field(ge=1, le=8)]
    word: Literal["a", "b"] = "a"


class Outer(Value):
    inner: Inner
    many: tuple[Inner, ...] = ()


def test_limits_are_those_of_the_server() -> None:
    found = read(Outer, '{"inner": {"size": 9}, "many": [{"size": 0, "word": "c", "more": 1}]}')
    assert (found.inner.size, found.many[0].word, found.many[0].model_extra) == (
        9,
        "c",
        {"more": 1},
    )
    assert found.model_fields_set == {"inner", "many"}


@pytest.mark.parametrize(
    "members",
    [
        {"inner": Inner(size=1), "more": 1},
        {"inner": {"size": 1, "more": 1}},
        {"inner": {"size": 9}},
    ],
)
def test_a_value_is_strict_where_it_is_made(members: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Outer(**members)
    with pytest.raises(ValidationError):
        Outer.model_validate(members)


def test_values_are_equal_however_they_came_about() -> None:
    assert read(Outer, '{"inner": {"size": 1}}') == Outer(inner=Inner(size=1))
    assert read(Outer, '{"inner": {"size": 1, "more": 1}}') != Outer(inner=Inner(size=1))
