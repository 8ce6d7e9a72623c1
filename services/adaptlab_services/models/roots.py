"""Folders of this server below which users name files, by alias."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from adaptlab.errors import InvalidSpec, Problem

SEPARATOR = "/"
LONGEST_READING = "60s"
"""Longest time that a unit of work reads a folder, which can be on a slow network disk."""


@dataclass(frozen=True, slots=True)
class Located:
    """A file or folder and its root, both without symbolic links."""

    place: Path
    root: Path


class Roots:
    """Roots by alias. Their paths are never revealed to users.

    Attributes:
        noun: a root of this kind in messages.
        setting: the variable that names them.
        entry: the kind of entry that is named below a root.
        upload: the command that sends such an entry from another machine.
    """

    noun: ClassVar[str]
    setting: ClassVar[str]
    entry: ClassVar[str]
    upload: ClassVar[str]

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self._roots = MappingProxyType(dict(roots))

    @property
    def aliases(self) -> tuple[str, ...]:
        """The names of the roots."""
        return tuple(sorted(self._roots))

    def located(self, path: str, pointer: str) -> Located:
        """Return the place of `ALIAS/SUB/PATH`; problems have the `pointer`.

        Symbolic links are followed within the root.

        Raises:
            InvalidSpec: there is nothing at this path, or it leads outside its root.
        """
        alias, *steps = path.split(SEPARATOR)
        if alias not in self._roots:
            raise self._unknown(alias, pointer)
        self._check_steps(steps, pointer)
        try:
            root = self._roots[alias].resolve(strict=True)
            place = root.joinpath(*steps).resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:
            # RuntimeError: circular links. The message omits the error, which contains paths.
            raise self.unreadable(path, pointer) from error
        self.check_inside(root, place, path, pointer)
        return Located(place, root)

    def unreadable(self, path: str, pointer: str) -> InvalidSpec:
        """Return the error of a path with nothing that can be read."""
        detail = f"The {self.entry} {path!r} does not exist or cannot be read."
        return InvalidSpec(Problem(pointer, f"no_such_{self.entry}", detail))

    def check_inside(self, root: Path, target: Path, name: str, pointer: str) -> None:
        """Raise `InvalidSpec` unless the target is within the root."""
        if not target.is_relative_to(root):
            detail = (
                f"{name!r} leads out of its {self.noun} through a symbolic link. Copy the file "
                "into the root."
            )
            raise InvalidSpec(Problem(pointer, "leads_out_of_root", detail))

    def _unknown(self, alias: str, pointer: str) -> InvalidSpec:
        aliases = ", ".join(self.aliases) or "(none)"
        root, colon, folder = alias.partition(":")
        nearest = f" A slash follows it: {root}/{folder}." if colon and root in self.aliases else ""
        detail = (
            f"There is no {self.noun} named {alias!r}.{nearest} Existing roots: {aliases}. "
            f"An operator can add roots with {self.setting}. `{self.upload}` sends a "
            f"{self.entry} of your machine."
        )
        code = f"unknown_{self.noun.replace(' ', '_')}"
        return InvalidSpec(Problem(pointer, code, detail, self.aliases))

    def _check_steps(self, steps: list[str], pointer: str) -> None:
        """Raise `InvalidSpec` unless all steps are plain, printable names."""
        for step in steps:
            if step in ("", ".", "..") or not step.isprintable() or "\\" in step:
                detail = (
                    f"{step!r} is not a valid {self.entry} name. Give ALIAS/SUB/PATH below the "
                    "root, without a trailing slash, '.', '..' or control characters."
                )
                raise InvalidSpec(Problem(pointer, f"not_a_{self.entry}_name", detail))
