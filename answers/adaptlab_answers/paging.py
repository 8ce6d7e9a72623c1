"""Pages of lists."""

from typing import Generic, TypeVar

from adaptlab.values import Value

T = TypeVar("T")


class Page(Value, Generic[T]):
    """One page of a list; without `next_page_token` it is the last."""

    data: tuple[T, ...]
    next_page_token: str | None
