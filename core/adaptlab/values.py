"""The base of every value that is written as JSON: frozen, strict about names and finite."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import SchemaSerializer

from adaptlab.openness import opened_for_writing

Auto = Literal["auto"]
AUTO: Auto = "auto"

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$", max_length=63)]


class Value(BaseModel):
    """A frozen value; unknown members, NaN and infinity are refused.

    A reader that validates with `extra="allow"` keeps unknown members, which are written again with
    the others: see `docs/decisions/0014-one-package-of-answers.md`.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="constants"
    )

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        schema = opened_for_writing(cls.__pydantic_core_schema__)
        # Without this pydantic would find the class complete and use what it has.
        del cls.__pydantic_serializer__
        cls.__pydantic_serializer__ = SchemaSerializer(schema)


PluginName = Any
"""The `name` field of a plug-in's base class, which every plug-in narrows to its own literal.

Any, because the type checker takes fields of a frozen model for mutable and so for invariant.
"""
