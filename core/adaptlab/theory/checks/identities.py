"""The identities of prefixes as a job's check."""

from collections.abc import Iterable

import torch

from adaptlab.engine.counter import random_bits, stream
from adaptlab.theory.identities import identities
from adaptlab.theory.observation import FrozenBase
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory_checks.identities import Identities
from adaptlab.theory_report import Check

MOST_TOKENS = 64


@MEASURES.register("identities")
def measure(check: Identities, base: FrozenBase | None, seed: int) -> Iterable[Check]:
    """The identities on random tokens, which they hold for as for any others."""
    assert base is not None
    shape = base.family.shape()
    length = min(shape.context, MOST_TOKENS)
    cells = torch.arange(check.samples * length)
    bits = random_bits(torch.tensor(stream("theory/inputs")), torch.tensor(seed), cells)
    tokens = (bits % shape.vocabulary).view(1, check.samples, length)
    return identities(base, tokens, lengths=check.lengths, seed=seed).checks
