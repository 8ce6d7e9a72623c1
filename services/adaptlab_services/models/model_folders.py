"""Model folders below roots, or uploaded; only their headers are read."""

from pathlib import Path

from sqlalchemy.orm import Session

from adaptlab.errors import BadModelFolder, InvalidSpec, Problem
from adaptlab.plugins.dataset import NO_DATASETS, Datasets
from adaptlab.plugins.family import Family
from adaptlab.specs.resolve import resolve_import
from adaptlab.specs.resolved import ResolvedImport
from adaptlab.specs.spec import UPLOADED, ImportSpec, ModelFolder
from adaptlab.weights.hub_name import HubName, is_hub_name
from adaptlab.weights.model_folder import CheckedFolder, check_files, check_folder, fingerprint
from adaptlab_services.models import coming_folders, uploaded_folders
from adaptlab_services.models.roots import SEPARATOR, Located, Roots
from adaptlab_services.models.stored_folder import StoredFolder

POINTER = "/folder"


class ModelRoots(Roots):
    """The model roots by alias. Their paths are never revealed to users."""

    noun = "model root"
    setting = "ADAPTLAB_MODEL_ROOTS"
    entry = "folder"
    upload = "adaptlab model-folders upload"

    def locate(self, folder: str) -> Path:
        """Return the path of `ALIAS/SUB/PATH`, without symbolic links.

        Symbolic links are followed within the root. Neither the folder nor any of its entries
        can lead outside it.

        Raises:
            InvalidSpec: there is no such folder, or it leads outside its root.
        """
        return self.located(folder).place

    def located(self, path: str, pointer: str = POINTER) -> Located:
        """Return the same as `locate`, with the root for later checks of files.

        Problems have the `pointer`.
        """
        located = super().located(path, pointer)
        try:
            for entry in located.place.iterdir():
                self._check_entry(located.root, entry, pointer)
        except (OSError, RuntimeError, ValueError) as error:
            raise self.unreadable(path, pointer) from error
        return located

    def _check_entry(self, root: Path, entry: Path, pointer: str) -> None:
        target = entry.resolve()
        self.check_inside(root, target, entry.name, pointer)
        if not (target.is_file() or target.is_dir()):
            detail = (
                f"{entry.name!r} is not a regular file, or is a broken symbolic link. Remove it."
            )
            raise InvalidSpec(Problem(pointer, "not_a_file", detail))


NO_ROOTS = ModelRoots({})


def is_uploaded(folder: str) -> bool:
    """Return True for the path of an uploaded folder."""
    return folder.partition(SEPARATOR)[0] == UPLOADED


def resolved_import(
    session: Session, spec: ImportSpec, roots: ModelRoots, datasets: Datasets = NO_DATASETS
) -> ResolvedImport:
    """Resolve an import; raises `InvalidSpec` for an unusable folder.

    A model that a fetch will bring is resolved by the plan of the fetch.
    """
    path = spec.folder
    if is_hub_name(path):
        name = HubName.read(path, POINTER)
        found = uploaded_folders.of_hub(session, name)
        if found is None:
            family, folder = _coming(session, name, spec.name)
            return resolve_import(spec, family, folder, datasets)
        path = found
    try:
        if is_uploaded(path):
            folder = uploaded_folders.model_folder(session, path, POINTER)
            checked = check_files(StoredFolder(session, folder.stored))
        else:
            checked, folder = _below_a_root(path, roots)
    except BadModelFolder as error:
        raise InvalidSpec(Problem(POINTER, "bad_model_folder", str(error))) from error
    return resolve_import(spec, checked.family, folder, datasets)


def _coming(session: Session, name: HubName, base_model: str) -> tuple[Family, ModelFolder]:
    found = coming_folders.planned(session, name, base_model)
    if found is None:
        detail = (
            f"{name} has not been fetched into the project, and previews on pages do not ask the "
            f"hub. Submit the job, which does, or run `adaptlab hub plan {name}` first."
        )
        raise InvalidSpec(Problem(POINTER, "not_fetched", detail))
    return found


def _below_a_root(folder: str, roots: ModelRoots) -> tuple[CheckedFolder, ModelFolder]:
    located = roots.located(folder)
    # Each file is checked against the root again once open: it may have been replaced.
    checked = check_folder(located.place, located.root)
    return checked, ModelFolder(folder=folder, files=fingerprint(checked))
