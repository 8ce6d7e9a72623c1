"""Every error the core raises; each names the value, the limit and the next step."""

import errno
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault in a spec, at one place.

    `pointer` is a JSON pointer (RFC 6901) into the request body, `code` a stable word for
    programs, `allowed` the values that would have been accepted, `nearest` the closest ones.
    `column` is the character, from 1, at which the text there goes wrong.
    """

    pointer: str
    code: str
    detail: str
    allowed: tuple[str | int | float, ...] = ()
    nearest: tuple[str | int | float, ...] = ()
    column: int | None = None


class AdaptlabError(Exception):
    """The root of all errors raised by this project on purpose."""


class InvalidSpec(AdaptlabError):
    """A spec that cannot be run as written; carries every problem found, not only the first."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(f"{p.pointer or '/'}: {p.detail}" for p in problems))
        self.problems = problems


class InfeasibleBudget(InvalidSpec):
    """A parameter budget that no configuration of the method meets; names the nearest ones."""


class UnknownName(InvalidSpec):
    """A method, task or family that is not registered; lists those that are."""


class TrainingDiverged(AdaptlabError):
    """Every replicate of the job reached a loss that is not finite."""


class TrainingStopped(AdaptlabError):
    """The observer asked the run to stop before its last step."""


class BadWeightsFile(AdaptlabError):
    """A file that is no whole safetensors file, or one that would cost too much to read."""


class BadCheckpoint(AdaptlabError):
    """A checkpoint whose tensors are missing, extra, of another shape or not finite."""


class BadModelFolder(AdaptlabError):
    """A folder that does not hold exactly one published model of a known family, as safetensors."""


class BadDataset(AdaptlabError):
    """Content that is not the canonical content of the dataset it is said to be."""


class BrokenBundle(AdaptlabError):
    """A file that is no bundle, or a bundle of which a member cannot be trusted or read."""

    def __init__(self, member: str, detail: str) -> None:
        super().__init__(f"{member}: {detail}")
        self.member = member
        self.detail = detail


class BadSettings(AdaptlabError, ValueError):
    """Settings from the environment that are missing or cannot be used."""


class OutOfMemory(AdaptlabError, MemoryError):
    """Not even one replicate at a time fits in memory."""


_OUT_OF_MEMORY_NAMES = frozenset({"OutOfMemoryError", "MemoryError"})
_OUT_OF_MEMORY_WORDS = ("can't allocate memory", "not enough memory", "out of memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch or Python could not get memory; on the CPU torch says so in words only."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & _OUT_OF_MEMORY_NAMES) or (
        isinstance(error, RuntimeError)
        and any(words in str(error).lower() for words in _OUT_OF_MEMORY_WORDS)
    )


_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_disk_full(error: BaseException) -> bool:
    """Whether a disk, or the share of it that somebody may use, had no room left.

    Safetensors is written in Rust, whose errors give the system's number in words only.
    """
    if isinstance(error, OSError):
        return error.errno in _DISK_FULL
    return any(f"(os error {number})" in str(error) for number in _DISK_FULL)
