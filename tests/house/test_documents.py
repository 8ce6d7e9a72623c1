"""Documents: links have targets, decisions and words their form."""

import re
import tomllib
from collections.abc import Set as AbstractSet
from pathlib import Path

LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
FRAGMENT = re.compile(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)
CODE = re.compile(r"```.*?```", re.DOTALL)
DECISION = re.compile(r"\d{4}-[a-z0-9-]+\.md")


def documents(repository: Path) -> list[Path]:
    return [*sorted((repository / "docs").rglob("*.md")), *sorted(repository.glob("*.md"))]


def generated(repository: Path) -> set[Path]:
    """Pages that are written from the code and that git ignores."""
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    return {repository / "docs" / name for name in project["entry-points"]["adaptlab.documents"]}


def broken_links(document: Path, absent: AbstractSet[Path] = frozenset()) -> list[str]:
    """The relative links of one document that lead to no file."""
    targets = LINK.findall(document.read_text())
    return [
        target
        for target in targets
        if not (place := (document.parent / target).resolve()).exists() and place not in absent
    ]


def anchor_of(heading: str) -> str:
    """The fragment by which a heading is linked."""
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def broken_fragments(document: Path) -> list[str]:
    """The links of one document that name no heading of a page."""
    broken: list[str] = []
    for link, fragment in FRAGMENT.findall(document.read_text()):
        page = document.parent / link if link else document
        if page.suffix == ".md" and page.exists():
            headings = HEADING.findall(CODE.sub("", page.read_text()))
            if fragment not in map(anchor_of, headings):
                broken.append(f"{link}#{fragment}")
    return broken


def test_every_fragment_names_a_heading(repository: Path) -> None:
    absent = generated(repository)
    found = [page for page in documents(repository) if page not in absent]
    broken = {str(page.relative_to(repository)): broken_fragments(page) for page in found}
    assert {page: links for page, links in broken.items() if links} == {}


def test_a_broken_fragment_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `part`: two\n\n[here](#a-part-two), [there](page.md#gone)\n")
    assert broken_fragments(page) == ["page.md#gone"]


def test_every_relative_link_leads_to_a_file(repository: Path) -> None:
    found = documents(repository)
    assert len(found) > 10
    absent = generated(repository)
    broken = {str(path.relative_to(repository)): broken_links(path, absent) for path in found}
    assert {path: links for path, links in broken.items() if links} == {}


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[here](page.md) and [nowhere](gone.md) and [a place](page.md#part)")
    assert broken_links(page) == ["gone.md"]


def test_every_page_can_be_reached_from_the_index(repository: Path) -> None:
    docs = repository / "docs"
    seen: set[Path] = set()
    waiting = [docs / "README.md"]
    absent = generated(repository)
    while waiting:
        page = waiting.pop()
        if page not in seen | absent and page.suffix == ".md":
            seen.add(page)
            links = LINK.findall(page.read_text())
            waiting += [(page.parent / link).resolve() for link in links]
    assert [path for path in sorted(docs.rglob("*.md")) if path not in seen | absent] == []


def test_decisions_are_numbered_in_order_and_tell_the_same_things(repository: Path) -> None:
    decisions = sorted((repository / "docs" / "decisions").glob("0*.md"))
    assert [int(path.name[:4]) for path in decisions] == list(range(1, len(decisions) + 1))
    for path in decisions:
        text = path.read_text()
        assert DECISION.fullmatch(path.name)
        assert all(f"## {part}\n" in text for part in ("Situation", "Decision", "Consequences")), (
            path.name
        )


def test_the_glossary_is_sorted_and_names_each_word_once(repository: Path) -> None:
    text = (repository / "docs" / "glossary.md").read_text()
    words = [word.lower() for word in re.findall(r"^\*\*(.+?)\*\*", text, re.MULTILINE)]
    assert words == sorted(set(words))
