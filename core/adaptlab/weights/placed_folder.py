"""Folders on one machine, and the files that they must still have."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from adaptlab.errors import BadModelFolder
from adaptlab.values import Value
from adaptlab.weights.model_file import ModelFile
from adaptlab.weights.model_folder import (
    TEXT_FILES,
    CheckedFolder,
    check_folder,
    fingerprint,
)
from adaptlab.weights.preprocessor import PREPROCESSOR

MOST_NAMED = 8
DIGITS = 12
"""The digits of a digest that are shown."""


class PlacedFolder(Value):
    """The folder of a model or adapter that is read where it is.

    `path` is its place on this machine and `name` is `ALIAS/SUB/PATH`, which users see. `files` are
    its files when the job was created. A file outside `within` is not opened.
    """

    path: Path
    name: str
    files: tuple[ModelFile, ...]
    within: Path | None = None

    def changes(self, present: Iterable[ModelFile]) -> str:
        """Return the names of files that changed, as part of a refusal.

        The text is empty if none did. A tokeniser or chat template that is new in the folder is not
        a change of the model.
        """
        expected = {file.name: file for file in self.files}
        found = {
            file.name: file
            for file in present
            if file.name in expected or file.name not in TEXT_FILES
        }
        names = sorted(expected.keys() | found.keys())
        changed = [
            f"{name} ({_difference(expected.get(name), found.get(name))})"
            for name in names
            if expected.get(name) != found.get(name)
        ]
        return f"Changed since then: {', '.join(changed[:MOST_NAMED])}." if changed else ""

    def checked(self) -> CheckedFolder:
        """Return the folder of a model, if it is still the one that was imported.

        Raises:
            BadModelFolder: a file is missing, cannot be read or has changed.
        """
        try:
            checked = self._declared(check_folder(self.path, self.within))
            present = fingerprint(checked)
        except BadModelFolder as error:
            raise self._refusal(str(error)) from error
        if changes := self.changes(present):
            raise self._refusal(changes)
        return checked

    def _declared(self, checked: CheckedFolder) -> CheckedFolder:
        """Return the folder without a preprocessor that its import did not read."""
        if any(file.name == PREPROCESSOR for file in self.files):
            return checked
        family = checked.family.with_preprocessor(None)
        return replace(checked, family=family, has_preprocessor=False)

    def _refusal(self, details: str) -> BadModelFolder:
        return BadModelFolder(
            f"The folder {self.name} is not as it was when its import was created. {details} "
            "Restore it and retry the job, or import it again under another name."
        )


def _difference(expected: ModelFile | None, found: ModelFile | None) -> str:
    """Return how a file differs, in words."""
    if found is None:
        return "missing"
    if expected is None:
        return "new"
    return f"digest {found.digest[:DIGITS]}, was {expected.digest[:DIGITS]}"
