"""The values of a form's template: fields, errors and the request."""

import json
import pprint
import shlex
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from adaptlab.errors import Problem
from adaptlab_api.pages.submitting.draft import PASTED, Draft
from adaptlab_api.pages.submitting.spec_document import Document
from adaptlab_api.pages.submitting.spec_form import placed
from adaptlab_api.pages.submitting.spec_texts import pretty

PYTHON_WIDTH = 78


def draft_values(
    draft: Draft, problems: Sequence[Problem], server: str, path: str, call: str
) -> dict[str, object]:
    """Return the values of a form.

    `path` is the address of the same request to the API, and `call` the client's method for it.
    """
    beside, nowhere = placed(problems, draft.sections)
    about_paste = [problem for problem in nowhere if problem.pointer == f"/{PASTED}"]
    return {
        "draft": draft,
        "beside": beside,
        "nowhere": [problem for problem in nowhere if problem not in about_paste],
        "about_paste": about_paste,
        "json_text": pretty(draft.document),
        "curl": _curl(draft, server, path),
        "python": _python(draft, server, call),
    }


def _curl(draft: Draft, server: str, path: str) -> str:
    return (
        f"curl {shlex.quote(server + path + _query(draft.project))} \\\n"
        '  -H "Authorization: Bearer $(cat .adaptlab/token)" \\\n'
        "  -H 'Content-Type: application/json' \\\n"
        f"  -H 'Idempotency-Key: {draft.key}' \\\n"
        f"  -d {shlex.quote(json.dumps(draft.document, indent=2))}"
    )


def _python(draft: Draft, server: str, call: str) -> str:
    where = f", project={draft.project!r}" if draft.project else ""
    written = _literal(draft.document).replace("\n", "\n        ")
    return (
        "from adaptlab_client import Client\n\n"
        f"with Client({server!r}{where}) as client:\n"
        f"    made = client.{call}(\n        {written}\n    )\n"
        "    print(made.id)"
    )


def _literal(document: Document) -> str:
    return pprint.pformat(document, sort_dicts=False, width=PYTHON_WIDTH)


def _query(project: str) -> str:
    asked: Mapping[str, str] = {"project": project} if project else {}
    return f"?{urlencode(asked)}" if asked else ""
