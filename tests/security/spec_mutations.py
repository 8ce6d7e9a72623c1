"""Specs that are wrong or hostile: sound documents after mutations."""

import json
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

from tests.making import a_pretrain_document, a_study_document, an_adapt_document

from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.task import TASKS

Json = Any  # what a mutated document holds is anything
Document = dict[str, Json]
Path = tuple[str | int, ...]

NUMBERS: tuple[Json, ...] = (
    *(-1, 0, 1, 2, 3, 7, 63, 64, 65, 1000, 4096, 10**6, 2**31, 2**53, 2**63 - 1, 2**63, 10**18),
    *(-(2**63), 0.0, -0.0, 0.5, 1.0, 1e-12, 1e-308, 5e-324, 1e10, 1e308, 10**40),
)
TEXTS = (
    *("", " ", "a", "auto", "all", "true", "null", "-1", "sort_ascending", "lora", "frozen"),
    *("../../etc/passwd", "tiny-sort", "a" * 64, "x" * 5000, "\u202egnp", "\U0001f600", "a\nb"),
    *("'; DROP TABLE jobs; --", "<script>alert(1)</script>", "${jndi:ldap://x}", "%s%n", "\u00e9"),
    *("00000000-0000-0000-0000-000000000000", "blocks.0.attn.q", "attn", "*", ".*", "mlp"),
)
OTHERS: tuple[Json, ...] = (None, True, False, [], {}, [[]], [None], {"name": None}, [0] * 300)
BAD_TEXT = (
    *(b"NaN", b"Infinity", b"-Infinity", b"1e999", b'"\\ud800"', b'"\\u0000"', b"9" * 5000),
    *(b"[" * 1000 + b"]" * 1000, b'{"a":1,"a":2}', b"\xff", b"tru", b"", b"01", b"'a'"),
)
MEMBERS = (
    *("kind", "name", "base_model", "task", "method", "budget", "training", "tuning", "seeds"),
    *("evaluation", "capture", "resources", "labels", "family", "checks", "adaptation", "folder"),
    *("trainable_parameters", "fraction_of_base", "steps", "batch_size", "learning_rate", "x"),
)
ADDRESSES = {
    "/v1/jobs?validate_only=true": (
        a_pretrain_document(name="other"),
        an_adapt_document(),
        an_adapt_document(method={"name": "lora", "rank": "auto"}, tuning={"trials": 3}),
        an_adapt_document(base_model=a_pretrain_document(), capture={"attention": {"samples": 2}}),
        an_adapt_document(method={"name": "combine", "parts": ["lora", "bitfit"]}),
        {"kind": "import", "name": "llama", "folder": "models/llama"},
        {"kind": "theory", "checks": "all", "base_model": "tiny-sort"},
        {"kind": "theory", "checks": ["span"], "adaptation": str(10**31)},
    ),
    "/v1/studies?validate_only=true": (
        a_study_document(),
        a_study_document(methods=["lora"], budgets=[32], tuning={"trials": 1}),
    ),
    "/v1/budgets/solve": (
        {"base_model": "tiny-sort", "methods": ["lora", "prefix_tuning"], "budget": 64},
        {
            "family": {"name": "minigpt", "width": 8, "heads": 2},
            "task": {"name": "copy", "length": 3, "alphabet": 4},
            "methods": ["prefix_tuning", {"name": "lora", "sites": ["mlp"]}],
            "budget": {"trainable_parameters": 64},
        },
    ),
}
"""Where specs go that are looked at and never carried out, with sound ones."""


def requests(seed: int) -> Iterator[tuple[str, bytes]]:
    """Addresses and bodies, without end."""
    random = Random(seed)
    choices = [(address, spec) for address, specs in ADDRESSES.items() for spec in specs]
    while True:
        address, spec = random.choice(choices)
        document = deepcopy(spec)
        for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3, 5))):
            document = mutated(random, document)
        yield address, written(random, document)


def mutated(random: Random, document: Json) -> Json:
    """The document with one thing changed, of which some still make sense."""
    paths = list(places(document))
    path = random.choice(paths)
    found = at(document, path)
    match random.randrange(7):
        case 0 | 1:
            return replaced(document, path, sensible(random, path))
        case 2:
            return replaced(document, path, anything(random))
        case 3 if isinstance(found, dict):
            found[random.choice((*MEMBERS, anything_text(random)))] = anything(random)
        case 4 if isinstance(found, dict) and found:
            found.pop(random.choice(list(found)))
        case 5 if isinstance(found, list):
            found.extend([deepcopy(random.choice(found or [1]))] * random.choice((1, 2, 100)))
        case _:
            return replaced(document, path, deepcopy(at(document, random.choice(paths))))
    return document


def sensible(random: Random, path: Path) -> Json:
    """A value that could be there: a choice with knobs, or a number."""
    last = next((step for step in reversed(path) if isinstance(step, str)), "")
    registry = {"method": METHODS, "methods": METHODS, "parts": METHODS, "family": FAMILIES}.get(
        last, TASKS if "task" in last or last in ("first", "then") else None
    )
    if registry is None:
        return random.choice((*NUMBERS, random.randrange(1, 100), random.random()))
    name = random.choice(registry.names())
    knobs = [knob for knob in registry.get(name).model_fields if knob != "name"]
    chosen = random.sample(knobs, random.randrange(len(knobs) + 1))
    choice: Document = {"name": name}
    for knob in chosen:
        deep = knob in ("first", "then") or (knob in ("parts", "tasks") and len(path) < 4)
        inner = sensible(random, (*path, knob)) if deep else anything(random)
        choice[knob] = [inner, inner] if knob in ("parts", "tasks") else inner
    return choice if random.random() < 0.9 else name


def anything(random: Random) -> Json:
    """A value of any kind, often a small number."""
    match random.randrange(4):
        case 0:
            return random.choice((random.randrange(20), random.choice(NUMBERS)))
        case 1:
            return random.choice(NUMBERS)
        case 2:
            return anything_text(random)
        case _:
            return deepcopy(random.choice(OTHERS))


def anything_text(random: Random) -> str:
    return random.choice(TEXTS)


def written(random: Random, document: Json) -> bytes:
    """The document as JSON, seldom with something in it that is none."""
    body = json.dumps(document).encode()
    chance = random.random()
    if chance < 0.03:
        words = [number for number, letter in enumerate(body) if letter in b":,"]
        cut = random.choice(words) + 1 if words else 0
        return body[:cut] + random.choice(BAD_TEXT) + b"," + body[cut:]
    if chance < 0.05:
        changed = bytearray(body)
        changed[random.randrange(len(changed))] = random.randrange(256)
        return bytes(changed)
    return body[: random.randrange(len(body))] if chance < 0.06 else body


def places(value: Json, path: Path = ()) -> Iterator[Path]:
    """The paths of a value and of all in it."""
    yield path
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value[:10]) if isinstance(value, list) else inner
    for step, below in inner:
        yield from places(below, (*path, step))


def at(document: Json, path: Path) -> Json:
    for step in path:
        document = document[step]
    return document


def replaced(document: Json, path: Path, value: Json) -> Json:
    if not path:
        return value
    at(document, path[:-1])[path[-1]] = value
    return document
