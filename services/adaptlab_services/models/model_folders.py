"""Model folders below roots, or uploaded; only their headers are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from sqlalchemy.orm import Session

from adaptlab.errors import BadModelFolder, InvalidSpec, Problem
from adaptlab.plugins.dataset import NO_DATASETS, Datasets
from adaptlab.specs.resolve import resolve_import
from adaptlab.specs.resolved import ResolvedImport
from adaptlab.specs.spec import UPLOADED, ImportSpec, ModelFolder
from adaptlab.weights.model_folder import CheckedFolder, check_files, check_folder, fingerprint
from adaptlab_services.models import uploaded_folders
from adaptlab_services.models.stored_folder import StoredFolder

POINTER = "/folder"
SEPARATOR = "/"
LONGEST_READING = "60s"
"""Longest time that a unit of work reads a folder, which can be on a slow network disk."""


@dataclass(frozen=True, slots=True)
class Located:
    """A model folder and its root, both without symbolic links."""

    place: Path
    root: Path


class ModelRoots:
    """The model roots by alias. Their paths are never revealed to users."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self._roots = MappingProxyType(dict(roots))

    @property
    def aliases(self) -> tuple[str, ...]:
        """The names of the roots."""
        return tuple(sorted(self._roots))

    def locate(self, folder: str) -> Path:
        """Return the path of `ALIAS/SUB/PATH`, without symbolic links.

        Symbolic links are followed within the root. Neither the folder nor any of its entries
        can lead outside it.

        Raises:
            InvalidSpec: there is no such folder, or it leads outside its root.
        """
        return self.located(folder).place

    def located(self, folder: str, pointer: str = POINTER) -> "Located":
        """Return the same as `locate`, with the root for later checks of files.

        Problems have the `pointer`.
        """
        alias, *steps = folder.split(SEPARATOR)
        if alias not in self._roots:
            raise self._unknown(alias, pointer)
        _check_steps(steps, pointer)
        try:
            root = self._roots[alias].resolve(strict=True)
            place = root.joinpath(*steps).resolve(strict=True)
            _check_inside(root, place, folder, pointer)
            for entry in place.iterdir():
                _check_entry(root, entry, pointer)
        except (OSError, RuntimeError, ValueError) as error:
            # RuntimeError: circular links. The message omits the error, which contains paths.
            detail = f"The folder {folder!r} does not exist or cannot be read."
            raise InvalidSpec(Problem(pointer, "no_such_folder", detail)) from error
        return Located(place, root)

    def _unknown(self, alias: str, pointer: str) -> InvalidSpec:
        aliases = ", ".join(self.aliases) or "(none)"
        detail = (
            f"There is no model root named {alias!r}. Existing roots: {aliases}. An operator can "
            "add roots with ADAPTLAB_MODEL_ROOTS."
        )
        return InvalidSpec(Problem(pointer, "unknown_model_root", detail, self.aliases))


NO_ROOTS = ModelRoots({})


def is_uploaded(folder: str) -> bool:
    """Return True for the path of an uploaded folder."""
    return folder.partition(SEPARATOR)[0] == UPLOADED


def resolved_import(
    session: Session, spec: ImportSpec, roots: ModelRoots, datasets: Datasets = NO_DATASETS
) -> ResolvedImport:
    """Resolve an import; raises `InvalidSpec` for an unusable folder."""
    try:
        if is_uploaded(spec.folder):
            folder = uploaded_folders.model_folder(session, spec.folder, POINTER)
            checked = check_files(StoredFolder(session, folder.stored))
        else:
            checked, folder = _below_a_root(spec.folder, roots)
    except BadModelFolder as error:
        raise InvalidSpec(Problem(POINTER, "bad_model_folder", str(error))) from error
    return resolve_import(spec, checked.family, folder, datasets)


def _below_a_root(folder: str, roots: ModelRoots) -> tuple[CheckedFolder, ModelFolder]:
    located = roots.located(folder)
    # Each file is checked against the root again once open: it may have been replaced.
    checked = check_folder(located.place, located.root)
    return checked, ModelFolder(folder=folder, files=fingerprint(checked))


def _check_steps(steps: list[str], pointer: str) -> None:
    """Raise `InvalidSpec` unless all steps are plain, printable folder names."""
    for step in steps:
        if step in ("", ".", "..") or not step.isprintable() or "\\" in step:
            detail = (
                f"{step!r} is not a valid folder name. Give ALIAS/SUB/PATH below the root, "
                "without a trailing slash, '.', '..' or control characters."
            )
            raise InvalidSpec(Problem(pointer, "not_a_folder_name", detail))


def _check_entry(root: Path, entry: Path, pointer: str) -> None:
    target = entry.resolve()
    _check_inside(root, target, entry.name, pointer)
    if not (target.is_file() or target.is_dir()):
        detail = f"{entry.name!r} is not a regular file, or is a broken symbolic link. Remove it."
        raise InvalidSpec(Problem(pointer, "not_a_file", detail))


def _check_inside(root: Path, target: Path, name: str, pointer: str) -> None:
    if not target.is_relative_to(root):
        detail = (
            f"{name!r} leads out of its model root through a symbolic link. Copy the file into "
            "the root."
        )
        raise InvalidSpec(Problem(pointer, "leads_out_of_root", detail))
