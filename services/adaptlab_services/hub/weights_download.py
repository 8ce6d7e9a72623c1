"""Large files from a hub, stored chunk by chunk."""

import hashlib
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_answers.storage import UploadView
from adaptlab_db.artifacts import ArtifactStore, StoredArtifact
from adaptlab_db.errors import ArtifactGone, ArtifactNotFound, WrongBytes
from adaptlab_db.tables import Upload, UploadedFolder, UploadedFolderFile
from adaptlab_services.hub import due_fetches
from adaptlab_services.hub.due_fetches import HOLD, ClaimedFetch
from adaptlab_services.hub.hub_access import HubFile, ReadFile
from adaptlab_services.hub.hub_child import HubChild, HubFailure
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage import uploads
from adaptlab_services.storage.upload_chunks import ROW_BYTES, AnnouncedChunk, receiving
from adaptlab_services.storage.uploads import CHUNK_BYTES, KEPT_FOR, NewUpload, UploadLimits

MOST_TRIES = 4
"""Requests in a row that bring less than a row of a file, within an attempt."""
SETTLED_PER_SECOND = 10 * 2**20
"""Bytes that are certainly checked and stored per second."""
LIMITS = UploadLimits(largest_bytes=2**62, most_uploads=2**31)
"""The server's own uploads have no limits but the quota."""


class LargeFiles(Protocol):
    """The files of a repository that are stored as they come."""

    @property
    def weights(self) -> tuple[HubFile, ...]:
        """Those files, with announced sizes and SHA-256."""
        ...

    @property
    def small_bytes(self) -> int:
        """The bytes of other files that are here."""
        ...

    def part(self, file: HubFile, start: int, stop: int | None = None) -> ReadFile:
        """Return the request for bytes of a file."""
        ...


class WeightsDownload:
    """The download of large files, resumed after the last stored chunk.

    What an earlier fetch of the repository has stored is not fetched again: the headers, which were
    read before, have shown that the user may read the files.
    """

    def __init__(
        self,
        sessions: sessionmaker[Session],
        principal: Principal,
        claimed: ClaimedFetch,
        hub: HubChild,
        model: LargeFiles,
    ) -> None:
        self._sessions = sessions
        self._principal = principal
        self._claimed = claimed
        self._hub = hub
        self._model = model
        self._done = model.small_bytes

    def store(self, file: HubFile) -> StoredArtifact:
        """Return a file as an artifact.

        Raises:
            HubFailure: the hub does not send it, or sends other bytes.
            NotHeld: the fetch is that of another process.
        """
        assert file.sha256 is not None  # checked by `read_model`
        artifact = StoredArtifact(file.sha256, file.size or 0)
        if self._claimed.kind == "dataset" or not self._is_known(artifact):
            upload = self._begun(artifact)
            if upload.state == "open":
                self._receive(file, upload)
                self._complete(file, upload.id)
        self.advance(artifact.size)
        return artifact

    def advance(self, size: int) -> None:
        """Record the bytes of a file that is here; raises `NotHeld`."""
        self._done += size
        self._hold()

    def tidy_up(self, session: Session) -> None:
        """Delete the uploads of the fetch; a folder keeps their artifacts."""
        for upload in uploads.page(session, self._principal).data:
            if upload.sha256 in {file.sha256 for file in self._model.weights}:
                uploads.remove(session, self._principal, upload.id)

    def _is_known(self, artifact: StoredArtifact) -> bool:
        """Return True if a folder has the file from this repository."""
        file, folder = UploadedFolderFile, UploadedFolder
        query = (
            select(file.size_bytes)
            .join(
                folder,
                (folder.project_id == file.project_id) & (folder.name == file.folder),
            )
            .where(file.artifact_sha256 == artifact.sha256, file.size_bytes == artifact.size)
            .where(folder.origin["endpoint"].astext == self._claimed.endpoint)
            .where(folder.origin["repository"].astext == self._claimed.name.repository)
            .limit(1)
        )
        with self._sessions() as session:
            if session.scalars(query).one_or_none() is None:
                return False
            try:
                return ArtifactStore(session).size(artifact.sha256) == artifact.size
            except (ArtifactGone, ArtifactNotFound):
                return False

    def _begun(self, artifact: StoredArtifact) -> UploadView:
        new = NewUpload(size_bytes=artifact.size, sha256=artifact.sha256)
        with self._sessions.begin() as session:
            upload = uploads.begin(session, self._principal, new, LIMITS).upload
            session.execute(
                update(Upload)
                .where(Upload.id == upload.id)
                .values(expires_at=func.clock_timestamp() + KEPT_FOR)
                .execution_options(synchronize_session=False)
            )
        return upload

    def _receive(self, file: HubFile, upload: UploadView) -> None:
        """Store the chunks that are missing."""
        received = {chunk.number for chunk in upload.received}
        number = next(n for n in range(upload.chunks + 1) if n not in received)
        size, pending, tries = upload.size_bytes, bytearray(), 0
        while (at := number * CHUNK_BYTES + len(pending)) < size:
            try:
                for piece in self._hub.read(self._model.part(file, at)):
                    pending += piece
                    while len(pending) >= CHUNK_BYTES:
                        self._keep(upload.id, number, pending[:CHUNK_BYTES])
                        del pending[:CHUNK_BYTES]
                        number += 1
            except HubFailure as failure:
                gained = number * CHUNK_BYTES + len(pending) - at
                tries = 0 if gained >= ROW_BYTES else tries + 1
                if failure.code != "cut" or tries >= MOST_TRIES:
                    raise
        if pending:
            self._keep(upload.id, number, pending)

    def _keep(self, upload_id: UUID, number: int, content: bytes | bytearray) -> None:
        rows = [bytes(content[at : at + ROW_BYTES]) for at in range(0, len(content), ROW_BYTES)]
        digest = hashlib.sha256(content).hexdigest()
        chunk = AnnouncedChunk(upload_id, number, digest)
        receiving(self._sessions, self._principal, chunk).finish(rows)
        self._hold(number * CHUNK_BYTES + len(content))

    def _complete(self, file: HubFile, upload_id: UUID) -> None:
        seconds = (file.size or 0) / SETTLED_PER_SECOND
        with self._sessions.begin() as session:
            until = func.clock_timestamp() + HOLD + timedelta(seconds=seconds)
            due_fetches.hold(session, self._claimed, next_attempt_at=until)
        try:
            with self._sessions.begin() as session:
                uploads.complete(session, self._principal, upload_id)
        except WrongBytes as error:
            with self._sessions.begin() as session:
                uploads.remove(session, self._principal, upload_id)
            raise HubFailure("wrong_digest", file.name) from error

    def _hold(self, more: int = 0) -> None:
        with self._sessions.begin() as session:
            due_fetches.hold(session, self._claimed, bytes_done=self._done + more)
