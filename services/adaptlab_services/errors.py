"""Errors of the use cases, each of which the API reports as one problem."""

from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from uuid import UUID

from adaptlab.errors import AdaptlabError, InvalidSpec, Problem

MOST_NAMED = 5
"""Number of those that need a thing that the message about its deletion names."""


class Absent(AdaptlabError):
    """A resource that does not exist or that the caller cannot see.

    `names` are those that the caller can see; the message names the nearest.
    """

    def __init__(
        self,
        kind: str,
        id: str | int | UUID,  # noqa: A002 - the API's own word
        names: Sequence[str] = (),
    ) -> None:
        kinds = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
        near = get_close_matches(str(id), names, n=3, cutoff=0.6)
        advice = (
            f"Did you mean {' or '.join(map(repr, near))}?"
            if near
            else f"List the {kinds} to see which exist."
        )
        super().__init__(f"There is no {kind} {str(id)!r}. {advice}")
        self.kind = kind
        self.id = str(id)


class NoReport(Absent):
    """A request for the report of a study that was not created from a recipe."""

    def __init__(self, study: str) -> None:
        AdaptlabError.__init__(
            self, f"The study {study!r} was not created from a recipe. See its comparison instead."
        )
        self.kind = "report"
        self.id = study


class NoPicture(Absent):
    """A picture that is not there, with the reason as a sentence."""

    def __init__(self, reason: str) -> None:
        AdaptlabError.__init__(self, reason)
        self.kind = "picture"
        self.id = ""


class StateConflict(AdaptlabError):
    """A request that the resource's present state does not allow.

    `needs` lists what does not allow it, if that can be listed.
    """

    def __init__(
        self, detail: str, state: str | None = None, needs: Sequence[Problem] = ()
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.state = state
        self.needs = tuple(needs)


class StillNeeded(StateConflict):
    """A deletion of what something else needs, which `needs` lists."""

    def __init__(self, what: str, needs: Sequence[Problem]) -> None:
        named = " ".join(need.detail for need in needs[:MOST_NAMED])
        more = len(needs) - MOST_NAMED
        rest = f" {more:,} more need it." if more > 0 else ""
        detail = f"{what} is still needed. {named}{rest} Delete what needs it first."
        super().__init__(detail, needs=needs)


class LimitReached(AdaptlabError):
    """A request that would give one owner more queued jobs than the limit."""

    def __init__(self, wanted: int, most: int) -> None:
        super().__init__(
            f"The owner would have {wanted:,} jobs waiting or queued. This server allows {most:,} "
            "at a time. Wait until some have started, or cancel some."
        )
        self.wanted = wanted
        self.most = most


class TooManyUploads(LimitReached):
    """A request that would give one owner more uploads than the limit."""

    def __init__(self, most: int) -> None:
        AdaptlabError.__init__(
            self,
            f"You have {most} uploads, the most that this server allows at a time. Delete "
            "those that you no longer need.",
        )
        self.wanted = most + 1
        self.most = most


class QuotaReached(LimitReached):
    """A request beyond an owner's quota of queue hours or stored bytes."""

    @classmethod
    def of_hours(
        cls, queue: str, used: float, most: float, days: int, frees_at: datetime
    ) -> "QuotaReached":
        """Return the error for a queue's hours in the last `days` days.

        `frees_at` is when the use falls below the quota if nothing more is used.
        """
        return cls(
            f"The owner's jobs have used {used:g} hours of the queue {queue!r} in the last "
            f"{days} days. The quota is {most:g} hours. Use another queue, wait until "
            f"{frees_at:%Y-%m-%dT%H:%MZ}, or ask an admin for more.",
        )

    @classmethod
    def of_bytes(cls, stored: int, most: int) -> "QuotaReached":
        """Return the error for `stored` bytes, those of the request included."""
        return cls(
            f"The owner would store {stored:,} bytes. The quota is {most:,} bytes. Delete uploads "
            "that are no longer needed, or ask an admin for a larger quota or to collect old "
            "files.",
        )

    def __init__(self, message: str) -> None:
        AdaptlabError.__init__(self, message)


class UploadTooLarge(AdaptlabError):
    """An upload, or a chunk of one, above its size limit."""

    def __init__(self, size: int, most: int) -> None:
        super().__init__(
            f"The upload has {size:,} bytes. The limit is {most:,} bytes. Send a smaller file."
        )
        self.most = most


class IdempotencyMismatch(AdaptlabError):
    """An idempotency key that was already used for another request."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"The idempotency key {key!r} was already used for another request. Send that "
            "request again, or use a new key."
        )
        self.key = key


class Forbidden(AdaptlabError):
    """A request for something that the caller can see but not change."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class NotAuthorised(AdaptlabError):
    """A token that is missing, malformed, unknown, expired or revoked.

    The message does not reveal which.
    """

    def __init__(self) -> None:
        super().__init__("The token is missing or invalid. Send `Authorization: Bearer <token>`.")


class ReportRefused(InvalidSpec):
    """A worker's report that no run of the leased job could produce.

    Nothing was written. Repeating the report would not help, so the attempt has failed.
    """

    @property
    def is_for_good(self) -> bool:
        """Return True unless another attempt could succeed.

        That is the case if only content is missing, which another attempt sends again.
        """
        return any(problem.code != "no_artifact" for problem in self.problems)


class LeaseLost(AdaptlabError):
    """The attempt no longer holds the job; nothing was written."""

    def __init__(self, job_id: UUID, attempt: int) -> None:
        super().__init__(
            f"Attempt {attempt} no longer holds job {job_id}, so nothing was written. Stop "
            "working on it and claim another job."
        )
        self.job_id = job_id
        self.attempt = attempt


class LedgerUnreachable(AdaptlabError):
    """The ledger did not answer. The call may have had an effect; repeat it."""


class LedgerRefused(AdaptlabError):
    """The ledger rejects this worker's token; do not repeat the call."""


class RangeNotSatisfiable(AdaptlabError):
    """A byte range outside the content."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"The range is outside the content, which has {size:,} bytes. Request a range in it."
        )
        self.size = size
