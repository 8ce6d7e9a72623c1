"""Base class of the values that are written as JSON."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import SchemaSerializer

from adaptlab.open_schemas import opened_for_writing

Auto = Literal["auto"]
AUTO: Auto = "auto"

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$", max_length=63)]
Queue = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")]


class Value(BaseModel):
    """A frozen value that rejects unknown members, NaN and infinity.

    A reader that validates with `extra="allow"` keeps unknown members and writes them again; see
    `docs/decisions/0014-one-package-of-answers.md`.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="constants"
    )

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        schema = opened_for_writing(cls.__pydantic_core_schema__)
        # Otherwise pydantic considers the class complete and keeps the old serialiser.
        del cls.__pydantic_serializer__
        cls.__pydantic_serializer__ = SchemaSerializer(schema)


PluginName = Any
"""The type of a plug-in's `name` in its base class; every plug-in narrows it to its own literal.

Any, because the type checker considers fields of a frozen model mutable, and therefore invariant.
"""
