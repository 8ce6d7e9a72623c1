"""Pages as a person reads them, and the headers of a browser."""

import re
from html import unescape

PAGE = {"Accept": "text/html"}
HERE = {"Sec-Fetch-Site": "same-origin"}


def text_of(page: str) -> str:
    """What one reads: without tags, spaces drawn together."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page)))


def section(page: str, identity: str) -> str:
    """From the element of this id to the next section, as text."""
    return text_of("<" + page.partition(f'id="{identity}"')[2].partition("</section>")[0])
