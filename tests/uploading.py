"""Complete uploads, without the requests that send them."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import Upload
from adaptlab_services.people.tokens import Principal


def a_complete_upload(sessions: sessionmaker[Session], owner: Principal, content: bytes) -> UUID:
    """The id of an upload of this content, the earlier one if there is one."""
    with sessions.begin() as session:
        stored = ArtifactStore(session).write([content])
        same = (Upload.owner_id == owner.user_id, Upload.sha256 == stored.sha256)
        earlier = session.scalars(select(Upload.id).where(*same)).one_or_none()
        if earlier is not None:
            return earlier
        upload = Upload(
            id=uuid4(),
            owner_id=owner.user_id,
            size_bytes=stored.size,
            sha256=stored.sha256,
            artifact_sha256=stored.sha256,
            expires_at=datetime.now(UTC) + timedelta(days=1),
        )
        session.add(upload)
    return upload.id
