"""A job or study in a form: its fields, and the spec that they describe."""

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
"""Fields that are not members of the spec; `once` identifies an opening of the form."""
PASTES = "paste"
_ONCE = re.compile(r"[0-9a-f]{32}")

SectionsOf = Callable[[str, Callable[[str], str]], tuple[Section, ...]]
"""Returns the fields of a kind of spec, given the values of plug-in choices."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The fields of a form, and the document that they describe.

    `once` is drawn when the form is opened. `pasted` is a pasted text that could not be read, with
    its errors in `unread`.
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
        """The idempotency key, which changes with the form's content."""
        content = json.dumps([self.project, self.document], sort_keys=True)
        return f"form-{self.once}-{hashlib.sha256(content.encode()).hexdigest()[:32]}"

    @property
    def body(self) -> bytes:
        """The document as the body of a request."""
        return json.dumps(self.document).encode()


def draft_of(
    spec: str, document: Document, sections_of: SectionsOf, project: str, once: str = ""
) -> Draft:
    """Return the form of a document."""
    seen = normalised(document)
    sections = sections_of(spec, lambda pointer: _text(look(seen, pointer)))
    filled = filled_from(seen, sections)
    # Through the fields, so that the document shown is the one sent.
    through = document_of(spec, filled, sections, {})
    return Draft(spec, sections, filled, through, project, once or uuid.uuid4().hex)


def draft_typed(
    spec: str,
    fields: Typed,
    sections_of: SectionsOf,
    known: Mapping[str, Document],
    spec_of: Callable[[Document], str],
) -> Draft:
    """Return the form as typed, pasted, or changed by a clicked value.

    `known` are specs by the choices that represent them; `spec_of` returns the kind of a pasted
    document.
    """
    sections = sections_of(spec, lambda pointer: typed(fields, pointer))
    filled = filled_in(fields, sections)
    document = document_of(spec, filled, sections, known)
    project, once = typed(fields, PROJECT), typed(fields, ONCE)
    once = once if _ONCE.fullmatch(once) else uuid.uuid4().hex
    draft = Draft(spec, sections, filled, document, project, once, unread=filled.unread)
    if typed(fields, "do") == PASTES:
        return _pasted(draft, typed(fields, PASTED), sections_of, spec_of)
    if (use := typed(fields, USED)) and not filled.unread:
        return draft_of(spec, taken_over(document, use), sections_of, project, once)
    return draft


def _pasted(
    draft: Draft, text: str, sections_of: SectionsOf, spec_of: Callable[[Document], str]
) -> Draft:
    """Return the form of a pasted spec, or `draft` with an error."""
    try:
        document: object = strict_json.parse(text.encode())
    except Refused as refusal:
        detail = "; ".join(fault.detail for fault in refusal.faults) or refusal.detail
        return replace(draft, pasted=text, unread=(Problem(f"/{PASTED}", "invalid_json", detail),))
    if not is_document(document):
        fault = Problem(f"/{PASTED}", "invalid_json", "This is not a JSON object. Paste {…}.")
        return replace(draft, pasted=text, unread=(fault,))
    spec = copy.deepcopy(cast("Document", document))
    return draft_of(spec_of(spec), spec, sections_of, draft.project, draft.once)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
