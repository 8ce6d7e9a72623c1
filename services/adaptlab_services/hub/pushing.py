"""One attempt at a push: an adapter with its card, in one commit."""

from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.tables import CheckpointRow, HubFetch, Job
from adaptlab_services.errors import Absent
from adaptlab_services.hub import due_fetches, model_cards
from adaptlab_services.hub.due_fetches import ClaimedFetch
from adaptlab_services.hub.hub_access import PushFolder
from adaptlab_services.hub.hub_child import HubChild, HubFailure
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.people import access
from adaptlab_services.results import peft_exports
from adaptlab_services.settings import Settings

README = "README.md"


class Push:
    """A push by this process; see `FetchAttempt`.

    The hub compares the files first, so what an interrupted attempt has written is not written
    again, and an adapter that is there already makes no commit.
    """

    def __init__(
        self,
        sessions: sessionmaker[Session],
        settings: Settings,
        claimed: ClaimedFetch,
        hub: HubChild,
    ) -> None:
        self._sessions = sessions
        self._settings = settings
        self._claimed = claimed
        self._hub = hub

    def run(self) -> None:
        """Push the adapter, and end the push."""
        claimed = self._claimed
        with self._sessions.begin() as session, access.inside(session, claimed.project_id):
            files = self._files(session)
        size = sum(map(len, files.values()))
        with self._sessions.begin() as session:
            due_fetches.hold(session, claimed, bytes_total=size, code=None, error=None)
        assert claimed.push is not None
        with TemporaryDirectory() as folder:
            for name, content in files.items():
                (Path(folder) / name).write_bytes(content)
            pushed = self._hub.push(
                PushFolder(
                    repository=claimed.name.repository,
                    folder=folder,
                    files=tuple(sorted(files)),
                    is_public=bool(claimed.push["is_public"]),
                    marker=model_cards.TAG,
                    message=f"Add checkpoint {claimed.push['checkpoint_id']}",
                )
            )
        with self._sessions.begin() as session:
            due_fetches.hold(session, claimed, commit=pushed.commit, bytes_done=size)
            job_id = session.get_one(HubFetch, claimed.id).job_id
            due_fetches.succeed(session, claimed, job_id)

    def _files(self, session: Session) -> dict[str, bytes]:
        """Return the files of the adapter and its card.

        Raises:
            HubFailure: the checkpoint is gone, or its base has no licence and it goes public.
            InvalidSpec: it has no PEFT form.
        """
        push = self._claimed.push
        assert push is not None
        checkpoint = session.get(CheckpointRow, push["checkpoint_id"])
        if checkpoint is None:
            raise HubFailure("deleted", "The checkpoint was deleted. Push another one.")
        origin = model_cards.origin_of(session, session.get_one(Job, checkpoint.job_id))
        if push["is_public"] and (origin is None or origin.licence is None):
            raise HubFailure("no_licence")
        try:
            roots = ModelRoots(self._settings.model_roots)
            files = peft_exports.folder(session, checkpoint.id, roots)
        except Absent as error:
            raise HubFailure("deleted", f"{error} Push another checkpoint.") from error
        readme = files.get(README)
        card = model_cards.model_card(
            session,
            checkpoint,
            self._claimed.name.repository,
            self._claimed.endpoint,
            None if readme is None else readme.decode(),
        )
        return {**files, README: card.encode()}
