"""How large a job may be on this server: refused by arithmetic, before anything is stored.

Single members of a spec have limits of their own, in core. These are of products of several, and
a server sets them, since they depend on its machines.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.specs.resolve import family_shape
from adaptlab.specs.resolved import (
    Resolved,
    ResolvedImport,
    ResolvedPretrain,
    ResolvedTheory,
    Trained,
)
from adaptlab_db.session import informed
from adaptlab_services.settings import Settings

STORED_BYTES = 2
"""Of one number of an attention map: half precision."""
_SIZES = "sizes"

R = TypeVar("R", bound=Resolved)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The largest that one job may be, as the settings of these names say."""

    max_model_parameters: int
    max_batch_tokens: int
    max_attention_bytes: int
    max_check_tokens: int

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Those of a server."""
        return cls(
            settings.max_model_parameters,
            settings.max_batch_tokens,
            settings.max_attention_bytes,
            settings.max_check_tokens,
        )

    def problems(self, resolved: Resolved) -> Iterator[Problem]:
        """What is larger than this server allows."""
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
        asked, method = resolved.attention, resolved.method
        if asked is None:
            return
        shape, length = family_shape(resolved.family), resolved.task.sequence_length()
        learned = 0 if method is None else method.extra_context_tokens()
        maps = (1 if method is None else 2) * len(resolved.seeds) * shape.layers * shape.heads
        numbers = maps * (len(asked.inputs) or asked.samples) * length * (length + learned)
        what, most = "The attention maps take", self.max_attention_bytes
        pointer = "/capture/attention"
        yield from _above(pointer, "capture_too_large", what, STORED_BYTES * numbers, most, "bytes")

    def _of_checks(self, resolved: ResolvedTheory) -> Iterator[Problem]:
        measured = sum(len(one.seeds) for one in resolved.adaptations)
        for index, check in enumerate(resolved.checks):
            times = max(1, measured) if check.needs_adaptation else 1
            tokens = check.tokens(resolved.family) * times
            what, most = f"The check {check.name!r} computes", self.max_check_tokens
            pointer = f"/checks/{index}"
            yield from _above(pointer, "check_too_large", what, tokens, most, "tokens")


def bounded(sessions: sessionmaker[Session], sizes: Sizes) -> sessionmaker[Session]:
    """The same sessions, which know how large jobs may be."""
    return informed(sessions, _SIZES, sizes)


def checked(session: Session, resolved: R) -> R:
    """The job, if it is as small as this server asks for; raises `InvalidSpec`."""
    sizes = session.info.get(_SIZES)
    faults = tuple(sizes.problems(resolved)) if isinstance(sizes, Sizes) else ()
    if faults:
        raise InvalidSpec(*faults)
    return resolved


def check_each(session: Session, resolved: Sequence[Resolved]) -> None:
    """Raise `InvalidSpec` for the first of many that is too large."""
    for one in resolved:
        checked(session, one)


def _above(
    pointer: str, code: str, what: str, asked: int, most: int, unit: str
) -> Iterator[Problem]:
    if asked > most:
        detail = f"{what} {asked} {unit}. This server allows {most}. Reduce it."
        yield Problem(pointer, code, detail, nearest=(most,))
