"""Datasets from uploads, for word lists too large for one request."""

from collections.abc import Iterable, Iterator
from typing import Literal
from uuid import UUID

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.dataset import MOST_TRIPLES, Triple
from adaptlab.values import Name, Value
from adaptlab_db.artifacts import streamed
from adaptlab_services.models import datasets
from adaptlab_services.models.datasets import NewDataset, Origins, Uploaded
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage import uploads

POINTER = "/upload"
MOST_PROBLEMS = 20
LONGEST_LINE = 4096
"""Limit in bytes.

Three words of 48 characters have at most about 600, and twice that as JSON escapes.
"""

MOST_LINES = 4 * MOST_TRIPLES
"""Limit on lines with empty ones, because reading those takes time too."""
_TOO_MANY = Problem(
    POINTER,
    "wrong_number_of_triples",
    f"The upload has more than {MOST_TRIPLES:,} triples or {MOST_LINES:,} lines. Send fewer.",
    nearest=(MOST_TRIPLES,),
)

_TRIPLE: TypeAdapter[Triple] = TypeAdapter(Triple)


class DatasetFromUpload(Value):
    """A dataset of words to create from a complete upload, a triple per line.

    A line of `jsonl` is a triple as in `triples`; a line of `tsv` is the English, German and
    Spanish word, separated by tabs. Empty lines are ignored.
    """

    name: Name
    kind: Literal["words"] = "words"
    sources: Origins = ()
    upload: UUID
    format: Literal["jsonl", "tsv"] = "jsonl"


def from_upload(
    session: Session,
    sessions: sessionmaker[Session],
    principal: Principal,
    new: DatasetFromUpload,
) -> Uploaded:
    """Create a dataset from an upload, which stays until its owner deletes it.

    The content is read in separate units of work from `sessions`, because reading 100,000 triples
    takes longer than a transaction may be idle.

    Raises:
        Absent: the caller has no such upload.
        StateConflict: the upload is not complete, or the name belongs to other words.
        InvalidSpec: the content is not a valid word list.
    """
    with sessions() as separate:
        content = uploads.completed(separate, principal, new.upload)
    triples = _triples(_lines(streamed(sessions, content.sha256)), new.format)
    # Not validated again: the triples were checked when read, name and sources with `new`.
    words = NewDataset.model_construct(name=new.name, sources=new.sources, triples=triples)
    try:
        return datasets.upload(session, principal, words)
    except InvalidSpec as error:
        raise InvalidSpec(*map(_of_upload, error.problems)) from error


def _triples(lines: Iterable[bytes], form: Literal["jsonl", "tsv"]) -> tuple[Triple, ...]:
    triples: list[Triple] = []
    problems: list[Problem] = []
    for number, line in enumerate(lines, 1):
        if len(triples) > MOST_TRIPLES or number > MOST_LINES:
            raise InvalidSpec(_TOO_MANY)
        if not line.strip():
            continue
        try:
            triples.append(_triple(line, form))
        except (ValidationError, ValueError) as error:
            problems.append(_problem(number, error))
        if len(problems) == MOST_PROBLEMS:
            break
    if problems:
        raise InvalidSpec(*problems)
    return tuple(triples)


def _triple(line: bytes, form: Literal["jsonl", "tsv"]) -> Triple:
    if form == "jsonl":
        return _TRIPLE.validate_json(line, strict=True)
    return _TRIPLE.validate_python(tuple(line.decode().rstrip("\r").split("\t")), strict=True)


def _problem(number: int, error: Exception) -> Problem:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        reason = first["msg"]
    else:
        reason = "it is not UTF-8"
    detail = f"Line {number} is not a triple of words: {reason}."
    return Problem(POINTER, "bad_line", detail)


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines without their ends; raises `InvalidSpec` for a long one."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if len(rest) > LONGEST_LINE:
            detail = f"A line has more than {LONGEST_LINE:,} bytes. Send one triple per line."
            raise InvalidSpec(Problem(POINTER, "line_too_long", detail, nearest=(LONGEST_LINE,)))
    if rest:
        yield rest


def _of_upload(problem: Problem) -> Problem:
    """Return the problem of a list, with the upload as its place."""
    pointer = problem.pointer.replace("/triples", POINTER, 1)
    return Problem(pointer, problem.code, problem.detail, problem.allowed, problem.nearest)
