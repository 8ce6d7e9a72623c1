"""Limits on the size of a job, checked by arithmetic before it is stored.

Limits on single members of a spec are in core. Those on their products are here and set by the
server, because they depend on its machines.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.figures import counted
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.resolved import (
    Resolved,
    ResolvedImport,
    ResolvedPretrain,
    ResolvedTheory,
    Trained,
)
from adaptlab.specs.stored_files import saved_bytes, stored_bytes
from adaptlab_db.session import informed
from adaptlab_services.settings import Settings

STORED_BYTES = 2
"""Bytes per number of an attention map: half precision."""
_SIZES = "sizes"

R = TypeVar("R", bound=Resolved)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Limits on the size of one job, from the settings of these names."""

    max_model_parameters: int
    max_batch_tokens: int
    max_attention_bytes: int
    max_check_tokens: int
    max_job_bytes: int
    max_upload_bytes: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the limits of a server."""
        return cls(
            settings.max_model_parameters,
            settings.max_batch_tokens,
            settings.max_attention_bytes,
            settings.max_check_tokens,
            settings.max_job_bytes,
            settings.max_upload_bytes,
        )

    def problems(self, resolved: Resolved) -> Iterator[Problem]:
        """Yield a problem for each limit that the job exceeds."""
        match resolved:
            case ResolvedPretrain():
                yield from self._of_model("/family", resolved)
            case ResolvedImport():
                yield from self._of_model("/folder", resolved)
            case ResolvedTheory():
                yield from self._of_checks(resolved)
            case _:
                pass
        if resolved.training is not None:
            yield from self._of_batch(resolved)
            yield from self._of_attention(resolved)
            yield from self._of_files(resolved)

    def _of_model(
        self, pointer: str, resolved: ResolvedPretrain | ResolvedImport
    ) -> Iterator[Problem]:
        count, most = family_shape(resolved.family).parameters, self.max_model_parameters
        yield from _above(pointer, "model_too_large", "The model has", count, most, "parameters")

    def _of_batch(self, resolved: Trained) -> Iterator[Problem]:
        items = resolved.training.batch_size
        tokens = items * resolved.task.sequence_length()
        what, most = f"A batch of {items} items has", self.max_batch_tokens
        pointer = "/training/batch_size"
        yield from _above(pointer, "batch_too_large", what, tokens, most, "tokens")

    def _of_attention(self, resolved: Trained) -> Iterator[Problem]:
        capture, method = resolved.attention, resolved.method
        if capture is None:
            return
        shape = family_shape(resolved.family)
        length = resolved.family.content_length(resolved.task.sequence_length())
        learned = 0 if method is None else method.extra_context_tokens()
        maps = (1 if method is None else 2) * len(resolved.seeds) * shape.layers * shape.heads
        each = STORED_BYTES * maps * length * (length + learned)
        size = each * (len(capture.inputs) or capture.samples)
        if size <= self.max_attention_bytes:
            return
        fitting = self.max_attention_bytes // each
        detail = (
            f"The attention maps take {size:,} bytes. This server allows "
            f"{self.max_attention_bytes:,}, those of {counted(fitting, 'item')}. Record fewer."
        )
        pointer, nearest = "/capture/attention", (fitting,) if fitting else ()
        yield Problem(pointer, "capture_too_large", detail, nearest=nearest)

    def _of_files(self, resolved: Trained) -> Iterator[Problem]:
        stored, saved = stored_bytes(resolved), saved_bytes(resolved)
        if (size := stored + saved) <= self.max_job_bytes:
            return
        replicates = len(resolved.seeds) * len(resolved.trials)
        detail = (
            f"The job stores {size:,} bytes: {stored:,} in checkpoints of "
            f"{counted(len(resolved.seeds), 'seed')} and {saved:,} in a saved state of "
            f"{counted(replicates, 'replicate')}. This server allows {self.max_job_bytes:,}. Use "
            "fewer seeds or trials, or a method that trains fewer parameters."
        )
        pointer = "/family" if resolved.method is None else "/method"
        yield Problem(pointer, "files_too_large", detail, nearest=(self.max_job_bytes,))

    def _of_checks(self, resolved: ResolvedTheory) -> Iterator[Problem]:
        measured = sum(len(adaptation.seeds) for adaptation in resolved.adaptations)
        for index, check in enumerate(resolved.checks):
            bases = len(resolved.base_replicates) if check.each_replicate else 1
            times = max(1, measured) if check.needs_adaptation else bases
            tokens = check.tokens(resolved.family) * times
            what, most = f"The check {check.name!r} computes", self.max_check_tokens
            pointer = f"/checks/{index}"
            yield from _above(pointer, "check_too_large", what, tokens, most, "tokens")


def bounded(sessions: sessionmaker[Session], sizes: Sizes) -> sessionmaker[Session]:
    """Return the same sessions, which enforce these limits."""
    return informed(sessions, _SIZES, sizes)


def checked(session: Session, resolved: R) -> R:
    """Return the job if the server allows its size; raises `InvalidSpec`."""
    sizes = session.info.get(_SIZES)
    problems = tuple(sizes.problems(resolved)) if isinstance(sizes, Sizes) else ()
    if problems:
        raise InvalidSpec(*problems)
    return resolved


def most_content(session: Session) -> int | None:
    """Return the most bytes of a file by the API, None if any may come."""
    sizes = session.info.get(_SIZES)
    return sizes.max_upload_bytes if isinstance(sizes, Sizes) else None


def check_each(session: Session, resolved: Sequence[Resolved]) -> None:
    """Raise `InvalidSpec` for the first job that exceeds a limit."""
    for job in resolved:
        checked(session, job)


def _above(
    pointer: str, code: str, subject: str, size: int, most: int, unit: str
) -> Iterator[Problem]:
    if size > most:
        detail = f"{subject} {size:,} {unit}. This server allows {most:,}. Reduce it."
        yield Problem(pointer, code, detail, nearest=(most,))
