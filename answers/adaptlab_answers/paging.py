"""Pages of lists."""

from typing import Generic, TypeVar

from adaptlab.values import Value

T = TypeVar("T")


class Page(Value, Generic[T]):
    """Some rows of a list, and where it goes on; no token means that this is the end."""

    data: tuple[T, ...]
    next_page_token: str | None
