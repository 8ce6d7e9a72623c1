"""How large a job may be on this server: refused by arithmetic, before anything is stored.

Single members of a spec have limits of their own, in core. These are of products of several, and
a server sets them, since they depend on its machines.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.family import Family
from adaptlab.resolve import load_family, load_method, load_task
from adaptlab.resolve_theory import load_check
from adaptlab.spec import ResolvedSpec
from adaptlab_db.session import informed
from adaptlab_services.settings import Settings

STORED_BYTES = 2
"""Of one number of an attention map: half precision."""
_SIZES = "sizes"


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

    def problems(self, resolved: ResolvedSpec) -> Iterator[Problem]:
        """What is larger than this server allows."""
        family = load_family(resolved.family)
        yield from self._of_model(resolved, family)
        yield from self._of_batch(resolved)
        yield from self._of_attention(resolved, family)
        yield from self._of_checks(resolved, family)

    def _of_model(self, resolved: ResolvedSpec, family: Family) -> Iterator[Problem]:
        if resolved.kind in ("pretrain", "import"):
            pointer = "/family" if resolved.kind == "pretrain" else "/folder"
            count, most = family.shape().parameters, self.max_model_parameters
            yield from _above(
                pointer, "model_too_large", "The model has", count, most, "parameters"
            )

    def _of_batch(self, resolved: ResolvedSpec) -> Iterator[Problem]:
        if resolved.task is not None:
            items = resolved.training.batch_size
            tokens = items * load_task(resolved.task).sequence_length()
            what = f"A batch of {items} items has"
            pointer = "/training/batch_size"
            yield from _above(
                pointer, "batch_too_large", what, tokens, self.max_batch_tokens, "tokens"
            )

    def _of_attention(self, resolved: ResolvedSpec, family: Family) -> Iterator[Problem]:
        asked = resolved.attention
        if asked is None or resolved.task is None:
            return
        shape, length = family.shape(), load_task(resolved.task).sequence_length()
        method = None if resolved.method is None else load_method(resolved.method)
        learned = 0 if method is None else method.extra_context_tokens()
        maps = (1 if method is None else 2) * len(resolved.seeds) * shape.layers * shape.heads
        numbers = maps * (len(asked.inputs) or asked.samples) * length * (length + learned)
        what, most = "The attention maps take", self.max_attention_bytes
        pointer = "/capture/attention"
        yield from _above(pointer, "capture_too_large", what, STORED_BYTES * numbers, most, "bytes")

    def _of_checks(self, resolved: ResolvedSpec, family: Family) -> Iterator[Problem]:
        measured = sum(len(one.seeds) for one in resolved.adaptations)
        for index, stored in enumerate(resolved.checks):
            check = load_check(stored)
            tokens = check.tokens(family) * (max(1, measured) if check.needs_adaptation else 1)
            what, most = f"The check {check.name!r} computes", self.max_check_tokens
            pointer = f"/checks/{index}"
            yield from _above(pointer, "check_too_large", what, tokens, most, "tokens")


def bounded(sessions: sessionmaker[Session], sizes: Sizes) -> sessionmaker[Session]:
    """The same sessions, which know how large jobs may be."""
    return informed(sessions, _SIZES, sizes)


def checked(session: Session, resolved: ResolvedSpec) -> ResolvedSpec:
    """The job, if it is as small as this server asks for; raises `InvalidSpec`."""
    sizes = session.info.get(_SIZES)
    faults = tuple(sizes.problems(resolved)) if isinstance(sizes, Sizes) else ()
    if faults:
        raise InvalidSpec(*faults)
    return resolved


def check_each(session: Session, resolved: Sequence[ResolvedSpec]) -> None:
    """Raise `InvalidSpec` for the first of many that is too large."""
    for one in resolved:
        checked(session, one)


def _above(
    pointer: str, code: str, what: str, asked: int, most: int, unit: str
) -> Iterator[Problem]:
    if asked > most:
        detail = f"{what} {asked} {unit}, and this server allows {most}; ask for less."
        yield Problem(pointer, code, detail, nearest=(most,))
