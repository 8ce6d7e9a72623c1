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
