"""A model folder on one machine, and the files that it must still have."""

from pathlib import Path

from adaptlab.errors import BadModelFolder
from adaptlab.values import Value
from adaptlab.weights.model_folder import CheckedFolder, ModelFile, check_folder, fingerprint

MOST_NAMED = 8


class PlacedFolder(Value):
    """A model folder, whose weights are read where they are.

    `path` is its place on this machine and `name` is `ALIAS/SUB/PATH`, which users see. `files` are
    its files when the import was created. A file outside `within` is not opened.
    """

    path: Path
    name: str
    files: tuple[ModelFile, ...]
    within: Path | None = None

    def checked(self) -> CheckedFolder:
        """Return the folder, if it is still the one that was imported.

        Raises:
            BadModelFolder: a file is missing, cannot be read or has changed.
        """
        try:
            checked = check_folder(self.path, self.within)
            present = {file.name: file for file in fingerprint(checked)}
        except BadModelFolder as error:
            raise self._refusal(str(error)) from error
        expected = {file.name: file for file in self.files}
        names = sorted(expected.keys() | present.keys())
        if changed := [name for name in names if expected.get(name) != present.get(name)]:
            named = ", ".join(changed[:MOST_NAMED])
            raise self._refusal(f"Changed since then: {named}.")
        return checked

    def _refusal(self, details: str) -> BadModelFolder:
        return BadModelFolder(
            f"The folder {self.name} is not as it was when its import was created. {details} "
            "Restore it and retry the job, or import it again under another name."
        )
