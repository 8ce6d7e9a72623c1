"""One attempt at the fetch of a dataset: its files, and their records."""

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar, cast

from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.file_reading import NAME_OF, Reading, ReadingOptions
from adaptlab.records.gathering import Gatherer
from adaptlab.records.record import Record
from adaptlab.weights.hub_name import MAIN, HubDatasetName, HubDatasetOrigin
from adaptlab_answers.hub import HubDatasetPlan, PlannedFile
from adaptlab_db.artifacts import streamed
from adaptlab_db.tables import Dataset
from adaptlab_services.hub import due_fetches
from adaptlab_services.hub.due_fetches import ClaimedFetch
from adaptlab_services.hub.hub_access import HubFile, HubRepository, ReadFile
from adaptlab_services.hub.hub_child import HubChild, HubFailure
from adaptlab_services.hub.hub_origins import origin_members
from adaptlab_services.hub.hub_splits import CONVERSION, POINTER, HubSplit, chosen
from adaptlab_services.hub.room import check_room
from adaptlab_services.hub.weights_download import WeightsDownload
from adaptlab_services.limits import quotas
from adaptlab_services.models import datasets
from adaptlab_services.models.dataset_files import records_in, spooled
from adaptlab_services.models.datasets import Content
from adaptlab_services.models.record_datasets import ReadingLimits, ReadRecords, content_of
from adaptlab_services.models.upload_inspection import inspected_file
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings
from adaptlab_services.storage.staged_content import StagedContent, staged

READ_SECONDS = 3600.0
"""Longest time to read the records of a file."""
T = TypeVar("T")
INSPECTION_SECONDS = 120.0
SAMPLE_BYTES = 2**20
"""Bytes of a text file that are inspected."""
WHOLE_BYTES = 2**26
"""Bytes up to which a file is inspected that cannot be read in part."""
ADVICE = "Choose a smaller split or dataset."


@dataclass(frozen=True, slots=True)
class HubDataset:
    """A split of a dataset at a commit; `weights` are its files in LFS."""

    name: str
    repository: HubRepository
    split: HubSplit

    @property
    def weights(self) -> tuple[HubFile, ...]:
        """Its files with an announced SHA-256, which are stored in chunks."""
        return tuple(file for file in self.split.files if file.sha256 is not None and file.size)

    @property
    def small_bytes(self) -> int:
        """The bytes that are here from the beginning: none."""
        return 0

    def part(self, file: HubFile, start: int, stop: int | None = None) -> ReadFile:
        """Return the request for bytes of a file."""
        size = file.size or 0
        return ReadFile(
            kind="dataset",
            repository=self.name,
            commit=self.repository.commit,
            file=file.name,
            start=start,
            stop=size if stop is None else stop,
            size=size,
        )

    def plan(self) -> HubDatasetPlan:
        """Return what the fetch brings."""
        found, split = self.repository, self.split
        return HubDatasetPlan(
            config=split.config,
            split=split.split,
            configs=split.configs,
            splits=split.splits,
            form=split.form,
            files=tuple(PlannedFile(name=f.name, size_bytes=f.size or 0) for f in split.files),
            class_names=dict(split.class_names),
            is_partial=split.is_partial,
            licence=found.licence,
            licence_name=found.licence_name,
            licence_link=found.licence_link,
            gated=found.gated,
            private=found.private,
        )

    def options(self, like: Reading | None = None) -> ReadingOptions:
        """Return how its files are read, `like` the first if there is one."""
        delimiter = NAME_OF.get(self.split.delimiter or "")
        return ReadingOptions(
            delimiter=like.delimiter if like else delimiter,
            encoding=like.encoding if like else None,
            class_names=dict(self.split.class_names),
        )


def read_dataset(hub: HubChild, wanted: HubDatasetName, revision: str) -> HubDataset:
    """Return a split of a dataset, without any of its records.

    A dataset whose main branch has no files with records is that of its conversion to Parquet.

    Raises:
        HubFailure: the hub does not give it.
        InvalidSpec: there is no such split, or nothing that adaptlab reads.
    """
    name = wanted.name.repository
    found = hub.info(name, revision, "dataset")
    if not found.files and wanted.name.revision == MAIN:
        try:
            converted = hub.info(name, CONVERSION, "dataset")
        except HubFailure as failure:
            if failure.code != "no_revision":
                raise
        else:
            kept = found.model_dump(include={"configs", "licence", "licence_name", "licence_link"})
            found = HubRepository.model_validate(converted.model_dump() | kept)
    return HubDataset(name, found, chosen(found, wanted))


def first_records(hub: HubChild, found: HubDataset, file: HubFile) -> bytes | None:
    """Return the first records of a file, as few bytes as show them.

    A Parquet file or JSON list is read as a whole; the result is None if it is too large.
    """
    size = file.size or 0
    is_list = False
    if found.split.form == "jsonl" and size > SAMPLE_BYTES:
        is_list = b"".join(hub.read(found.part(file, 0, 256))).lstrip().startswith(b"[")
    is_whole = size <= SAMPLE_BYTES or found.split.form == "parquet" or is_list
    if is_whole and size > WHOLE_BYTES:
        return None
    stop = size if is_whole else SAMPLE_BYTES
    content = b"".join(hub.read(found.part(file, 0, stop))) if stop else b""
    return content if is_whole else _whole_lines(content)


def _whole_lines(content: bytes) -> bytes:
    """Return the complete lines; a quoted value of CSV can have line ends."""
    end = content.rfind(b"\n")
    while end >= 0 and content.count(b'"', 0, end) % 2:
        end = content.rfind(b"\n", 0, end)
    return content[: end + 1] if end >= 0 else content


class DatasetFetch:
    """The fetch of a dataset by this process; see `FetchAttempt`.

    `sign` shows a sign of life, and raises `NotHeld` if the fetch should end.
    """

    def __init__(
        self,
        sessions: sessionmaker[Session],
        settings: Settings,
        claimed: ClaimedFetch,
        hub: HubChild,
        principal: Principal,
        sign: Callable[[], None],
    ) -> None:
        self._sessions = sessions
        self._settings = settings
        self._claimed = claimed
        self._wanted = HubDatasetName(name=claimed.name, **(claimed.dataset or {}))
        self._hub = hub
        self._principal = principal
        self._sign = sign

    def run(self) -> None:
        """Fetch the dataset, and end the fetch."""
        claimed = self._claimed
        found = read_dataset(self._hub, self._wanted, claimed.pinned)
        self._record_plan(found, found.plan())
        if claimed.plan_only:
            self._record_plan(found, self._inspected(found))
            with self._sessions.begin() as session:
                due_fetches.succeed(session, claimed, None)
            return
        most = min(self._settings.max_dataset_bytes, self._settings.max_hub_bytes)
        check_room(self._sessions, self._settings, claimed, found.split.size_bytes, most)
        download = WeightsDownload(self._sessions, self._principal, claimed, self._hub, found)
        for file in found.weights:
            download.store(file)
        try:
            self._keep(found, download)
        except InvalidSpec:  # a retry would read the same
            with self._sessions.begin() as session:
                download.tidy_up(session)
            raise

    def _keep(self, found: HubDataset, download: WeightsDownload) -> None:
        """Read the files as records, and make them a dataset."""
        gatherer = Gatherer(POINTER)
        with (
            self._read(found, download) as read,
            staged(self._sessions, gatherer.lines(self._signed(read.records))) as waiting,
        ):
            self._finish(found, waiting, gatherer, read.reading, download)

    def _inspected(self, found: HubDataset) -> HubDatasetPlan:
        """Return the plan, with what is in the first records."""
        plan, file = found.plan(), found.split.files[0]
        sample = first_records(self._hub, found, file)
        if sample is None:
            return plan
        limits = ReadingLimits(self._settings.max_dataset_bytes, INSPECTION_SECONDS, ADVICE)
        form, name = found.split.form, f"{self._wanted.usual_name}.{found.split.form}"
        with spooled(self._signed([sample])) as opened, _naming(file, found.split):
            seen = inspected_file(opened, name, form, found.options(), limits)
        inspection = seen.model_dump(mode="json")
        return plan.model_copy(update={"inspected_bytes": len(sample), "inspection": inspection})

    def _record_plan(self, found: HubDataset, plan: HubDatasetPlan) -> None:
        with self._sessions.begin() as session:
            due_fetches.hold(
                session,
                self._claimed,
                commit=found.repository.commit,
                plan=plan.model_dump(mode="json"),
                bytes_total=found.split.size_bytes,
                code=None,
                error=None,
            )

    def _finish(
        self,
        found: HubDataset,
        waiting: StagedContent,
        gatherer: Gatherer,
        reading: Reading,
        download: WeightsDownload,
    ) -> None:
        """Create the dataset, and end the fetch."""
        claimed, principal = self._claimed, self._principal
        content = content_of(claimed.folder, waiting.artifact, gatherer, reading)
        origin = {"origin": self._origin(found).model_dump(mode="json")}
        content = Content(content.kind, content.artifact, {**content.columns, **origin})
        with self._sessions.begin() as session, access.inside(session, claimed.project_id):
            quotas.check_room(session, principal.user_id, content.artifact.size)
            waiting.settle(session)
            kept = datasets.keep(session, principal, claimed.folder, (), content)
            if not kept.is_new and kept.dataset.origin is None:
                mine = Dataset.project_id == claimed.project_id, Dataset.name == claimed.folder
                session.execute(update(Dataset).where(*mine).values(origin))
            due_fetches.succeed(session, claimed, None)
            download.tidy_up(session)

    def _origin(self, found: HubDataset) -> HubDatasetOrigin:
        split = found.split
        return HubDatasetOrigin(
            **origin_members(self._claimed, found.repository, self._principal),
            config=split.config,
            split=split.split,
            is_default_config=split.is_default_config,
            is_default_split=split.is_default_split,
            is_partial=split.is_partial,
            files=tuple(file.name for file in split.files),
        )

    @contextmanager
    def _read(self, found: HubDataset, download: WeightsDownload) -> Generator[ReadRecords]:
        """Yield the records of all files in order, read like the first."""
        first, *others = found.split.files
        with self._opened(found, first, download, found.options()) as read:

            def records() -> Iterator[Record]:
                names: list[str] = []
                for record in read.records:
                    names = names or list(record)
                    yield record
                options = found.options(read.reading)
                for file in others:
                    with self._opened(found, file, download, options) as more:
                        yield from _like(more.records, names, file.name)

            yield ReadRecords(read.reading, records())

    @contextmanager
    def _opened(
        self,
        found: HubDataset,
        file: HubFile,
        download: WeightsDownload,
        options: ReadingOptions,
    ) -> Generator[ReadRecords]:
        most = self._settings.max_dataset_bytes
        limits = ReadingLimits(most, READ_SECONDS, ADVICE)
        is_stored = file in found.weights
        pieces = (
            streamed(self._sessions, cast("str", file.sha256))
            if is_stored
            else self._checked(found, file, download)
        )
        with (
            spooled(self._signed(pieces)) as opened,
            _naming(file, found.split),
            records_in(opened, found.split.form, options, limits, POINTER) as read,
        ):
            yield read

    def _checked(
        self, found: HubDataset, file: HubFile, download: WeightsDownload
    ) -> Iterator[bytes]:
        """Yield the bytes of a file outside LFS; raise `HubFailure` for others."""
        digest = hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)
        if file.size:
            for piece in self._hub.read(found.part(file, 0)):
                digest.update(piece)
                yield piece
        if file.blob not in (None, digest.hexdigest()):
            raise HubFailure("wrong_digest", file.name)
        download.advance(file.size or 0)

    def _signed(self, pieces: Iterable[T]) -> Iterator[T]:
        """Pass pieces on, with signs of life."""
        for piece in pieces:
            self._sign()
            yield piece


@contextmanager
def _naming(file: HubFile, split: HubSplit) -> Generator[None]:
    """Name the file in the problems that reading it has.

    Those of another file of the split, which is read within, have its name.
    """
    names = [one.name for one in split.files]
    try:
        yield
    except InvalidSpec as error:
        if any(name in problem.detail for problem in error.problems for name in names):
            raise
        raise InvalidSpec(*(_of_file(problem, file.name) for problem in error.problems)) from error


def _of_file(problem: Problem, name: str) -> Problem:
    return Problem(problem.pointer, problem.code, f"{name}: {problem.detail}")


def _like(records: Iterator[Record], names: list[str], file: str) -> Iterator[Record]:
    """Yield records with the fields of the first file, in their order."""
    for record in records:
        if sorted(record) != sorted(names):
            detail = (
                f"{file} has the fields {', '.join(record)}, and the first file of the split "
                f"{', '.join(names)}. Download the files, and upload them as one."
            )
            raise InvalidSpec(Problem(POINTER, "other_fields", detail))
        yield _ordered(record, names)


def _ordered(record: Record, names: list[str]) -> Mapping[str, str]:
    return {name: record[name] for name in names}
