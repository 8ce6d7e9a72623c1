"""What a theory check declares, torch-free: its knobs, and whether it needs a base model."""

from typing import ClassVar

from adaptlab.errors import Problem
from adaptlab.family import Family
from adaptlab.registry import Registry
from adaptlab.values import PluginName, Value


class TheoryCheck(Value):
    """A check as it can be asked for; the fields are its knobs.

    It yields one or more reports, each of a claim with what was measured of it.
    """

    title: ClassVar[str]
    summary: ClassVar[str]
    needs_base: ClassVar[bool] = False
    """Whether it measures a base model; the others build what they measure."""

    name: PluginName

    def problems(self, base: Family) -> tuple[Problem, ...]:
        """Why it cannot measure such a base model, with pointers to `/base_model`."""
        return ()


THEORY_CHECKS: Registry[type[TheoryCheck]] = Registry("check", "adaptlab.theory_checks")
