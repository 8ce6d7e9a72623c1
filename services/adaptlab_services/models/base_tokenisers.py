"""The tokeniser of an imported base model, as a file."""

import hashlib

from pydantic import TypeAdapter
from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.specs.spec import ModelFolder
from adaptlab.weights.model_folder import TOKENISER
from adaptlab.weights.weights_file import opened
from adaptlab_db.tables import Job
from adaptlab_services.errors import Absent
from adaptlab_services.models import base_models
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.models.token_checks import small_files

MOST_BYTES = 64 * 2**20
"""Limit of a `tokenizer.json`; the largest published ones have some 35 MB."""
_FOLDER: TypeAdapter[ModelFolder | None] = TypeAdapter(ModelFolder | None)


def tokeniser_file(session: Session, name: str, roots: ModelRoots) -> bytes:
    """Return the `tokenizer.json` of an imported base model.

    Raises:
        Absent: there is no such base model, it reads bytes or images, or its folder is below a
            root that this server does not have.
    """
    job_id = base_models.get(session, name).job_id
    stored = session.scalar(select(Job.resolved_spec["model_folder"]).where(Job.id == job_id))
    folder = _FOLDER.validate_python(stored)
    digests = {file.name: file.digest for file in (folder.files if folder else ())}
    if folder is None or TOKENISER not in digests:
        raise Absent("tokeniser of the base model", name)
    with small_files(session, folder, roots) as located:
        if located is None or not (located.place / TOKENISER).is_file():
            raise Absent("tokeniser of the base model", name)
        with opened(located.place / TOKENISER, located.root) as file:
            content = file.read(MOST_BYTES + 1)
    if hashlib.sha256(content).hexdigest() != digests[TOKENISER]:
        raise Absent("unchanged tokeniser of the base model", name)
    return content
