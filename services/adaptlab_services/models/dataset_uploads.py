"""Datasets whose words were sent as an upload, because they are too many for one request."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, TypeAdapter, ValidationError
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.dataset import MOST_TRIPLES, Triple
from adaptlab.values import Name, Value
from adaptlab_answers.models import DatasetOrigin
from adaptlab_db.artifacts import streamed
from adaptlab_services.models import datasets
from adaptlab_services.models.datasets import NewDataset, Uploaded
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage import uploads

POINTER = "/upload"
MOST_FAULTS = 20
LONGEST_LINE = 4096
"""Bytes; three words of 48 characters have at most some 600, and as JSON escapes twice that."""

MOST_LINES = 4 * MOST_TRIPLES
"""With empty ones; reading them takes time too."""
_TOO_MANY = Problem(
    POINTER,
    "wrong_number_of_triples",
    f"The upload has more than {MOST_TRIPLES:,} triples, or {MOST_LINES:,} lines; leave some out.",
    nearest=(MOST_TRIPLES,),
)

_TRIPLE: TypeAdapter[Triple] = TypeAdapter(Triple)


class DatasetFromUpload(Value):
    """Words to be kept under a name, as a complete upload has them, one triple a line.

    A line of `jsonl` is what a triple is in `triples`; one of `tsv` is the English, the German
    and the Spanish word with tabs between. Empty lines are passed over.
    """

    name: Name
    sources: Annotated[tuple[DatasetOrigin, ...], Field(max_length=16)] = ()
    upload: UUID
    format: Literal["jsonl", "tsv"] = "jsonl"


def from_upload(
    session: Session,
    sessions: sessionmaker[Session],
    principal: Principal,
    new: DatasetFromUpload,
) -> Uploaded:
    """Keep the words of an upload under a name; the upload stays until its owner deletes it.

    They are read in units of work of their own, by `sessions`: reading a hundred thousand takes
    longer than a transaction may be idle. Raises `NotFound`, `Conflict` for an upload that is not
    complete or a name of other words, and `InvalidSpec`.
    """
    with sessions() as apart:
        content = uploads.completed(apart, principal, new.upload)
    triples = _triples(_lines(streamed(sessions, content.sha256)), new.format)
    # Every triple was checked as it was read, and so were the name and the sources.
    words = NewDataset.model_construct(name=new.name, sources=new.sources, triples=triples)
    try:
        return datasets.upload(session, principal, words)
    except InvalidSpec as error:
        raise InvalidSpec(*map(_of_upload, error.problems)) from error


def _triples(lines: Iterable[bytes], form: Literal["jsonl", "tsv"]) -> tuple[Triple, ...]:
    triples: list[Triple] = []
    faults: list[Problem] = []
    for number, line in enumerate(lines, 1):
        if len(triples) > MOST_TRIPLES or number > MOST_LINES:
            raise InvalidSpec(_TOO_MANY)
        if not line.strip():
            continue
        try:
            triples.append(_triple(line, form))
        except (ValidationError, ValueError) as error:
            faults.append(_fault(number, error))
        if len(faults) == MOST_FAULTS:
            break
    if faults:
        raise InvalidSpec(*faults)
    return tuple(triples)


def _triple(line: bytes, form: Literal["jsonl", "tsv"]) -> Triple:
    if form == "jsonl":
        return _TRIPLE.validate_json(line, strict=True)
    return _TRIPLE.validate_python(tuple(line.decode().rstrip("\r").split("\t")), strict=True)


def _fault(number: int, error: Exception) -> Problem:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        said = first["msg"]
    else:
        said = "it is not UTF-8"
    return Problem(POINTER, "bad_line", f"Line {number} is no triple of words: {said}.")


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Lines without their ends; what has none for too long raises `InvalidSpec`."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if len(rest) > LONGEST_LINE:
            detail = f"A line has more than {LONGEST_LINE} bytes; send one triple a line."
            raise InvalidSpec(Problem(POINTER, "line_too_long", detail, nearest=(LONGEST_LINE,)))
    if rest:
        yield rest


def _of_upload(problem: Problem) -> Problem:
    """The same fault of a list, where the upload is what was sent."""
    pointer = problem.pointer.replace("/triples", POINTER, 1)
    return Problem(pointer, problem.code, problem.detail, problem.allowed, problem.nearest)
