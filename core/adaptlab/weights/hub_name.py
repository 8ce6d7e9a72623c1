"""Names of models on a hub: `hub:org/name@revision`."""

import re
from typing import Self

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.values import Value

PREFIX = "hub:"
MAIN = "main"
LONGEST = 400
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_REPOSITORY = re.compile(rf"(?:{_PART}/)?{_PART}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")


class HubOrigin(Value):
    """Where the files of a model folder were fetched.

    `revision` was asked for and `commit` is what it meant then. `licence` and `gated` are as the
    hub gave them; a `gated` model is for those who have accepted its terms. `fetched_at` is a time
    in UTC.
    """

    endpoint: str
    repository: str
    revision: str
    commit: str
    licence: str | None = None
    licence_name: str | None = None
    licence_link: str | None = None
    gated: str | None = None
    private: bool = False
    fetched_by: str
    fetched_at: str


class HubName(Value):
    """A repository of a hub, and the branch, tag or commit to take."""

    repository: str
    revision: str = MAIN

    def __str__(self) -> str:
        """Return the name as users write it."""
        return f"{PREFIX}{self.repository}@{self.revision}"

    @classmethod
    def read(cls, text: str, pointer: str) -> Self:
        """Return the name in a text, with or without the prefix.

        Raises:
            InvalidSpec: it is no such name; the problem has the `pointer`.
        """
        repository, _, revision = text.removeprefix(PREFIX).partition("@")
        revision = revision or MAIN
        if (
            not _REPOSITORY.fullmatch(repository)
            or not _REVISION.fullmatch(revision)
            or any(pair in repository + revision for pair in ("..", "//"))
            or repository.endswith(".git")
        ):
            detail = (
                f"{text[:LONGEST]!r} is not the name of a model on the hub. Write "
                f"{PREFIX}ORGANISATION/NAME or {PREFIX}ORGANISATION/NAME@REVISION, such as "
                f"{PREFIX}HuggingFaceTB/SmolLM2-135M@main."
            )
            raise InvalidSpec(Problem(pointer, "bad_hub_name", detail))
        return cls(repository=repository, revision=revision)


def is_hub_name(folder: str) -> bool:
    """Return True for the name of a model on a hub, not the path of a folder."""
    return folder.startswith(PREFIX)
