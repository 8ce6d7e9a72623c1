"""Names of models and datasets on a hub: `hub:org/name@revision`."""

import re
from typing import Self

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.file_forms import HUB_PREFIX
from adaptlab.values import Value

PREFIX = HUB_PREFIX
MAIN = "main"
LONGEST = 400
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_REPOSITORY = re.compile(rf"(?:{_PART}/)?{_PART}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
SPLIT_SIGN = "#"
DIGITS = 12
"""Digits of a commit in names."""
LONGEST_USUAL = 63
_SPLIT = re.compile(r"[^\s/#\x00-\x1f\x7f]{1,128}")


class HubOrigin(Value):
    """Where the files of a model folder or dataset were fetched.

    `revision` was asked for and `commit` is what it meant then. `licence` and `gated` are as the
    hub gave them; what is `gated` is for those who have accepted its terms. `fetched_at` is a time
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

    @property
    def usual_name(self) -> str:
        """The name that its model gets on a server unless another is given."""
        return self.name_with()

    def name_with(self, *parts: str | None) -> str:
        """Return the repository, some of its parts and the revision as one name.

        Names of parts that are None, and of the main branch, are left out.
        """
        pinned = None if self.revision == MAIN else self.revision[:DIGITS]
        words = [one for one in (self.repository, *parts, pinned) if one]
        text = re.sub(r"[^a-z0-9._]+", "-", "-".join(words).lower())
        return text.strip("-._")[:LONGEST_USUAL].rstrip("-._")

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
                f"{text[:LONGEST]!r} is not a name on the hub. Write "
                f"{PREFIX}ORGANISATION/NAME or {PREFIX}ORGANISATION/NAME@REVISION, such as "
                f"{PREFIX}HuggingFaceTB/SmolLM2-135M@main."
            )
            raise InvalidSpec(Problem(pointer, "bad_hub_name", detail))
        return cls(repository=repository, revision=revision)


class HubDatasetOrigin(HubOrigin):
    """Where a dataset was fetched.

    A name without a configuration means `config` if `is_default_config`, and one without a split
    means `split` if `is_default_split`. A dataset `is_partial` if the hub's conversion to Parquet,
    which was read, has only its first part.
    """

    config: str
    split: str
    is_default_config: bool
    is_default_split: bool
    is_partial: bool = False
    files: tuple[str, ...]


class FetchedDataset(Value):
    """A dataset that a job reads, and where its content was fetched.

    `commit` is what `revision` meant then. Public texts do not name a `private` repository.
    """

    name: str
    digest: str
    endpoint: str
    repository: str
    revision: str
    commit: str
    config: str
    split: str
    private: bool = False

    def __str__(self) -> str:
        """Return the name of the content on the hub, by its commit."""
        name = HubName(repository=self.repository, revision=self.commit)
        return str(HubDatasetName(name=name, config=self.config, split=self.split))


class HubDatasetName(Value):
    """A split of a dataset on a hub; what is None is the dataset's default."""

    name: HubName
    config: str | None = None
    split: str | None = None

    def __str__(self) -> str:
        """Return the name as users write it: `hub:org/name@revision#config/split`."""
        part = f"{self.config}/{self.split or ''}" if self.config else self.split
        return f"{self.name}{SPLIT_SIGN}{part}" if part else str(self.name)

    @property
    def usual_name(self) -> str:
        """The name that its dataset gets on a server unless another is given."""
        return self.name.name_with(self.config, self.split)

    @classmethod
    def read(cls, text: str, pointer: str) -> Self:
        """Return the name in a text, with or without the prefix.

        Raises:
            InvalidSpec: it is no such name; the problem has the `pointer`.
        """
        whole, sign, part = text.partition(SPLIT_SIGN)
        name = HubName.read(whole, pointer)
        config, _, split = part.rpartition("/")
        if any(one and not _SPLIT.fullmatch(one) for one in (config, split)) or (
            sign and not split and not config
        ):
            detail = (
                f"{text[:LONGEST]!r} names no split of a dataset. Write {name}{SPLIT_SIGN}SPLIT or "
                f"{name}{SPLIT_SIGN}CONFIGURATION/SPLIT."
            )
            raise InvalidSpec(Problem(pointer, "bad_hub_name", detail))
        return cls(name=name, config=config or None, split=split or None)


def is_hub_name(text: str) -> bool:
    """Return True for a name on a hub, not a path."""
    return text.startswith(PREFIX)
