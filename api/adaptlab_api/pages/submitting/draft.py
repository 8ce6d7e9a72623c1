"""A job or a study that somebody is about to ask for: what the form holds, and as which spec."""

import copy
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from adaptlab.errors import Problem
from adaptlab_api.answers.problems import Refused
from adaptlab_api.pages.submitting.spec_document import Document, is_document, look
from adaptlab_api.pages.submitting.spec_form import (
    Filled,
    Section,
    Typed,
    document_of,
    filled_from,
    filled_in,
    normalised,
    taken_over,
    typed,
)
from adaptlab_api.requests import strict_json

PASTED, USED, PROJECT, ONCE = "pasted", "use", "project", "once"
"""Fields of the form that are no members of the spec; `once` tells two openings of it apart."""
PASTES = "paste"
_ONCE = re.compile(r"[0-9a-f]{32}")

SectionsOf = Callable[[str, Callable[[str], str]], tuple[Section, ...]]
"""The fields of a kind of spec, given what a field that chooses a plug-in holds."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What the form holds and the document that it amounts to.

    `once` is drawn when the form is opened. `pasted` is what was pasted into it and could not be
    read, with what is wrong in `unread`.
    """

    spec: str
    sections: tuple[Section, ...]
    filled: Filled
    document: Document
    project: str
    once: str
    pasted: str = ""
    unread: tuple[Problem, ...] = ()

    @property
    def key(self) -> str:
        """The idempotency key: the same for a form sent twice, another once it changes."""
        content = json.dumps([self.project, self.document], sort_keys=True)
        return f"form-{self.once}-{hashlib.sha256(content.encode()).hexdigest()[:32]}"

    @property
    def body(self) -> bytes:
        """The document as a request would hold it."""
        return json.dumps(self.document).encode()


def draft_of(
    spec: str, document: Document, sections_of: SectionsOf, project: str, once: str = ""
) -> Draft:
    """The form of a document."""
    seen = normalised(document)
    sections = sections_of(spec, lambda pointer: _text(look(seen, pointer)))
    filled = filled_from(seen, sections)
    # Through the fields, so that what is shown is what will be sent.
    through = document_of(spec, filled, sections, {})
    return Draft(spec, sections, filled, through, project, once or uuid.uuid4().hex)


def draft_typed(
    spec: str,
    fields: Typed,
    sections_of: SectionsOf,
    known: Mapping[str, Document],
    spec_of: Callable[[Document], str],
) -> Draft:
    """The form as it was typed, or as what was pasted or clicked on changes it.

    `known` are specs that choices stand for; `spec_of` says which kind a pasted document is.
    """
    sections = sections_of(spec, lambda pointer: typed(fields, pointer))
    filled = filled_in(fields, sections)
    document = document_of(spec, filled, sections, known)
    project, once = typed(fields, PROJECT), typed(fields, ONCE)
    once = once if _ONCE.fullmatch(once) else uuid.uuid4().hex
    made = Draft(spec, sections, filled, document, project, once, unread=filled.unread)
    if typed(fields, "do") == PASTES:
        return _pasted(made, typed(fields, PASTED), sections_of, spec_of)
    if (use := typed(fields, USED)) and not filled.unread:
        return draft_of(spec, taken_over(document, use), sections_of, project, once)
    return made


def _pasted(
    made: Draft, text: str, sections_of: SectionsOf, spec_of: Callable[[Document], str]
) -> Draft:
    """The form of a pasted spec; the form as it was where that is no JSON object."""
    try:
        document: object = strict_json.parse(text.encode())
    except Refused as refusal:
        detail = "; ".join(one.detail for one in refusal.faults) or refusal.detail
        return replace(made, pasted=text, unread=(Problem(f"/{PASTED}", "invalid_json", detail),))
    if not is_document(document):
        fault = Problem(f"/{PASTED}", "invalid_json", "This is not a JSON object. Paste {…}.")
        return replace(made, pasted=text, unread=(fault,))
    found = copy.deepcopy(cast("Document", document))
    return draft_of(spec_of(found), found, sections_of, made.project, made.once)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
