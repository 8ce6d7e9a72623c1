"""Datasets of words and of records; a list of words is generated."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field
from sqlalchemy import Select, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, aliased, undefer

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.dataset import (
    FEWEST_TRIPLES,
    MOST_TRIPLES,
    DatasetFacts,
    Datasets,
    Triple,
    content_of,
    word_list,
)
from adaptlab.plugins.generated_words import NAME as GENERATED
from adaptlab.plugins.generated_words import generated_words
from adaptlab.plugins.text_task import LONGEST_ITEM
from adaptlab.records.facts import FieldFacts, RecordsFacts
from adaptlab.records.file_reading import Reading
from adaptlab.records.task_groups import GROUP_FIELD
from adaptlab.studies.study_drafts import DraftBase
from adaptlab.text.fitting import ASKS, Roles, limits_in_bytes, roles_of, task_document
from adaptlab.text.lengths import MeanBytes
from adaptlab.values import Name, Value
from adaptlab.weights.hub_name import HubDatasetName, HubDatasetOrigin
from adaptlab_answers.documents import JsonObject
from adaptlab_answers.models import (
    DatasetField,
    DatasetKind,
    DatasetLinks,
    DatasetOrigin,
    DatasetView,
)
from adaptlab_answers.paging import Page
from adaptlab_db.artifacts import ArtifactStore, StoredArtifact
from adaptlab_db.tables import Artifact, Dataset, Project
from adaptlab_db.visibility import ACROSS_PROJECTS
from adaptlab_services import paging
from adaptlab_services.errors import Absent, StateConflict
from adaptlab_services.limits import quotas
from adaptlab_services.models.hub_lookups import newest_of_hub
from adaptlab_services.paging import Cursor
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage.stored_files import StoredFile

LONGEST_NAME = 63
DIGITS = 8
"""Digits of a digest that tell apart datasets of files with one name."""
MEDIA_TYPE = "application/jsonl"
Origins = Annotated[tuple[DatasetOrigin, ...], Field(max_length=16)]


class NewDataset(Value):
    """A dataset of words to create.

    A triple has an English, a German and a Spanish word. English words must be unique. Words are
    made of letters in Unicode's form NFC, with spaces, hyphens, apostrophes or dots between them.
    """

    name: Name
    kind: Literal["words"] = "words"
    sources: Origins = ()
    triples: Annotated[
        tuple[Triple, ...], Field(min_length=FEWEST_TRIPLES, max_length=MOST_TRIPLES)
    ]


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The answer to a dataset's creation; `is_new` is false for a repetition."""

    dataset: DatasetView
    is_new: bool


@dataclass(frozen=True, slots=True)
class Content:
    """Content of a dataset that is about to be created.

    `columns` are those of the dataset's kind.
    """

    kind: DatasetKind
    artifact: StoredArtifact
    columns: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KeptDataset:
    """A dataset, under the name that it was given or has had.

    `is_new` is false for one that existed.
    """

    name: str
    is_new: bool


class _Stored(Datasets):
    """The uploaded datasets, queried when a task names one.

    A dataset that was looked up cannot be deleted until the unit of work ends.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getitem__(self, name: str) -> DatasetFacts | RecordsFacts:
        mine = (Dataset.project_id == self._project(), Dataset.name == name)
        whole = (undefer(Dataset.field_values), undefer(Dataset.buckets))
        query = select(Dataset).where(*mine).options(*whole)
        kept = query.with_for_update(read=True, key_share=True)
        row = self._session.scalars(kept).one_or_none()
        if row is None:
            raise KeyError(name)
        return _records_facts(row) if row.kind == "records" else _facts(row)

    def __iter__(self) -> Iterator[str]:
        mine = Dataset.project_id == self._project()
        names = select(Dataset.name).where(mine).order_by(Dataset.name)
        return iter(self._session.scalars(names).all())

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _project(self) -> int:
        return access.project_of(self._session)


def known(session: Session) -> Datasets:
    """Return the datasets that tasks can name; valid within the unit of work."""
    return _Stored(session)


def upload(session: Session, principal: Principal, new: NewDataset) -> Uploaded:
    """Create a dataset of words.

    Raises:
        InvalidSpec: the name is reserved, or the words are not a valid list.
        StateConflict: the name belongs to another dataset.
    """
    check_name(new.name)
    words = word_list(new.triples)
    lines = content_of(words.triples)
    quotas.check_room(session, principal.user_id, len(lines))
    facts = words.facts(new.name, "imported")
    columns = {
        "triples": len(words.triples),
        "characters": facts.characters,
        "lengths": list(facts.lengths),
    }
    content = Content("words", ArtifactStore(session).write([lines]), columns)
    return keep(session, principal, new.name, new.sources, content)


def check_name(name: str) -> None:
    """Raise `InvalidSpec` if no dataset can be created under this name."""
    if name == GENERATED:
        detail = f"{GENERATED!r} is the name of the generated list. Choose another name."
        raise InvalidSpec(Problem("/name", "reserved_name", detail))


def keep(
    session: Session,
    principal: Principal,
    name: str,
    sources: Sequence[DatasetOrigin],
    content: Content,
) -> Uploaded:
    """Create a dataset with stored content, unless an equal one exists.

    Raises:
        StateConflict: the name belongs to another dataset.
    """
    is_new = _insert(session, principal, name, sources, content)
    with access.inside(session, access.to_create(session)):
        dataset = get(session, name)
    if dataset.kind != content.kind:
        detail = f"The dataset {name!r} already exists, with {dataset.kind}. Choose another name."
        raise StateConflict(detail)
    if dataset.digest != content.artifact.sha256:
        raise StateConflict(
            f"The dataset {name!r} already exists, with other {dataset.kind}: its SHA-256 is "
            f"{dataset.digest}, that of these {content.artifact.sha256}. Choose another name."
        )
    return Uploaded(dataset, is_new)


def equal_to(session: Session, content: Content) -> str | None:
    """Return the name of the project's dataset with this content, or None."""
    equal = select(Dataset.name).where(
        Dataset.project_id == access.project_of(session),
        Dataset.kind == content.kind,
        Dataset.artifact_sha256 == content.artifact.sha256,
    )
    return session.scalars(equal.order_by(Dataset.name).limit(1)).first()


def stored_of_hub(session: Session, name: HubDatasetName) -> str | None:
    """Return the newest dataset that was fetched by a name, or None."""
    origin = Dataset.origin
    here = {
        "config": origin["config"].astext == name.config,
        "split": origin["split"].astext == name.split,
    }
    asked = [
        here[part] if getattr(name, part) else origin[f"is_default_{part}"].as_boolean()
        for part in here
    ]
    return newest_of_hub(session, Dataset, name.name, *asked)


def of_hub(session: Session, name: HubDatasetName, pointer: str) -> str:
    """Return the same as `stored_of_hub`.

    Raises:
        InvalidSpec: there is none.
    """
    found = stored_of_hub(session, name)
    if found is None:
        detail = (
            f"{name} has not been fetched into the project, and a preview fetches nothing. Submit "
            f"the spec, which fetches it first, or run `adaptlab datasets add NAME '{name}'`."
        )
        raise InvalidSpec(Problem(pointer, "not_fetched", detail))
    return found


def keep_under_free_name(
    session: Session, principal: Principal, wanted: str, content: Content
) -> KeptDataset:
    """Create a dataset with stored content, unless an equal one exists.

    A new one has the `wanted` name or, if another dataset has that, the name with the first digits
    of the digest.

    Raises:
        StateConflict: other datasets have both names.
    """
    longer = f"{wanted[: LONGEST_NAME - DIGITS - 1]}-{content.artifact.sha256[:DIGITS]}"
    for name in (longer,) if wanted == GENERATED else (wanted, longer):
        # Waits for a request that creates the same name; its content may be equal.
        if _insert(session, principal, name, (), content):
            return KeptDataset(name, is_new=True)
        if (existing := equal_to(session, content)) is not None:
            return KeptDataset(existing, is_new=False)
    raise StateConflict(
        f"The datasets {wanted!r} and {longer!r} already exist, with other content."
    )


def get(session: Session, name: str) -> DatasetView:
    """Return a dataset, that of the request's project if several match.

    Raises:
        Absent: no project, or several other projects, have such a dataset.
    """
    if name == GENERATED:
        return _generated_view()
    whole = _rows().options(undefer(Dataset.field_values))
    rows = session.execute(whole.where(Dataset.name == name)).all()
    row = nearest(session, [(one.Dataset.project_id, one.Dataset.shared_from, one) for one in rows])
    if row is None:
        raise Absent("dataset", name, session.scalars(select(Dataset.name)).all())
    shared = shared_with(session, row.Dataset.project_id, name)
    return _view(*row, values=row.Dataset.field_values, shared=shared)


SPECIAL_TOKENS = 4
"""Room for the tokens at both ends of an item that a tokeniser adds."""


def fitting_task(session: Session, name: str, base: DraftBase | None = None) -> JsonObject | None:
    """Return the document of the task that fits a dataset, None if none does.

    It is guessed from the fields of records. Its prompt ends with a line of fixed text. With a base
    model it has limits in tokens, and a head where the model cannot answer with words.

    Raises:
        Absent: no project, or several other projects, have such a dataset.
    """
    facts = records_facts(session, name)
    if facts is None:
        return {"name": "word_translation", "dataset": name}
    roles = roles_of(facts)
    if roles is None:
        return None
    return {**task_document(facts, roles)} if base is None else task_for(facts, roles, base)


def task_for(facts: RecordsFacts, roles: Roles, base: DraftBase) -> JsonObject:
    """Return the document of a dataset's task for a base model.

    Its limits count bytes, of which a text has at least as many as tokens.
    """
    task: JsonObject = {**task_document(facts, roles, by_head=base.needs_head)}
    shape = base.shape()
    if shape is None or roles.task == "image_classification" or not base.suits(texts=True):
        return task
    beside = len(ASKS) + (0 if base.reads_bytes else SPECIAL_TOKENS)
    limits = limits_in_bytes(facts, roles, beside, min(LONGEST_ITEM, shape.context))
    if task.get("score") == "head":
        limits.pop("answer", None)
    return {**task, "tokens": limits}


def records_facts(session: Session, name: str) -> RecordsFacts | None:
    """Return the facts about a dataset of records, None for one of words.

    Raises:
        Absent: no project, or several other projects, have such a dataset.
    """
    if get(session, name).kind == "words":
        return None
    whole = (undefer(Dataset.field_values), undefer(Dataset.buckets))
    rows = session.scalars(select(Dataset).where(Dataset.name == name).options(*whole))
    row = nearest(session, [(row.project_id, row.shared_from, row) for row in rows])
    assert row is not None
    return _records_facts(row)


def facts_in(
    session: Session, project_id: int, names: Collection[str]
) -> Mapping[str, RecordsFacts]:
    """Return the facts about some groups of standard tasks of a project.

    Other names are left out. The project need not be visible.
    """
    is_group = Dataset.fields.contains([{"name": GROUP_FIELD}])
    query = select(Dataset).where(Dataset.project_id == project_id, Dataset.name.in_(names))
    whole = query.where(is_group).options(undefer(Dataset.field_values), undefer(Dataset.buckets))
    rows = session.scalars(whole, execution_options=ACROSS_PROJECTS)
    return {row.name: _records_facts(row) for row in rows}


def mean_bytes(session: Session) -> MeanBytes:
    """Return a look-up of mean lengths of fields by their dataset's digest.

    One query per dataset. It is valid within the unit of work.
    """

    @cache
    def means(digest: str) -> Mapping[str, float] | None:
        one = select(Dataset.records, Dataset.fields).where(Dataset.artifact_sha256 == digest)
        row = session.execute(one.limit(1)).one_or_none()
        if row is None or not row.records:
            return None
        totals = {field["name"]: field.get("total_bytes") for field in row.fields or ()}
        if any(total is None for total in totals.values()):
            return None
        return {name: total / row.records for name, total in totals.items()}

    return means


def nearest(session: Session, found: Sequence[tuple[int, int | None, T]]) -> T | None:
    """Return the match of a name as `access.nearest` does.

    `found` has the project of each match, and the one that shares it. Outside the request's own
    project, what is shared gives way to its original.
    """
    matches = [(project_id, match) for project_id, _, match in found]
    own = access.nearest(session, matches)
    if own is not None:
        return own
    originals = [(project_id, match) for project_id, origin, match in found if origin is None]
    return access.nearest(session, originals)


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
    """Return the canonical content of an uploaded dataset; raises `Absent`."""
    dataset = get(session, name)
    if dataset.links.content is None:
        raise Absent("content of the dataset", name)
    return StoredFile(
        sha256=dataset.digest, size=dataset.size, filename=f"{name}.jsonl", media_type=MEDIA_TYPE
    )


def _insert(
    session: Session,
    principal: Principal,
    name: str,
    sources: Sequence[DatasetOrigin],
    content: Content,
) -> bool:
    """Insert the dataset; return False if its name is taken."""
    row = {
        "name": name,
        "project_id": access.to_create(session),
        "owner_id": principal.user_id,
        "artifact_sha256": content.artifact.sha256,
        "kind": content.kind,
        "sources": [origin.model_dump(mode="json") for origin in sources],
        **content.columns,
    }
    inserted = session.execute(
        insert(Dataset).values(row).on_conflict_do_nothing().returning(Dataset.name)
    )
    return inserted.one_or_none() is not None


def _place(listed: tuple[int, DatasetView]) -> tuple[str, int]:
    project_id, view = listed
    return view.name, project_id


def _rows() -> Select[*tuple[Any, ...]]:  # a dataset, its size, its project and that of origin
    origin = aliased(Project)
    return (
        select(Dataset, Artifact.size, Project.name, origin.name)
        .join(Artifact, Artifact.sha256 == Dataset.artifact_sha256)
        .join(Project, Project.id == Dataset.project_id)
        .outerjoin(origin, origin.id == Dataset.shared_from)
    )


_FIRST: tuple[str, int] = ("", 0)
_GENERATED_PLACE: tuple[str, int] = (GENERATED, 0)


def _after(cursor: Cursor) -> tuple[str, int]:
    return cursor.key, cursor.row()


_COLUMNS_OF_THEIR_OWN = {"values", "buckets"}


def records_columns(facts: RecordsFacts) -> Mapping[str, Any]:
    """Return the columns of a dataset with these facts."""
    return {
        "records": facts.records,
        "copies": facts.copies,
        "fields": [field.model_dump(exclude=_COLUMNS_OF_THEIR_OWN) for field in facts.fields],
        "field_values": [
            None if field.values is None else [value.model_dump() for value in field.values]
            for field in facts.fields
        ],
        "buckets": [list(field.buckets) for field in facts.fields],
    }


def _records_facts(row: Dataset) -> RecordsFacts:
    assert row.records is not None
    assert row.copies is not None
    columns = (row.fields or (), row.field_values or (), row.buckets or ())
    return RecordsFacts(
        name=row.name,
        digest=row.artifact_sha256,
        records=row.records,
        copies=row.copies,
        fields=tuple(
            FieldFacts.model_validate({**field, "values": values, "buckets": buckets})
            for field, values, buckets in zip(*columns, strict=True)
        ),
    )


def _facts(row: Dataset) -> DatasetFacts:
    assert row.characters is not None
    assert row.lengths is not None
    return DatasetFacts(
        name=row.name,
        digest=row.artifact_sha256,
        source="imported",
        characters=row.characters,
        lengths=tuple(row.lengths),
    )


def shared_with(session: Session, project_id: int, name: str) -> tuple[str, ...]:
    """Return the names of the projects with which a dataset is shared."""
    query = (
        select(Project.name)
        .join_from(Dataset, Project, Project.id == Dataset.project_id)
        .where(Dataset.shared_from == project_id, Dataset.name == name)
        .order_by(Project.name)
    )
    return tuple(session.scalars(query, execution_options=ACROSS_PROJECTS))


def _view(
    row: Dataset,
    size: int,
    project: str,
    origin: str | None,
    *,
    values: Sequence[Any] | None = None,
    shared: tuple[str, ...] = (),
) -> DatasetView:
    """Return the view of a dataset; `values` are those of its fields."""
    return DatasetView(
        name=row.name,
        project=project,
        shared_from=origin,
        shared_with=shared,
        source="imported",
        kind="records" if row.kind == "records" else "words",
        digest=row.artifact_sha256,
        size=size,
        triples=row.triples,
        longest=None if row.lengths is None else len(row.lengths),
        lengths=None if row.lengths is None else tuple(row.lengths),
        characters=row.characters,
        records=row.records,
        copies=row.copies,
        fields=_fields_view(row.fields, values),
        reading=None if row.reading is None else Reading.model_validate(row.reading),
        origin=None if row.origin is None else HubDatasetOrigin.model_validate(row.origin),
        sources=tuple(DatasetOrigin.model_validate(origin) for origin in row.sources),
        created_at=row.created_at,
        links=DatasetLinks(
            self=f"/v1/datasets/{row.name}", content=f"/v1/datasets/{row.name}/content"
        ),
    )


def _fields_view(
    fields: Sequence[Any] | None, values: Sequence[Any] | None
) -> tuple[DatasetField, ...] | None:
    if fields is None:
        return None
    values = values or [None] * len(fields)
    return tuple(
        DatasetField.model_validate({**field, "values": listed})
        for field, listed in zip(fields, values, strict=True)
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
