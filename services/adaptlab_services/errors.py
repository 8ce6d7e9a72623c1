"""What a use case can refuse; the API turns each into one kind of problem."""

from datetime import datetime
from uuid import UUID

from adaptlab.errors import AdaptlabError, InvalidSpec


class NotFound(AdaptlabError):
    """There is no such resource, or the asker may not know of it."""

    def __init__(self, kind: str, id: str | int | UUID) -> None:  # noqa: A002 - the API's own word
        kinds = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
        super().__init__(f"There is no {kind} {str(id)!r}. List the {kinds} to see which exist.")
        self.kind = kind
        self.id = str(id)


class NoReport(NotFound):
    """A study that was made from no recipe has nothing published to be held against."""

    def __init__(self, study: str) -> None:
        AdaptlabError.__init__(
            self, f"The study {study!r} was not created from a recipe. See its comparison instead."
        )
        self.kind = "report"
        self.id = study


class Conflict(AdaptlabError):
    """The resource's present state does not allow what was asked."""

    def __init__(self, detail: str, state: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.state = state


class LimitReached(AdaptlabError):
    """One person would have more of the queue than the server allows."""

    def __init__(self, wanted: int, most: int) -> None:
        super().__init__(
            f"The owner would have {wanted} jobs waiting or queued. This server allows {most} "
            "at a time. Wait until some have started, or cancel some."
        )
        self.wanted = wanted
        self.most = most


class TooManyUploads(LimitReached):
    """One person would have more uploads at a time than the server allows."""

    def __init__(self, most: int) -> None:
        AdaptlabError.__init__(
            self,
            f"You have {most} uploads, the most that this server allows at a time. Delete "
            "those that you no longer need.",
        )
        self.wanted = most + 1
        self.most = most


class QuotaReached(LimitReached):
    """Somebody has used up their hours of a queue, or would store more bytes than they may."""

    @classmethod
    def of_hours(
        cls, queue: str, used: float, most: float, days: int, frees_at: datetime
    ) -> "QuotaReached":
        """In so many days; `frees_at` is when there are fewer, if no more are used."""
        return cls(
            f"The owner's jobs have used {used:g} hours of the queue {queue!r} in the last "
            f"{days} days. The quota is {most:g} hours. Use another queue, wait until "
            f"{frees_at:%Y-%m-%dT%H:%MZ}, or ask an admin for more.",
        )

    @classmethod
    def of_bytes(cls, stored: int, most: int) -> "QuotaReached":
        """What is stored, with what was just asked for."""
        return cls(
            f"The owner would store {stored} bytes. The quota is {most} bytes. Delete uploads "
            "that are no longer needed, or ask an admin for a larger quota or to collect old "
            "files.",
        )

    def __init__(self, told: str) -> None:
        AdaptlabError.__init__(self, told)


class UploadTooLarge(AdaptlabError):
    """An upload, or a chunk of one, with more bytes than it may have."""

    def __init__(self, size: int, most: int) -> None:
        super().__init__(
            f"The upload has {size} bytes. The limit is {most} bytes. Send a smaller file."
        )
        self.most = most


class IdempotencyMismatch(AdaptlabError):
    """An idempotency key that was used before, with another request."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"The idempotency key {key!r} was already used for another request. Send that "
            "request again, or use a new key."
        )
        self.key = key


class Forbidden(AdaptlabError):
    """Somebody who may see this, and may not do it."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Unauthorised(AdaptlabError):
    """No token, or one that is malformed, unknown, expired or revoked; which, is not told."""

    def __init__(self) -> None:
        super().__init__("The token is missing or invalid. Send `Authorization: Bearer <token>`.")


class ReportRefused(InvalidSpec):
    """A report that no run of the leased job could make; nothing was written.

    The same report would be refused again, so the attempt that sent it has failed.
    """

    @property
    def is_for_good(self) -> bool:
        """Return True unless all that is missing is content, which another attempt sends again."""
        return any(problem.code != "no_artifact" for problem in self.problems)


class LeaseLost(AdaptlabError):
    """The attempt no longer holds the job; nothing was written and the work should stop."""

    def __init__(self, job_id: UUID, attempt: int) -> None:
        super().__init__(
            f"Attempt {attempt} no longer holds job {job_id}, so nothing was written. Stop "
            "working on it and claim another job."
        )
        self.job_id = job_id
        self.attempt = attempt


class LedgerUnreachable(AdaptlabError):
    """The ledger did not answer; whether the call had an effect is not known, so repeat it."""


class LedgerRefused(AdaptlabError):
    """The ledger does not take this worker's token; to repeat the call does not help."""


class RangeNotSatisfiable(AdaptlabError):
    """A byte range outside the content."""

    def __init__(self, size: int) -> None:
        super().__init__(f"The range is outside the content, which has {size} bytes.")
        self.size = size
