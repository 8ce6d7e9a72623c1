"""Colours and marks of states.

Those of jobs are from their table, those of other resources are here.
"""

from collections.abc import Mapping
from types import MappingProxyType

from adaptlab_db.job_states import STATES, Look

NEUTRAL = Look("still", "ring")
"""For states without a look of their own, such as `idle`."""
OTHER_STATES: Mapping[str, Look] = MappingProxyType(
    {
        "incomplete": Look("warn", "exclamation"),
        "unschedulable": Look("warn", "exclamation"),
        "valid": Look("good", "check"),
        "expired": Look("warn", "dashes"),
        "revoked": Look("outlined", "slash"),
        "pending": Look("still", "ring"),
        "delivered": Look("good", "check"),
        "disabled": Look("outlined", "slash"),
    }
)
"""Looks of the states of other resources that jobs do not have."""
_LOOKS: Mapping[str, Look] = MappingProxyType(
    {**OTHER_STATES, **{name: state.look for name, state in STATES.items()}}
)


def look(state: str) -> Look:
    """Return the colour and mark of a state of any resource."""
    return _LOOKS.get(state, NEUTRAL)
