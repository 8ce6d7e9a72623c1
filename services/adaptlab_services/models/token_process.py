"""The checking process: a task and records from stdin, findings to stdout.

A `tokenizer.json` comes from elsewhere. What it makes of memory and time ends with this process.
"""

import hashlib
import resource
import sys
from pathlib import Path

from pydantic import BaseModel

from adaptlab.errors import BadModelFolder, InvalidSpec, Problem
from adaptlab.plugins.corpus import check_sample
from adaptlab.plugins.task import AnyTask
from adaptlab.plugins.text_task import TextTask
from adaptlab.text.folder_tokeniser import folder_tokeniser
from adaptlab.text.tokeniser import PublishedTokeniser
from adaptlab.weights.model_folder import read_text_file

MEMORY_BYTES = 2 * 2**30
CPU_SECONDS = 10


class Findings(BaseModel):
    """Problems of a spec, and warnings about it."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


class TokenQuestion(BaseModel):
    """A task, records, and the folder with the tokeniser that reads them.

    `digests` are those of files in the folder when the model was imported, and `vocabulary` is the
    number of tokens that the model has. `mask` is the token that it replaces by an answer, None
    if it continues the text.
    """

    task: AnyTask
    records: tuple[dict[str, str], ...]
    folder: Path
    within: Path
    digests: dict[str, str]
    vocabulary: int
    mask: int | None = None


def findings(question: TokenQuestion) -> Findings:
    """Return what the worker would find; nothing if it would not get so far."""
    assert isinstance(question.task, TextTask)
    try:
        tokeniser = _tokeniser(question)
    except BadModelFolder as error:
        problem = Problem(pointer="/task", code="bad_tokeniser", detail=str(error))
        return Findings(problems=(problem,))
    if tokeniser is None:
        return Findings()
    try:
        warnings = check_sample(question.task, question.records, tokeniser, question.mask)
        return Findings(warnings=warnings)
    except InvalidSpec as error:
        return Findings(problems=error.problems)


def _tokeniser(question: TokenQuestion) -> PublishedTokeniser | None:
    """Return the tokeniser, None if its files are not those of the import.

    Raises:
        BadModelFolder: the files are those of the import, and have no tokeniser of the model.
    """
    try:
        files = {
            name: read_text_file(question.folder, name, question.within)
            for name in question.digests
        }
    except BadModelFolder:
        return None
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    if digests != question.digests:
        return None
    return folder_tokeniser(files, question.vocabulary)


def main() -> None:
    """Answer the question on stdin within fixed limits of memory and time."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    question = TokenQuestion.model_validate_json(sys.stdin.buffer.read())
    sys.stdout.write(findings(question).model_dump_json())


if __name__ == "__main__":
    main()
