"""Modules that the configuration of an adapter names.

The stored tensors decide what is adapted. A configuration that leaves one of them out contradicts
them, since PEFT would not load it.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from adaptlab.exchange.modules import name_ends
from adaptlab.weights.library_tensors import BLOCK

ALL_LINEAR = "all-linear"
MOST_REPEATS = 3
"""Repeats in a pattern that is tried: the time grows with the length to this power."""
LONGEST_PATTERN = 500
_REPEAT = re.compile(r"[*+]|\{\d*,\d*\}")
_REPEATED_GROUP = re.compile(r"\)(?:[*+{])")

Named = str | list[str]
"""Ends of names, a regular expression of whole names, or `all-linear`."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Modules to adapt, and what limits them.

    `layers` are the numbers of the adapted layers, None for all.
    """

    named: Named
    layers: Collection[int] | None = None
    excluded: Named | None = None

    def member_without(self, module: str) -> str | None:
        """Return the member of the configuration that leaves a module out."""
        if not _names(self.named, module, unknown=True):
            return "target_modules"
        block = BLOCK.search(f".{module}.")
        if self.layers is not None and block is not None and int(block[1]) not in self.layers:
            return "layers_to_transform"
        if self.excluded and _names(self.excluded, module, unknown=False):
            return "exclude_modules"
        return None


def _names(named: Named, module: str, *, unknown: bool) -> bool:
    """Return True if a member names a module.

    The result is `unknown` if that cannot be tried safely.
    """
    if not isinstance(named, str):
        return not frozenset(named).isdisjoint(name_ends(module))
    if named == ALL_LINEAR or not _is_safe(named):
        return unknown
    try:
        return re.fullmatch(named, module) is not None
    except (re.error, OverflowError):
        return unknown


def _is_safe(pattern: str) -> bool:
    """Return True if a pattern of strangers cannot take long."""
    repeats = len(_REPEAT.findall(pattern))
    is_short = len(pattern) <= LONGEST_PATTERN and repeats <= MOST_REPEATS
    return is_short and _REPEATED_GROUP.search(pattern) is None
