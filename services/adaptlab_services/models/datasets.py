"""Datasets: word lists for tasks, uploaded or generated."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from sqlalchemy import Select, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.dataset import (
    FEWEST_TRIPLES,
    MOST_TRIPLES,
    DatasetFacts,
    Datasets,
    Triple,
    WordList,
    content_of,
    word_list,
)
from adaptlab.plugins.generated_words import NAME as GENERATED
from adaptlab.plugins.generated_words import generated_words
from adaptlab.values import Name, Value
from adaptlab_answers.models import DatasetLinks, DatasetOrigin, DatasetView
from adaptlab_answers.paging import Page
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import Artifact, Dataset, Project
from adaptlab_services import paging
from adaptlab_services.errors import Conflict, NotFound
from adaptlab_services.limits import quotas
from adaptlab_services.paging import Cursor
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage.stored_files import StoredFile

MEDIA_TYPE = "application/jsonl"


class NewDataset(Value):
    """A dataset to create: triples of an English, a German and a Spanish word.

    English words must be unique. Words are made of letters in Unicode's form NFC, with spaces,
    hyphens, apostrophes or dots between them.
    """

    name: Name
    sources: Annotated[tuple[DatasetOrigin, ...], Field(max_length=16)] = ()
    triples: Annotated[
        tuple[Triple, ...], Field(min_length=FEWEST_TRIPLES, max_length=MOST_TRIPLES)
    ]


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The answer to a dataset's creation; `is_new` is false for a repetition."""

    dataset: DatasetView
    is_new: bool


class _Stored(Datasets):
    """The uploaded datasets, queried when a task names one."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getitem__(self, name: str) -> DatasetFacts:
        row = self._session.scalars(self._here().where(Dataset.name == name)).one_or_none()
        if row is None:
            raise KeyError(name)
        return _facts(row)

    def __iter__(self) -> Iterator[str]:
        return iter([row.name for row in self._session.scalars(self._here())])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _here(self) -> Select[Dataset]:
        project = access.project_of(self._session)
        return select(Dataset).where(Dataset.project_id == project).order_by(Dataset.name)


def known(session: Session) -> Datasets:
    """Return the datasets that tasks can name; valid within the unit of work."""
    return _Stored(session)


def upload(session: Session, principal: Principal, new: NewDataset) -> Uploaded:
    """Create a dataset.

    Raises:
        InvalidSpec: the name is reserved, or the words are not a valid list.
        Conflict: the name belongs to other words.
    """
    if new.name == GENERATED:
        detail = f"{GENERATED!r} is the name of the generated list. Choose another name."
        raise InvalidSpec(Problem("/name", "reserved_name", detail))
    words = word_list(new.triples)
    is_new = _insert(session, principal, new, words)
    with access.inside(session, access.to_create(session)):
        dataset = get(session, new.name)
    if dataset.digest != words.digest:
        raise Conflict(
            f"The dataset {new.name!r} already exists, with other words: its SHA-256 is "
            f"{dataset.digest}, that of these {words.digest}. Choose another name."
        )
    return Uploaded(dataset, is_new)


def get(session: Session, name: str) -> DatasetView:
    """Return a dataset, that of the request's project if several match.

    Raises:
        NotFound: no project, or several other projects, have such a dataset.
    """
    if name == GENERATED:
        return _generated_view()
    rows = session.execute(_rows().where(Dataset.name == name)).all()
    row = access.nearest(session, [(candidate.Dataset.project_id, candidate) for candidate in rows])
    if row is None:
        raise NotFound("dataset", name)
    return _view(*row)


def page(session: Session, page_size: int, page_token: str | None = None) -> Page[DatasetView]:
    """Return a page of all datasets, sorted by name."""
    after = _FIRST if page_token is None else _after(paging.read(page_token, "datasets"))
    limit = paging.page_limit(page_size)
    place = (Dataset.name.collate("C"), Dataset.project_id)  # as Python sorts
    query = _rows().where(tuple_(*place) > after).order_by(*place).limit(limit)
    views = [(row.Dataset.project_id, _view(*row)) for row in session.execute(query)]
    if after < _GENERATED_PLACE:
        views.append((0, _generated_view()))
        views.sort(key=_place)
    shown = views[: limit - 1]
    token = None
    if len(views) > len(shown):
        project_id, last = shown[-1]
        token = paging.written(Cursor(last.name, str(project_id)), "datasets")
    return Page(data=tuple(view for _, view in shown), next_page_token=token)


def content(session: Session, name: str) -> StoredFile:
    """Return the canonical content of an uploaded dataset; raises `NotFound`."""
    dataset = get(session, name)
    if dataset.links.content is None:
        raise NotFound("content of the dataset", name)
    return StoredFile(
        sha256=dataset.digest, size=dataset.size, filename=f"{name}.jsonl", media_type=MEDIA_TYPE
    )


def _insert(session: Session, principal: Principal, new: NewDataset, words: WordList) -> bool:
    """Insert the dataset; return False if its name is taken."""
    lines = content_of(words.triples)
    quotas.check_room(session, principal.user_id, len(lines))
    stored = ArtifactStore(session).write([lines])
    facts = words.facts(new.name, "imported")
    row = {
        "name": new.name,
        "project_id": access.to_create(session),
        "owner_id": principal.user_id,
        "artifact_sha256": stored.sha256,
        "triples": len(words.triples),
        "characters": facts.characters,
        "lengths": list(facts.lengths),
        "sources": [origin.model_dump(mode="json") for origin in new.sources],
    }
    inserted = session.execute(
        insert(Dataset).values(row).on_conflict_do_nothing().returning(Dataset.name)
    )
    return inserted.one_or_none() is not None


def _place(listed: tuple[int, DatasetView]) -> tuple[str, int]:
    project_id, view = listed
    return view.name, project_id


def _rows() -> Select[Dataset, int, str]:
    return (
        select(Dataset, Artifact.size, Project.name)
        .join(Artifact, Artifact.sha256 == Dataset.artifact_sha256)
        .join(Project, Project.id == Dataset.project_id)
    )


_FIRST: tuple[str, int] = ("", 0)
_GENERATED_PLACE: tuple[str, int] = (GENERATED, 0)


def _after(cursor: Cursor) -> tuple[str, int]:
    return cursor.key, cursor.row()


def _facts(row: Dataset) -> DatasetFacts:
    return DatasetFacts(
        name=row.name,
        digest=row.artifact_sha256,
        source="imported",
        characters=row.characters,
        lengths=tuple(row.lengths),
    )


def _view(row: Dataset, size: int, project: str) -> DatasetView:
    return DatasetView(
        name=row.name,
        project=project,
        source="imported",
        digest=row.artifact_sha256,
        size=size,
        triples=row.triples,
        longest=len(row.lengths),
        lengths=tuple(row.lengths),
        characters=row.characters,
        sources=tuple(DatasetOrigin.model_validate(origin) for origin in row.sources),
        created_at=row.created_at,
        links=DatasetLinks(
            self=f"/v1/datasets/{row.name}", content=f"/v1/datasets/{row.name}/content"
        ),
    )


def _generated_view() -> DatasetView:
    words = generated_words()
    facts = words.facts(GENERATED, "generated")
    return DatasetView(
        name=GENERATED,
        project=None,
        source="generated",
        digest=facts.digest,
        size=len(content_of(words.triples)),
        triples=len(words.triples),
        longest=facts.longest,
        lengths=facts.lengths,
        characters=facts.characters,
        sources=(),
        created_at=None,
        links=DatasetLinks(self=f"/v1/datasets/{GENERATED}", content=None),
    )
