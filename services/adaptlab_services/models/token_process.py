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
from adaptlab.text.tokeniser import FILE, PublishedTokeniser, end_token, read_tokeniser
from adaptlab.weights.model_folder import CONFIG, read_config, read_tokeniser_file

MEMORY_BYTES = 2 * 2**30
CPU_SECONDS = 10


class Findings(BaseModel):
    """Problems of a spec, and warnings about it."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


class Question(BaseModel):
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


def findings(question: Question) -> Findings:
    """Return what the worker would find; nothing if it would not get so far."""
    assert isinstance(question.task, TextTask)
    tokeniser = _tokeniser(question)
    if tokeniser is None:
        return Findings()
    try:
        warnings = check_sample(question.task, question.records, tokeniser, question.mask)
        return Findings(warnings=warnings)
    except InvalidSpec as error:
        return Findings(problems=error.problems)


def _tokeniser(question: Question) -> PublishedTokeniser | None:
    """Return the tokeniser, None if its files are not those of the import."""
    try:
        files = {
            FILE: read_tokeniser_file(question.folder, question.within),
            CONFIG: read_config(question.folder, question.within),
        }
        if {n: hashlib.sha256(content).hexdigest() for n, content in files.items()} != (
            question.digests
        ):
            return None
        tokeniser = read_tokeniser(files[FILE], end_token(files[CONFIG]))
    except BadModelFolder:
        return None
    return tokeniser if tokeniser.vocabulary <= question.vocabulary else None


def main() -> None:
    """Answer the question on stdin within fixed limits of memory and time."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    question = Question.model_validate_json(sys.stdin.buffer.read())
    sys.stdout.write(findings(question).model_dump_json())


if __name__ == "__main__":
    main()
