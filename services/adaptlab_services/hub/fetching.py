"""One attempt at a fetch: its checks, its bytes, and its folder."""

from collections.abc import Callable
from contextlib import suppress

from psycopg.errors import DiskFull
from sqlalchemy import exists, or_, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import AdaptlabError, BadModelFolder, InvalidSpec
from adaptlab.specs.spec import UPLOADED, ImportSpec
from adaptlab.weights.hub_name import HubOrigin
from adaptlab_db.artifacts import ArtifactStore, StoredArtifact
from adaptlab_db.tables import Membership, User
from adaptlab_services.hub import due_fetches, hub_tokens
from adaptlab_services.hub.dataset_fetching import DatasetFetch
from adaptlab_services.hub.due_fetches import ClaimedFetch, NotHeld
from adaptlab_services.hub.fetch_errors import PASSING, sentence
from adaptlab_services.hub.hub_access import HubAccess
from adaptlab_services.hub.hub_child import HubChild, HubFailure, HubPatience
from adaptlab_services.hub.hub_models import HubModel, read_model
from adaptlab_services.hub.hub_origins import origin_members
from adaptlab_services.hub.pushing import Push
from adaptlab_services.hub.room import check_room
from adaptlab_services.hub.sealing import Unsealable
from adaptlab_services.hub.weights_download import WeightsDownload
from adaptlab_services.jobs import jobs
from adaptlab_services.lifecycle.transitions import queues_to_ring
from adaptlab_services.models import base_models, coming_folders, uploaded_folders
from adaptlab_services.pace import Pace
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings

SIGN_SECONDS = 0.5
"""Time between two signs of life, at each of which a cancellation is seen."""
FULL_SECONDS = 600.0
"""Time after which a full disk is tried again."""
MAY_SUBMIT = ("submitter", "operator", "admin")
ELSEWHERE = (
    " On a hub, choose a revision that has it, such as a conversion at @refs/pr/1, or another "
    "model."
)


class FetchAttempt:
    """An attempt of this process at a fetch.

    Args:
        sessions: the database, with every project visible.
        settings: those of the hub, and of limits.
        claimed: the fetch.
        patience: how long it is waited for.
    """

    def __init__(
        self,
        sessions: sessionmaker[Session],
        settings: Settings,
        claimed: ClaimedFetch,
        patience: HubPatience | None = None,
    ) -> None:
        self._sessions = sessions
        self._settings = settings
        self._claimed = claimed
        self._patience = patience
        self._signs = Pace(SIGN_SECONDS)
        self._is_stopped = False

    def stop(self) -> None:
        """Leave the fetch to another process, soon."""
        self._is_stopped = True

    def run(self) -> tuple[str, ...]:
        """Fetch or push what is claimed; return the queues that have new work."""
        try:
            principal = self._principal()
            with HubChild(self._access(), self._sign, self._patience) as hub:
                return self._transferred(hub, principal)
        except NotHeld:
            if self._is_stopped:
                self._record(due_fetches.give_back)
        except HubFailure as failure:
            self._fail(failure.code, failure.detail, failure.seconds)
        except InvalidSpec as error:
            self._fail(error.problems[0].code, error.problems[0].detail)
        except BadModelFolder as error:
            self._fail("bad_model_folder", f"{error}{ELSEWHERE if ' Add ' in str(error) else ''}")
        except AdaptlabError as error:
            self._fail("refused_here", str(error))
        except OperationalError as error:
            if not isinstance(error.orig, DiskFull):
                raise
            self._fail("disk_full", "its database has no space left", FULL_SECONDS)
        return ()

    def _transferred(self, hub: HubChild, principal: Principal) -> tuple[str, ...]:
        claimed = self._claimed
        shared = self._sessions, self._settings, claimed, hub
        if claimed.push is not None:
            Push(*shared).run()
            return ()
        if claimed.kind == "dataset":
            DatasetFetch(*shared, principal, self._sign).run()
            return ()
        model = read_model(hub, claimed.name.repository, claimed.pinned)
        with self._sessions.begin() as session:
            due_fetches.hold(
                session,
                claimed,
                commit=model.repository.commit,
                plan=model.plan.model_dump(mode="json"),
                bytes_total=model.total_bytes,
                code=None,
                error=None,
            )
        if claimed.plan_only:
            self._record(lambda session, held: due_fetches.succeed(session, held, None))
            return ()
        self._check_room(model)
        download = WeightsDownload(self._sessions, principal, claimed, hub, model)
        stored = {file.name: download.store(file) for file in model.weights}
        with self._sessions.begin() as session, access.inside(session, claimed.project_id):
            queues = self._finish(session, principal, model, stored)
            download.tidy_up(session)
        return queues

    def _principal(self) -> Principal:
        """Return the owner, who must still be allowed to submit to the project."""
        claimed = self._claimed
        member = exists().where(
            Membership.user_id == User.id,
            Membership.project_id == claimed.project_id,
            Membership.accepted_at.is_not(None),
            Membership.role.in_(MAY_SUBMIT),
        )
        active = User.id == claimed.owner_id, User.deactivated_at.is_(None)
        with self._sessions() as session:
            query = select(User.name).where(*active, or_(User.is_admin, member))
            name = session.scalars(query).one_or_none()
        if name is None:
            raise HubFailure("no_permission")
        return Principal(
            user_id=claimed.owner_id, name=name, token_id=0, scopes=(), is_fetcher=True
        )

    def _access(self) -> HubAccess:
        """Return how the hub is reached, with the owner's token if there is one."""
        try:
            with self._sessions() as session:
                token = hub_tokens.opened(session, self._claimed.owner_id, self._settings)
        except Unsealable as error:
            raise HubFailure("sealed_token") from error
        return HubAccess.of(self._settings, token)

    def _check_room(self, model: HubModel) -> None:
        """Raise an error for a model that is too large."""
        parameters = self._settings.max_model_parameters
        if model.plan.parameters > parameters:
            raise HubFailure(
                "model_too_large", f"{model.plan.parameters:,} parameters of {parameters:,} allowed"
            )
        most = self._settings.max_hub_bytes
        check_room(self._sessions, self._settings, self._claimed, model.total_bytes, most)

    def _finish(
        self,
        session: Session,
        principal: Principal,
        model: HubModel,
        weights: dict[str, StoredArtifact],
    ) -> tuple[str, ...]:
        """Create the folder and the job that imports it, and end the fetch."""
        artifacts = ArtifactStore(session)
        contents = {model.folder.digest(name): model.folder.contents[name] for name in model.small}
        for _, content in sorted(contents.items()):  # in the order that avoids deadlocks
            artifacts.write([content])
        small = {
            name: StoredArtifact(model.folder.digest(name), len(model.folder.contents[name]))
            for name in model.small
        }
        origin = HubOrigin(**origin_members(self._claimed, model.repository, principal))
        claimed = self._claimed
        due_fetches.hold(session, claimed)  # locked, so that no job joins it from here on
        uploaded_folders.store(session, principal, claimed.folder, small | weights, origin)
        moved = coming_folders.arrived(session, claimed.project_id, claimed.folder)
        imports = [job.job_id for job in moved if job.kind == "import" and job.state == "queued"]
        is_imported = base_models.job_of(session, claimed.folder) in imports
        if claimed.base_model is None or is_imported:
            due_fetches.succeed(session, claimed, imports[0] if imports else None)
            return queues_to_ring(moved)
        spec = ImportSpec.model_validate(
            {**claimed.base_model, "name": claimed.folder, "folder": f"{UPLOADED}/{claimed.folder}"}
        )
        created = jobs.create(session, principal, spec, most_queued=self._settings.max_queued_jobs)
        due_fetches.succeed(session, claimed, created.job.id)
        return (*queues_to_ring(moved), *created.queues)

    def _sign(self) -> None:
        """Show a sign of life; raises `NotHeld` if the fetch should end."""
        if self._is_stopped:
            raise NotHeld
        if self._signs.is_due():
            with self._sessions.begin() as session:
                due_fetches.hold(session, self._claimed)

    def _fail(self, code: str, detail: str, seconds: float | None = None) -> None:
        claimed = self._claimed
        text = sentence(code, detail, claimed.name, self._settings.hub_endpoint, claimed.kind)
        if code in PASSING or seconds is not None:
            self._record(lambda session, held: due_fetches.wait(session, held, code, text, seconds))
        else:
            self._record(lambda session, held: due_fetches.fail(session, held, code, text))

    def _record(self, change: Callable[[Session, ClaimedFetch], None]) -> None:
        with suppress(NotHeld), self._sessions.begin() as session:
            change(session, self._claimed)
