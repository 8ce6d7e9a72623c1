"""Checks of texts with a base model's tokeniser, before a job exists.

The worker checks every record before its first step. Here the first records are checked by the same
code, so that most of its refusals come at once. A published tokeniser is read in a process of its
own; if that takes too long or fails, nothing is found, and the worker still checks.
"""

import json
import os
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import ValidationError
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.corpus import check_sample
from adaptlab.plugins.task import Task
from adaptlab.plugins.text_task import TextTask
from adaptlab.records.record import Record
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.resolved import ResolvedAdapt, ResolvedPretrain
from adaptlab.specs.spec import ModelFolder
from adaptlab.text.folder_tokeniser import TOKENISER_FILES
from adaptlab.text.tokeniser import ByteTokeniser
from adaptlab.weights.model_folder import CHAT_FILES, TOKENISER
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.errors import (
    ArtifactGone,
    ArtifactNotFound,
    BytesMissing,
    StoreNotConfigured,
    StoreUnreachable,
)
from adaptlab_db.session import long_pause
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.models.roots import Located
from adaptlab_services.models.token_process import Findings, TokenQuestion

MOST_RECORDS = 200
MOST_BYTES = 128 * 2**10
"""Limit of the content that is read for the records."""

LONGEST_SECONDS = 10.0
"""Time limit of one check, the start of its process included."""

LONGEST_WAIT = 3.0
"""Longest time that a check waits for that of another request."""

LONGEST_PAUSE = "30s"
"""Longest time between two statements; longer than waiting and checking on a busy machine."""

MOST_KEPT = 256
MODULE = "adaptlab_services.models.token_process"

UNCHECKED = (
    "Lengths of conversations are not checked before the job, because only the job runs the base "
    "model's chat template. If a conversation has more than tokens.longest tokens, or its answer "
    "more than tokens.answer, the job fails before its first step and names the first one."
)
"""A warning about conversations that the base model's own template writes."""

_UNREADABLE = (ArtifactNotFound, ArtifactGone, BytesMissing, StoreNotConfigured, StoreUnreachable)
_kept: "OrderedDict[str, Findings]" = OrderedDict()
_keeping = threading.Lock()
_one_process = threading.Lock()


def check_tokens(
    session: Session,
    base: BaseModelFacts | None,
    job: ResolvedAdapt | ResolvedPretrain,
    chosen: Sequence[tuple[str, Task]],
    roots: ModelRoots,
) -> tuple[str, ...]:
    """Check the texts of a job's task and evaluation; return warnings.

    `base` is None for a model that is pretrained here, which reads bytes. `chosen` are the
    evaluation's tasks with their pointers, none if it has only the job's own.

    Raises:
        InvalidSpec: an item of the first records is one that the worker refuses.
    """
    return check_each(session, base, [("/task", job.task), *chosen], roots)


def check_each(
    session: Session,
    base: BaseModelFacts | None,
    tasks: Iterable[tuple[str, Task]],
    roots: ModelRoots,
) -> tuple[str, ...]:
    """Check the texts of tasks with their pointers; return warnings.

    Raises:
        InvalidSpec: an item of the first records is one that the worker refuses.
    """
    problems: list[Problem] = []
    warnings: dict[str, None] = {}
    checked: list[Task] = []
    for pointer, task in tasks:
        if not isinstance(task, TextTask) or task in checked:
            continue
        checked.append(task)
        if task.conversations() is not None and _has_template(base):
            warnings[UNCHECKED] = None
            continue  # the template is a program, which only the training process runs
        found = _findings(session, base, task, roots)
        moved = (p.pointer.removeprefix("/task") for p in found.problems)
        problems += [
            replace(p, pointer=pointer + place)
            for p, place in zip(found.problems, moved, strict=True)
        ]
        warnings |= dict.fromkeys(found.warnings)
    if problems:
        raise InvalidSpec(*problems)
    return tuple(warnings)


def _has_template(base: BaseModelFacts | None) -> bool:
    """Return True if the base model's folder has a file for its chat template."""
    folder = None if base is None else base.folder
    return folder is not None and any(file.name in CHAT_FILES for file in folder.files)


def forget() -> None:
    """Forget all findings, as a new process would."""
    with _keeping:
        _kept.clear()


def _findings(
    session: Session, base: BaseModelFacts | None, task: TextTask, roots: ModelRoots
) -> Findings:
    """Return the findings on a task, from the cache if they are known."""
    folder = None if base is None else base.folder
    files = {file.name: file for file in (folder.files if folder else ())}
    if folder is not None and TOKENISER not in files:
        return Findings()
    reader = "bytes" if base is None or folder is None else base.digest
    key = f"{reader} {task.model_dump_json()}"
    with _keeping:
        if (known := _kept.get(key)) is not None:
            _kept.move_to_end(key)
            return known
    found = _found(session, base, task, roots)
    if found is None:
        return Findings()
    with _keeping:
        _kept[key] = found
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return found


def _found(
    session: Session, base: BaseModelFacts | None, task: TextTask, roots: ModelRoots
) -> Findings | None:
    """Return the findings on the first records, None if there are none."""
    records = _records(session, task)
    if not records:
        return None
    if base is None or base.folder is None:
        try:
            check_sample(task, records, ByteTokeniser())
        except InvalidSpec as error:
            return Findings(problems=error.problems)
        return Findings()  # every word is several bytes, which needs no warning
    digests = {file.name: file.digest for file in base.folder.files}
    with small_files(session, base.folder, roots) as located:
        if located is None:
            return None
        question = TokenQuestion.model_construct(
            task=task,
            records=tuple(dict(record) for record in records),
            folder=located.place,
            within=located.root,
            digests={name: d for name, d in digests.items() if name in TOKENISER_FILES},
            vocabulary=family_shape(base.family).vocabulary,
            mask=base.family.mask(),
        )
        with long_pause(session, LONGEST_PAUSE):
            return _asked(question)


@contextmanager
def small_files(
    session: Session, folder: ModelFolder, roots: ModelRoots
) -> Generator[Located | None]:
    """Yield a folder with the configuration and the tokeniser.

    None if it is below a root that only workers have, or its files cannot be read.
    """
    if not folder.stored:
        try:
            located = roots.located(folder.folder)
        except InvalidSpec:
            located = None
        yield located
        return
    with TemporaryDirectory(prefix="adaptlab-tokeniser-") as copied:
        place = Path(copied).resolve()
        try:
            _copy(session, folder, place)
        except _UNREADABLE:
            yield None
        else:
            yield Located(place, place)


def _copy(session: Session, folder: ModelFolder, place: Path) -> None:
    store = ArtifactStore(session)
    for file in folder.stored:
        if file.name in TOKENISER_FILES:
            with (place / file.name).open("wb") as copy:
                copy.writelines(store.read(file.sha256))


def _asked(question: TokenQuestion) -> Findings | None:
    """Return the answer of a process, None if there is none in time."""
    if not _one_process.acquire(timeout=LONGEST_WAIT):
        return None
    try:
        done = subprocess.run(
            [sys.executable, "-m", MODULE],
            input=question.model_dump_json().encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=LONGEST_SECONDS,
            check=True,
            env=_environment(),
        )
        return Findings.model_validate_json(done.stdout)
    except (subprocess.SubprocessError, OSError, ValidationError):
        return None
    finally:
        _one_process.release()


def _records(session: Session, task: TextTask) -> list[Record]:
    """Return the first records of a dataset; none if it cannot be read."""
    content = b""
    with suppress(*_UNREADABLE):
        store, digest = ArtifactStore(session), task.reference_to_records().digest
        content = b"".join(store.read(digest, 0, min(store.size(digest), MOST_BYTES)))
    return list(_whole_lines(content))


def _whole_lines(content: bytes) -> Iterator[Record]:
    lines = content.split(b"\n")[:-1]  # the last one may be cut off
    for line in lines[:MOST_RECORDS]:
        yield json.loads(line)


def _environment() -> dict[str, str]:
    """Return the environment without our settings, such as database passwords."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("ADAPTLAB_")}
    return own | {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
