"""Errors of the core; each names the value, the limit and the next step."""

import errno
from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in a spec, with its place.

    `pointer` is a JSON pointer (RFC 6901) into the request body and `code` a stable word for
    programs. `allowed` lists the accepted values and `nearest` the closest of them. `column` is the
    position of the first wrong character in a text, counted from 1.
    """

    pointer: str
    code: str
    detail: str
    allowed: tuple[str | int | float, ...] = ()
    nearest: tuple[str | int | float, ...] = ()
    column: int | None = None


def below(pointer: str, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems of a part of a document, with places in the whole.

    `pointer` is that of the part.
    """
    return tuple(replace(one, pointer=pointer + one.pointer) for one in problems)


class AdaptlabError(Exception):
    """Base class of all errors that this project raises on purpose."""


class InvalidSpec(AdaptlabError):
    """A spec that cannot run as written, with all of its problems."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(f"{p.pointer or '/'}: {p.detail}" for p in problems))
        self.problems = problems


class InfeasibleBudget(InvalidSpec):
    """A parameter budget that no configuration of the method meets."""


class UnknownName(InvalidSpec):
    """A name that is not registered, with the names that are."""


class TrainingDiverged(AdaptlabError):
    """A job of which every replicate reached a loss that is not finite."""


class TrainingStopped(AdaptlabError):
    """A run that its observer stopped before the last step."""


class BadWeightsFile(AdaptlabError):
    """A file that is not complete safetensors or would cost too much to read."""


class BadCheckpoint(AdaptlabError):
    """A checkpoint with missing, extra, misshapen or non-finite tensors."""


class BadModelFolder(AdaptlabError):
    """A folder that does not contain exactly one model of a supported family."""


class BadAdapter(AdaptlabError):
    """A PEFT folder that cannot be imported.

    The message names the file and what to do.
    """


class NoPeftForm(AdaptlabError):
    """An adaptation that PEFT cannot express.

    The message names the nearest that PEFT can express.
    """


class NoLibraryForm(AdaptlabError):
    """A model that `transformers` cannot express.

    The message says what else can be done.
    """


class NoGgufForm(AdaptlabError):
    """An adapter that llama.cpp cannot read.

    The message says what else can be done.
    """


class NotMergeable(AdaptlabError):
    """An adaptation that is no change of weights.

    The message says what else can be done.
    """


class BadDataset(AdaptlabError):
    """Content that is not the canonical content of its dataset."""


class BrokenBundle(AdaptlabError):
    """A file that is not a bundle, or a bundle with an unreadable member."""

    def __init__(self, member: str, detail: str) -> None:
        super().__init__(f"{member}: {detail}")
        self.member = member
        self.detail = detail


class TrackerRefused(AdaptlabError):
    """A tracker that does not answer, or not as it should."""


class BadSettings(AdaptlabError, ValueError):
    """Settings from the environment that are missing or cannot be used."""


class OutOfMemory(AdaptlabError, MemoryError):
    """A job of which not even one replicate at a time fits in memory."""


class KernelsMissing(AdaptlabError, OSError):
    """Kernels that could not be compiled, although there is a compiler.

    Without them torch would compute the same in another order of sums.
    """


_OUT_OF_MEMORY_NAMES = frozenset({"OutOfMemoryError", "MemoryError"})
_OUT_OF_MEMORY_WORDS = ("can't allocate memory", "not enough memory", "out of memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if torch or Python ran out of memory.

    On the CPU, torch raises a plain `RuntimeError`, so the text of the message decides.
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & _OUT_OF_MEMORY_NAMES) or (
        isinstance(error, RuntimeError)
        and any(words in str(error).lower() for words in _OUT_OF_MEMORY_WORDS)
    )


_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_disk_full(error: BaseException) -> bool:
    """Return True if a disk is full or a disk quota is used up.

    Safetensors is written in Rust, whose errors have the system's number only in their text.
    """
    if isinstance(error, OSError):
        return error.errno in _DISK_FULL
    return any(f"(os error {number})" in str(error) for number in _DISK_FULL)
