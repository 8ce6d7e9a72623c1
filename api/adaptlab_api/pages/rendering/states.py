"""Colours and marks of states.

Those of jobs are from their table, those of other resources are here.
"""

from collections.abc import Mapping
from types import MappingProxyType

from adaptlab_db.job_states import STATES, StateLook

NEUTRAL = StateLook("still", "ring")
"""For states without a look of their own, such as `idle`."""
OTHER_STATES: Mapping[str, StateLook] = MappingProxyType(
    {
        "incomplete": StateLook("warn", "exclamation"),
        "unschedulable": StateLook("warn", "exclamation"),
        "valid": StateLook("good", "check"),
        "expired": StateLook("warn", "dashes"),
        "revoked": StateLook("outlined", "slash"),
        "pending": StateLook("still", "ring"),
        "delivered": StateLook("good", "check"),
        "disabled": StateLook("outlined", "slash"),
    }
)
"""Looks of the states of other resources that jobs do not have."""
_LOOKS: Mapping[str, StateLook] = MappingProxyType(
    {**OTHER_STATES, **{name: state.look for name, state in STATES.items()}}
)


def look(state: str) -> StateLook:
    """Return the colour and mark of a state of any resource."""
    return _LOOKS.get(state, NEUTRAL)
