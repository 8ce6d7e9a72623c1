"""Specs of imports of a folder."""

from pathlib import Path

from adaptlab.specs.resolve import resolve_import
from adaptlab.specs.resolved import ResolvedImport
from adaptlab.specs.spec import ImportSpec, ModelFolder
from adaptlab.weights.model_folder import check_folder, fingerprint
from adaptlab.weights.placed_folder import PlacedFolder

SAMPLES = 60


def resolved(folder: Path, *tasks: dict[str, object]) -> ResolvedImport:
    spec = ImportSpec.model_validate(
        {
            "name": "tiny",
            "folder": "models/tiny",
            "evaluation": {"tasks": tasks, "samples": SAMPLES},
        }
    )
    checked = check_folder(folder)
    found = ModelFolder(folder=spec.folder, files=fingerprint(checked))
    return resolve_import(spec, checked.family, found)


def placed(spec: ResolvedImport, folder: Path) -> PlacedFolder:
    return PlacedFolder(path=folder, name="models/tiny", files=spec.model_folder.files)
