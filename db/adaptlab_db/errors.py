"""Errors of the database layer."""

from adaptlab.errors import AdaptlabError

OLDEST = "0052"
"""The oldest revision that can be upgraded. Those before it had smaller numbers."""
LAST_OF_0_1 = "d3549c1f"
"""The last commit with the revisions before `OLDEST`."""


class ArtifactNotFound(AdaptlabError):
    """No artifact has this digest."""

    def __init__(self, sha256: str) -> None:
        super().__init__(
            f"There is no artifact {sha256!r}; digests are listed with the checkpoints and "
            "attention maps of a job."
        )
        self.sha256 = sha256


class ArtifactGone(AdaptlabError):
    """An artifact whose bytes are not available, for the given `reason`.

    `state` is `collected` (deleted by retention) or `quarantined` (found damaged).
    """

    def __init__(self, sha256: str, state: str, reason: str) -> None:
        super().__init__(f"The content with the SHA-256 {sha256} is {state}: {reason}")
        self.sha256 = sha256
        self.state = state
        self.reason = reason


class TablesTooOld(AdaptlabError):
    """The tables are of a revision that this version cannot upgrade."""

    def __init__(self, revision: str) -> None:
        super().__init__(
            f"The tables are at revision {revision}, before {OLDEST}, the oldest that this "
            "version upgrades: run `adaptlab up`, `migrate` or `restore` of the commit "
            f"{LAST_OF_0_1} first."
        )
        self.revision = revision


class BytesMissing(AdaptlabError):
    """A store lacks bytes that the table of artifacts records there."""

    def __init__(self, store: str, sha256: str) -> None:
        super().__init__(
            f"The store {store} lacks bytes of the artifact {sha256}. "
            "Restore them from a backup, or create the artifact again."
        )
        self.store = store
        self.sha256 = sha256


class WrongBytes(AdaptlabError):
    """Bytes whose digest differs from the announced one."""

    def __init__(self, announced: str, found: str) -> None:
        super().__init__(
            f"The bytes have the SHA-256 {found}, but {announced} was announced. "
            "Send them again, or announce this digest."
        )


class StoreUnreachable(AdaptlabError):
    """A store did not answer a request; a later one may succeed."""

    def __init__(self, store: str, where: str, detail: str) -> None:
        super().__init__(f"The store {store} at {where} did not answer: {detail}")
        self.store = store


class StoreNotConfigured(AdaptlabError):
    """An artifact is in a store that this process is not configured for."""

    def __init__(self, store: str) -> None:
        needed = {"directory": "ADAPTLAB_ARTIFACT_FOLDER", "s3": "ADAPTLAB_S3_BUCKET"}
        setting = needed.get(store, "ADAPTLAB_ARTIFACT_STORE")
        super().__init__(
            f"There are artifacts in the store {store!r}, which is not configured here. Set "
            f"{setting}."
        )
        self.store = store
