"""Help on pages: purposes, documents, explained terms and described knobs."""

import re
from importlib.resources import files

import pytest
from fastapi.testclient import TestClient

from adaptlab_api.pages.documents.page import document_page
from adaptlab_api.pages.rendering.filter_bar import AROUND, fault_of
from adaptlab_api.pages.rendering.formats import with_code
from adaptlab_api.pages.rendering.help import PURPOSES, Terms, documents, glossary
from adaptlab_api.pages.submitting.job_form import KINDS, Around, chosen_section, job_sections
from adaptlab_api.pages.submitting.spec_fields import FormField
from adaptlab_api.pages.submitting.study_form import study_sections
from adaptlab_services.errors import Absent
from adaptlab_services.models import catalogue

TEMPLATES = files("adaptlab_api.pages") / "templates"
NOTHING = Around((), (), {})


def texts_of_templates() -> dict[str, str]:
    folders = (TEMPLATES, TEMPLATES / "parts")
    entries = (entry for folder in folders for entry in folder.iterdir())
    return {entry.name: entry.read_text() for entry in entries if entry.name.endswith(".html")}


def test_every_page_has_a_purpose_and_a_document() -> None:
    pages = {entry.name for entry in TEMPLATES.iterdir() if entry.name.endswith(".html")}
    assert pages - {"page.html"} == set(PURPOSES)
    assert {purpose.document for purpose in PURPOSES.values()} <= set(documents())
    written = {name: (TEMPLATES / name).read_text() for name in pages}
    without = [
        name
        for name, purpose in PURPOSES.items()
        if not purpose.line
        and "page-head" not in written[name]
        and "parts/submitting.html" not in written[name]
    ]
    assert without == ["document.html", "login.html"]


def test_every_explained_term_is_in_the_glossary() -> None:
    terms = {
        term
        for text in texts_of_templates().values()
        for term in re.findall(r'term\("(.+?)"', text)
    }
    assert {"replicate", "learned mass", "divergence", "cell"} <= terms
    assert terms <= set(glossary())


def test_a_term_is_explained_by_a_button_with_an_id_of_its_own() -> None:
    term = Terms()
    first, second = term("learned mass"), term("learned mass")
    assert 'popovertarget="term-learned-mass-1"' in first
    assert 'id="term-learned-mass-2"' in second
    assert glossary()["learned mass"].replace("'", "&#39;") in first
    with pytest.raises(KeyError):
        term("no such term")


def fields_of_forms() -> list[FormField]:
    chosen = {"/task/name": "copy", "/method/name": "lora", "/family/name": "minigpt"}
    sections = [
        section
        for kind in KINDS
        for section in job_sections(kind, lambda pointer: chosen.get(pointer, ""), NOTHING)
    ]
    sections += study_sections("", lambda _: "copy", NOTHING)
    for what, listed in (
        ("method", catalogue.methods()),
        ("task", catalogue.tasks()),
        ("family", catalogue.families()),
    ):
        for entry in listed.data:
            sections.append(chosen_section(what, f"/{what}", lambda _, n=entry.name: n, ""))
    return [field for section in sections for field in section.all]


def test_every_field_of_the_forms_is_described() -> None:
    fields = fields_of_forms()
    assert "/method/rank" in {field.pointer for field in fields}
    assert [field.pointer for field in fields if not field.hint] == []


def test_a_document_is_shown_with_its_links_and_without_html() -> None:
    text = str(document_page("how-to/read-a-comparison.md")["text"])
    assert 'href="/documents/how-to/peft-adapters.md#import-an-adapter"' in text
    assert "<table>" in text
    assert "<img" not in str(document_page("README.md")["text"])


def test_pages_written_from_the_code_are_shown_without_a_file() -> None:
    page = document_page("reference/commands.md")
    assert page["title"] == "Reference: the command line"
    assert "adaptlab jobs submit" in str(page["text"])
    calls = str(document_page("reference/client-calls.md")["text"])
    assert 'href="/documents/reference/client.md"' in calls
    assert "client.jobs.wait" in calls


@pytest.mark.parametrize("name", ["../pyproject.toml", "/etc/passwd", "how-to", ""])
def test_only_documents_are_shown(name: str) -> None:
    with pytest.raises(Absent):
        document_page(name)


def test_documents_are_for_users_of_the_server(shared_reader: TestClient) -> None:
    contents = shared_reader.get("/documents")
    assert contents.headers["Location"] == "/documents/README.md"
    assert "Bring your own data" in shared_reader.get("/documents/README.md").text
    assert shared_reader.get("/documents/no-such.md").status_code == 404
    shared_reader.cookies.clear()
    refused = shared_reader.get("/documents/README.md")
    assert refused.headers["Location"].startswith("/login")


def test_code_is_formatted_and_the_rest_is_escaped() -> None:
    assert with_code("a `b <i>` & `c") == "a <code>b &lt;i&gt;</code> &amp; <code>c</code>"


def test_only_the_wrong_part_of_a_long_filter_is_shown() -> None:
    many = " AND ".join(f"priority = {number}" for number in range(30))
    fault = fault_of(f"{many} AND nothing = 1 AND {many}")
    assert fault is not None
    assert fault.at == "nothing"
    assert len(fault.before) == len(fault.after) == AROUND + 1
    short = fault_of("nothing = 1")
    assert short is not None
    assert (short.before, short.after) == ("", " = 1")
