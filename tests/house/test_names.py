"""One name, one thing: no public class of the product has another's name."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("answers", "api", "client", "core", "db", "services", "stack", "worker")


def public_classes() -> Iterator[tuple[str, Path]]:
    for folder in PRODUCT:
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(file.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    yield node.name, file.relative_to(ROOT)


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict[str, list[Path]](list)
    for name, file in public_classes():
        places[name].append(file)
    assert len(places) > 1_000, "the search finds them"
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
