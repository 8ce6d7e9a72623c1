"""Folders of base models that are gone or have changed since their import."""

from sqlalchemy.orm import Session

from adaptlab.errors import BadModelFolder, InvalidSpec, Problem
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.spec import ModelFolder
from adaptlab.weights.placed_folder import PlacedFolder
from adaptlab_db.session import long_pause
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.models.roots import LONGEST_READING, SEPARATOR


def check_unchanged(
    session: Session, folder: ModelFolder | None, roots: ModelRoots, pointer: str
) -> None:
    """Check that a folder which this server can see is still as imported.

    It cannot see folders below roots that it does not have; a worker checks these. Uploaded folders
    do not change.

    Raises:
        InvalidSpec: the folder is gone, or a file is missing or differs.
    """
    if folder is None or folder.stored:
        return
    if folder.folder.partition(SEPARATOR)[0] not in roots.aliases:
        return
    try:
        located = roots.located(folder.folder, pointer)
    except InvalidSpec as error:
        raise InvalidSpec(*(_gone(problem) for problem in error.problems)) from error
    placed = PlacedFolder(
        path=located.place, name=folder.folder, files=folder.files, within=located.root
    )
    try:
        with long_pause(session, LONGEST_READING):
            placed.checked()
    except BadModelFolder as error:
        raise InvalidSpec(Problem(pointer, "folder_changed", str(error))) from error


def check_base(session: Session, base: BaseModelFacts, roots: ModelRoots, pointer: str) -> None:
    """Check the folder of a base model, if its weights are read there.

    Raises:
        InvalidSpec: see `check_unchanged`.
    """
    if not base.is_stored:
        check_unchanged(session, base.folder, roots, pointer)


def _gone(problem: Problem) -> Problem:
    detail = (
        f"{problem.detail} The base model was imported from it. Restore it and submit or retry the "
        "job, or import it again under another name."
    )
    return Problem(problem.pointer, "folder_gone", detail)
