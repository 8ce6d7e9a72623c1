"""The base of every value that is written as JSON: frozen, strict about names and finite."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Auto = Literal["auto"]
AUTO: Auto = "auto"

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$", max_length=63)]


class Value(BaseModel):
    """A frozen value; unknown members, NaN and infinity are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="constants"
    )


PluginName = Any
"""The `name` field of a plug-in's base class, which every plug-in narrows to its own literal.

Any, because the type checker takes fields of a frozen model for mutable and so for invariant.
"""
