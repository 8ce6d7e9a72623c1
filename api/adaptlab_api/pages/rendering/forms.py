"""Urlencoded forms."""

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs

from fastapi import Request

from adaptlab_api.answers.problems import BAD_REQUEST, NO_FORM, Refused

FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 8


async def small_form_fields(request: Request) -> Mapping[str, Sequence[str]]:
    """Return the fields of a small form; raise `Refused` for another body."""
    return await form_fields(request, MOST_FIELDS)


async def form_fields(request: Request, most: int) -> Mapping[str, Sequence[str]]:
    """Return the fields of a form; raise `Refused` for more than `most`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM:
        raise Refused(NO_FORM, f"The Content-Type is {kind[:64]!r}; send {FORM}.")
    body = (await request.body()).decode("utf-8", "replace")
    if body.count("&") >= most:
        raise Refused(BAD_REQUEST, f"The form has more than {most} fields.")
    return parse_qs(body)
