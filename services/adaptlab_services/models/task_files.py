"""Files below a dataset root, or datasets on the hub, that tasks name.

They become datasets in the unit of work that creates the job or study, whose spec names these from
then on. A file with the content of a dataset stands for that dataset. A name on the hub stands for
the dataset that was fetched by it.
"""

import json
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TypeVar, cast

from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.file_forms import ENDS, FileForm, UnknownForm, dataset_name, form_of, is_file
from adaptlab.records.file_reading import ReadingOptions
from adaptlab.records.gathering import Gatherer
from adaptlab.values import Value
from adaptlab.weights.hub_name import HubDatasetName, is_hub_name
from adaptlab_services.limits import quotas
from adaptlab_services.models import datasets
from adaptlab_services.models.dataset_files import DatasetRoots, records_in
from adaptlab_services.models.datasets import Content
from adaptlab_services.models.record_datasets import ReadingLimits, Units, content_of
from adaptlab_services.people import access, audit, idempotency
from adaptlab_services.people.audit import Entry
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage.staged_content import StagedContent, staged

S = TypeVar("S", bound=Value)
MEMBER = "dataset"
FREE = frozenset({"label", "labels"})
"""Members whose own members users name: label words, and labels of jobs and studies."""
ACTION = "upload_dataset"
"""The action of a new dataset in the audit log, as of the route."""
MOST_FILES = 8
"""Files that one spec may name."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that was read; its content is stored, and no dataset has it yet."""

    name: str
    content: Content
    waiting: StagedContent


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """The files of a spec by path, and pointers of its names on the hub."""

    read: Mapping[str, StagedFile]
    hub: Mapping[str, str]

    def named(self, session: Session, principal: Principal, spec: S, entry: Entry) -> S:
        """Return the spec with a dataset in place of each file.

        A dataset is created unless there is one with the same content. The `entry` of the audit log
        is written for each that is new.

        Raises:
            QuotaReached: there is no room for a new one.
            InvalidSpec: a dataset of the hub has not been fetched.
        """
        if not self.read and not self.hub:
            return spec
        names = {
            path: _dataset_of(session, principal, file, entry) for path, file in self.read.items()
        }
        names |= _fetched(session, self.hub)
        return _renamed(spec, names)

    @contextmanager
    def tried(self, session: Session, principal: Principal, spec: S, entry: Entry) -> Generator[S]:
        """Yield the same for a preview: at the end, new datasets are gone."""
        if not self.read and not self.hub:
            yield spec
            return
        with session.begin_nested() as savepoint:
            yield self.named(session, principal, spec, entry)
            savepoint.rollback()


NO_FILES = TaskFiles({}, {})


def paths_in(spec: Value) -> Mapping[str, str]:
    """Return the first pointer of each file in a spec."""
    return {path: place for path, place in _places_in(spec).items() if not is_hub_name(path)}


def datasets_of_hub_in(spec: Value) -> Mapping[str, str]:
    """Return the first pointer of each dataset on the hub in a spec."""
    return {name: place for name, place in _places_in(spec).items() if is_hub_name(name)}


def with_fetched(session: Session, spec: S) -> S:
    """Return a spec with the names of datasets in place of those on the hub.

    Raises:
        InvalidSpec: a dataset of the hub has not been fetched.
    """
    named = datasets_of_hub_in(spec)
    return _renamed(spec, _fetched(session, named)) if named else spec


def _fetched(session: Session, named: Mapping[str, str]) -> dict[str, str]:
    return {
        text: datasets.of_hub(session, HubDatasetName.read(text, pointer), pointer)
        for text, pointer in named.items()
    }


def _renamed(spec: S, names: Mapping[str, str]) -> S:
    given = spec.model_dump(mode="json", exclude_unset=True)
    document = _with_datasets(given, "", lambda path, _: names.get(path, path))
    return type(spec).model_validate_json(json.dumps(document), strict=True)


def _places_in(spec: Value) -> Mapping[str, str]:
    found: dict[str, str] = {}

    def note(path: str, pointer: str) -> str:
        found.setdefault(path, pointer)
        return path

    _with_datasets(spec.model_dump(mode="json", exclude_unset=True), "", note)
    return found


def is_answered(session: Session, principal: Principal, key: str | None, spec: Value) -> bool:
    """Return True if an earlier request with this key answers this one."""
    if key is None:
        return False
    digest = idempotency.request_digest(session, spec)
    return idempotency.answered(session, principal.user_id, key, digest) is not None


@contextmanager
def read(
    units: Units,
    sessions: sessionmaker[Session],
    principal: Principal,
    paths: Mapping[str, str],
    roots: DatasetRoots,
    limits: ReadingLimits,
) -> Generator[Mapping[str, StagedFile]]:
    """Read files, given their pointers by path; keep them until the end.

    Raises:
        InvalidSpec: a path is no file below a root, too many files are named, or something in one
            is not a record.
    """
    if len(paths) > MOST_FILES:
        detail = (
            f"The spec names {len(paths)} files of the server. It can name {MOST_FILES}; add others"
            " as datasets first with `adaptlab datasets add`."
        )
        raise InvalidSpec(Problem(list(paths.values())[MOST_FILES], "too_many_files", detail))
    with units() as session:
        access.to_create(session)
        quotas.check_room(session, principal.user_id, 0)
    end = time.monotonic() + limits.seconds
    with ExitStack() as stack:
        read: dict[str, StagedFile] = {}
        for path, pointer in paths.items():
            left = replace(limits, seconds=max(end - time.monotonic(), 0))
            read[path] = stack.enter_context(_stored(sessions, path, pointer, roots, left))
        yield read


@contextmanager
def _stored(
    sessions: sessionmaker[Session],
    path: str,
    pointer: str,
    roots: DatasetRoots,
    limits: ReadingLimits,
) -> Generator[StagedFile]:
    with (
        roots.opened(path, pointer) as file,
        records_in(file, _form(path, pointer), ReadingOptions(), limits, pointer) as read,
    ):
        gatherer = Gatherer(pointer)
        with staged(sessions, gatherer.lines(read.records)) as waiting:
            name = dataset_name(PurePath(path))
            content = content_of(name, waiting.artifact, gatherer, read.reading)
            yield StagedFile(name, content, waiting)


def _form(path: str, pointer: str) -> FileForm:
    try:
        return form_of(PurePath(path))
    except UnknownForm as error:
        detail = error.other or (
            f"The form of {path!r} is not known by its name. Let it end {ENDS}, or add the file "
            "with `adaptlab datasets add`, which has --format, and name that dataset."
        )
        raise InvalidSpec(Problem(pointer, "unknown_form", detail)) from error


def _dataset_of(session: Session, principal: Principal, file: StagedFile, entry: Entry) -> str:
    """Return the name of the dataset of a file, which may be new."""
    if (existing := datasets.equal_to(session, file.content)) is not None:
        return existing
    quotas.check_room(session, principal.user_id, file.content.artifact.size)
    file.waiting.settle(session)
    kept = datasets.keep_under_free_name(session, principal, file.name, file.content)
    if kept.is_new:
        audit.record(session, replace(entry, action=ACTION, object=kept.name))
    return kept.name


def _with_datasets(part: object, pointer: str, dataset_of: Callable[[str, str], str]) -> object:
    """Return a part of a spec with a dataset in place of each file.

    `dataset_of` returns its name, given the path and the pointer of the file.
    """
    if isinstance(part, list):
        entries = enumerate(cast("Sequence[object]", part))
        return [_with_datasets(one, f"{pointer}/{place}", dataset_of) for place, one in entries]
    if not isinstance(part, Mapping):
        return part
    changed: dict[str, object] = {}
    for name, value in cast("Mapping[str, object]", part).items():
        here = f"{pointer}/{name}"
        if name == MEMBER and isinstance(value, str) and is_file(value):
            changed[name] = dataset_of(value, here)
        else:
            changed[name] = value if name in FREE else _with_datasets(value, here, dataset_of)
    return changed
