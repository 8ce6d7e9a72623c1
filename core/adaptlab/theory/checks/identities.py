"""The identities of prefixes as a job's check."""

from collections.abc import Iterable

import torch

from adaptlab.engine.kernels.counter import random_bits, stream
from adaptlab.runs.theory_report import Check
from adaptlab.theory.identities import identities
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.identities import Identities

MOST_TOKENS = 64


@MEASURES.register("identities")
def measure(check: Identities, subject: Subject) -> Iterable[Check]:
    """Check the identities on random tokens; they hold for any."""
    base, seed = subject.measured_base, subject.seed
    shape = base.family.shape()
    length = min(shape.context, MOST_TOKENS)
    cells = torch.arange(check.samples * length)
    bits = random_bits(torch.tensor(stream("theory/inputs")), torch.tensor(seed), cells)
    tokens = (bits % shape.vocabulary).view(1, check.samples, length)
    return identities(base, tokens, lengths=check.lengths, seed=seed).checks
