"""The page about the Python client."""

import re

import adaptlab_client
from adaptlab.values import Value
from adaptlab_client.reference.source import ClassSource, Member, class_source, home_of

LONGEST = 100
CLIENT, ERRORS = "adaptlab_client.client", "adaptlab_client.errors"

HEADER = """\
# Reference: the Python client

<!-- Made by `python -m adaptlab_client.reference`; do not edit. -->

`pip install adaptlab` brings the client; it needs neither torch nor a database. Everything below is
imported from `adaptlab_client`.

```python
from adaptlab_client import Client

with Client() as client:
    spec = {
        "kind": "adapt",
        "base_model": "tiny-sort",
        "task": {"name": "sort_descending", "length": 3, "alphabet": 4},
        "method": "lora",
        "budget": {"trainable_parameters": 64},
        "training": {"steps": 4, "batch_size": 4},
    }
    print(client.jobs.preview(spec).budget.trainable_parameters)
    job = client.jobs.submit(spec, idempotency_key="first-try")
    for earlier in client.jobs.list(filter="method = lora AND state = succeeded"):
        print(earlier.id, [score.accuracy for score in client.jobs.evaluations(earlier.id)])
    client.jobs.cancel(job.id)
```

What is safe to repeat is sent again after a broken connection, a 502, 503 or 504, and after a 429
that says when: five times in all, with growing pauses or as `Retry-After` asks. What makes a job or
a study carries an idempotency key, so that it is made once however often it is sent. Downloads go
on where they broke off, and every file is checked against its SHA-256. Answers are frozen values,
of the same classes that the server makes them of; ids are UUIDs, and every call takes one as text
too. Members and words that a newer server adds are kept. Times are aware of their zone.
"""


def client_page() -> str:
    """The text of the page."""
    client = class_source(CLIENT, "Client")
    parts = [HEADER, f"## Client\n\n{_code('Client' + client.constructor)}\n\n{client.about}\n"]
    parts += [_method("client", one) for one in client.methods if one.name != "close"]
    for attribute, kind in _attributes().items():
        parts.append(_attribute(attribute, kind))
    parts.append("## Answers\n")
    errors, answers = _public()
    parts += [_answer(one) for one in answers]
    parts.append("## Errors\n\nAll are subclasses of `adaptlab.errors.AdaptlabError`.\n")
    parts += [f"**`{one.name}`** ({', '.join(one.bases)}): {one.about}\n" for one in errors]
    return "\n".join(parts)


def _attributes() -> dict[str, str]:
    """The parts of a client by name, and their classes."""
    with adaptlab_client.Client("http://127.0.0.1:9", "nobody") as client:
        public = {name: part for name, part in vars(client).items() if not name.startswith("_")}
    return {name: type(part).__name__ for name, part in public.items()}


def _attribute(attribute: str, kind: str) -> str:
    found = class_source(home_of(CLIENT, kind), kind)
    inherited = [
        method
        for base in found.bases
        if base.startswith("JobResults")
        for method in class_source(home_of(home_of(CLIENT, kind), base), base).methods
    ]
    head = f"## client.{attribute}\n\n{found.about}\n"
    methods = (_method(f"client.{attribute}", one) for one in (*found.methods, *inherited))
    return "\n".join([head, *methods])


def _method(owner: str, one: Member) -> str:
    return f"### `{owner}.{one.name}`\n\n{_code(f'{owner}.{one.text}')}\n\n{one.about}\n"


def _code(text: str) -> str:
    """The signature as a block, an argument a line where it is long."""
    if len(text) > LONGEST:
        head, _, rest = text.partition("(")
        arguments, _, returned = rest.rpartition(")")
        lines = re.split(r", (?=[*\w]+(?::|,|$)|\*$)", arguments)
        text = "\n".join([f"{head}(", *(f"    {line}," for line in lines), f"){returned}"])
    return f"```python\n{text}\n```"


def _public() -> tuple[list[ClassSource], list[ClassSource]]:
    """Errors and answers, by name."""
    homes = adaptlab_client.homes()
    errors = [class_source(ERRORS, name) for name, home in homes.items() if home == ERRORS]
    others = [_whole(name) for name, home in homes.items() if home not in (ERRORS, CLIENT)]
    return errors, others


def _whole(name: str) -> ClassSource:
    """A class with the members and functions of those that it extends."""
    kind: type = getattr(adaptlab_client, name)
    family = [one for one in reversed(kind.__mro__) if one.__module__.startswith("adaptlab")]
    parts = [class_source(one.__module__, one.__name__) for one in family if one is not Value]
    return parts[-1]._replace(
        fields=tuple({field.name: field for part in parts for field in part.fields}.values()),
        methods=tuple({one.name: one for part in parts for one in part.methods}.values()),
    )


def _answer(one: ClassSource) -> str:
    lines = [f"### {one.name}\n\n{one.about}\n"]
    if one.fields:
        lines += ["| member | type |", "| --- | --- |"]
        lines += [f"| `{field.name}` | `{_cell(field.text)}` |" for field in one.fields]
        lines.append("")
    lines += [f"- `{_cell(method.text)}`: {_first(method.about)}" for method in one.methods]
    return "\n".join([*lines, ""]) if one.methods else "\n".join(lines)


def _first(about: str) -> str:
    return re.sub(r"\s+", " ", about)


def _cell(text: str) -> str:
    return text.replace("|", "\\|") if "|" in text else text
