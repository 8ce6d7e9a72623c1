"""A document as a page: Markdown without its HTML, pictures or scripts."""

import posixpath
from urllib.parse import urlsplit

from markupsafe import Markup

from adaptlab_api.pages.rendering.help import documents, title_of
from adaptlab_services.errors import Absent

HERE = "/documents"


def document_page(name: str) -> dict[str, object]:
    """Return the values of the template; raise `Absent`."""
    if name not in documents():
        raise Absent("document", name, [*documents()])
    text = documents()[name]()
    return {"title": title_of(name), "text": Markup(_html(text, name))}  # noqa: S704 - escaped there


def _html(text: str, name: str) -> str:
    from markdown_it import MarkdownIt  # only readers of documents pay for it

    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = reader.parse(text)
    for token in (child for parent in tokens for child in (parent, *(parent.children or ()))):
        if token.type == "link_open":
            token.attrs["href"] = _address(str(token.attrs["href"]), name)
    return reader.renderer.render(tokens, reader.options, {})


def _address(link: str, name: str) -> str:
    """Return the address of a link; files that are not documents lead nowhere."""
    parts = urlsplit(link)
    if parts.scheme or link.startswith("#"):
        return link
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), parts.path))
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    return f"{HERE}/{path}{fragment}" if path in documents() else "#"
