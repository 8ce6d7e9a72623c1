"""The entries of the navigation, which the pages' routes declare."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True, slots=True)
class NavigationEntry:
    """A link at the top of every page; `place` orders the links."""

    place: int
    title: str
    address: str
