"""Adapters in PEFT folders below the model roots, or uploaded."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from adaptlab.errors import (
    BadAdapter,
    BadCheckpoint,
    BadModelFolder,
    InvalidSpec,
    NoPeftForm,
    Problem,
)
from adaptlab.exchange.adapter_folder import AdapterFolder, read_adapter_files
from adaptlab.exchange.peft_adapter import imported_adapter
from adaptlab.exchange.peft_members import ADAPTER_CONFIG
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve_adapter
from adaptlab.specs.resolved import ResolvedAdapt, ResolvedImport, ResolvedPretrain
from adaptlab.specs.spec import UPLOADED, AdaptSpec, ModelFolder
from adaptlab.values import AUTO
from adaptlab.weights.folder_files import FolderFiles, PlainFolder
from adaptlab_db.session import long_pause
from adaptlab_services.models import datasets, uploaded_folders
from adaptlab_services.models.base_tensors import BaseTensors
from adaptlab_services.models.model_folders import ModelRoots, is_uploaded
from adaptlab_services.models.roots import LONGEST_READING, SEPARATOR
from adaptlab_services.models.stored_folder import StoredFolder
from adaptlab_services.people import access

POINTER = "/adapter"


def resolved_adapter(
    session: Session,
    spec: AdaptSpec,
    base: BaseModelFacts,
    roots: ModelRoots,
    creator: ResolvedPretrain | ResolvedImport | None = None,
    others: Sequence[BaseModelFacts] = (),
) -> ResolvedAdapt:
    """Resolve the evaluation of an imported adapter.

    `creator` is the job of a base model that does not exist yet, and `others` are the base models
    on which it would be evaluated as well.

    Raises:
        InvalidSpec: the folder cannot be imported, or the spec cannot run.
    """
    assert spec.adapter is not None
    if base.folder is not None and base.folder.is_coming:
        detail = (
            f"{base.name!r} is being fetched, and an adapter is compared with its files. Submit "
            f"again when the import has succeeded; `adaptlab base-models show {base.name}` has "
            "its state."
        )
        raise InvalidSpec(Problem("/base_model", "not_fetched", detail))
    placed, files = _located(session, spec.adapter, roots)
    tensors = _base_tensors(session, spec, base.name, roots, creator)
    try:
        with long_pause(session, LONGEST_READING):
            folder = read_adapter_files(files)
            _check_base(folder, base.name, tensors.imported_from, roots)
            adapter = imported_adapter(base.family, folder, tensors.tensor)
    except BadAdapter as error:
        raise InvalidSpec(Problem(POINTER, "bad_adapter", str(error))) from error
    except NoPeftForm as error:
        raise InvalidSpec(Problem("/base_model", "no_peft_form", str(error))) from error
    except (BadCheckpoint, BadModelFolder) as error:
        raise InvalidSpec(Problem("/base_model", "base_model_unread", str(error))) from error
    placed = placed.model_copy(update={"files": folder.files})
    return resolve_adapter(spec, base, adapter.method, placed, datasets.known(session), others)


def _located(session: Session, folder: str, roots: ModelRoots) -> tuple[ModelFolder, FolderFiles]:
    """Return a folder as part of the spec, and its files."""
    if is_uploaded(folder):
        placed = uploaded_folders.model_folder(session, folder, POINTER, "adapter")
        return placed, StoredFolder(session, placed.stored)
    located = roots.located(folder, POINTER)
    # Each file is checked against the root again once open: it may have been replaced.
    return ModelFolder(folder=folder, files=()), PlainFolder(located.place, located.root)


def _base_tensors(
    session: Session,
    spec: AdaptSpec,
    name: str,
    roots: ModelRoots,
    creator: ResolvedPretrain | ResolvedImport | None,
) -> BaseTensors:
    """Return the tensors of the base model.

    Some adapters repeat a few of them.
    """
    if creator is not None:
        return BaseTensors(session, name, roots, creator.model_folder)
    chosen = () if spec.base_replicates == AUTO else spec.base_replicates
    replicate = chosen[0] if chosen else 0
    return BaseTensors.of(session, name, access.project_of(session), replicate, roots)


def _check_base(
    folder: AdapterFolder, name: str, imported_from: str | None, roots: ModelRoots
) -> None:
    """Raise `BadAdapter` if the adapter names a folder of another base model.

    The folder is one below a root, or an uploaded one. Other names, such as those of a model hub,
    are not known here and are not compared.
    """
    trained_on = folder.config.get("base_model_name_or_path")
    if not isinstance(trained_on, str):
        return
    trained_on = trained_on.rstrip(SEPARATOR)
    alias, separator, _ = trained_on.partition(SEPARATOR)
    if separator and alias in (*roots.aliases, UPLOADED) and trained_on != imported_from:
        origin = "was pretrained here" if imported_from is None else f"is {imported_from}"
        raise BadAdapter(
            f"{ADAPTER_CONFIG} says that the adapter was trained on {trained_on}, and the base "
            f"model {name!r} {origin}. Use the base model that was imported from {trained_on}, or "
            "correct base_model_name_or_path if both are the same model."
        )
