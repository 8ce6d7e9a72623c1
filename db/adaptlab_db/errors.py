"""What the database layer can refuse."""

from adaptlab.errors import AdaptlabError


class ArtifactNotFound(AdaptlabError):
    """No artifact has this digest."""

    def __init__(self, sha256: str) -> None:
        super().__init__(
            f"There is no artifact {sha256!r}; digests are listed with the checkpoints and "
            "attention maps of a job."
        )
        self.sha256 = sha256


class ArtifactGone(AdaptlabError):
    """An artifact that is known, but whose bytes are not to be had; `reason` says why.

    `state` is `collected` (let go of on purpose) or `quarantined` (found damaged).
    """

    def __init__(self, sha256: str, state: str, reason: str) -> None:
        super().__init__(f"The content with the SHA-256 {sha256} is {state}: {reason}")
        self.sha256 = sha256
        self.state = state
        self.reason = reason


class BytesMissing(AdaptlabError):
    """A store does not have the bytes that the table of artifacts says it has."""

    def __init__(self, store: str, sha256: str) -> None:
        super().__init__(
            f"The store {store} has not all bytes of the artifact {sha256}; "
            "bring them back from a backup, or make the artifact anew."
        )
        self.store = store
        self.sha256 = sha256


class WrongBytes(AdaptlabError):
    """Bytes that are not those that were announced."""

    def __init__(self, announced: str, found: str) -> None:
        super().__init__(
            f"The bytes have the SHA-256 {found}, and {announced} was announced; "
            "send them again, or announce them anew."
        )


class StoreUnreachable(AdaptlabError):
    """A store of bytes did not do what was asked; it may later."""

    def __init__(self, store: str, where: str, detail: str) -> None:
        super().__init__(f"The store {store} at {where} did not answer: {detail}")
        self.store = store


class StoreNotConfigured(AdaptlabError):
    """An artifact lies in a store that this process was not told about."""

    def __init__(self, store: str) -> None:
        needed = {"directory": "ADAPTLAB_ARTIFACT_FOLDER", "s3": "ADAPTLAB_S3_BUCKET"}
        setting = needed.get(store, "ADAPTLAB_ARTIFACT_STORE")
        super().__init__(
            f"There are artifacts in the store {store!r}, which is not set up here; set {setting}."
        )
        self.store = store
