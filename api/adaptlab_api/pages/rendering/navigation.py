"""The entries of the navigation, which the pages' routes declare."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

MODELS, TEAM_GROUP = "Models and data", "Team"
"""Titles of groups of entries, which are folded."""


@dataclass(frozen=True, order=True, slots=True)
class NavigationEntry:
    """A link at the top of every page; `place` orders the links.

    Neighbours of one `group` are folded under its title.
    """

    place: int
    title: str
    address: str
    group: str = ""


@dataclass(frozen=True, slots=True)
class NavigationGroup:
    """Links that are folded under a title, or are not if that is empty."""

    title: str
    entries: tuple[NavigationEntry, ...]


def grouped(entries: Iterable[NavigationEntry]) -> tuple[NavigationGroup, ...]:
    """Return the entries in order, by group."""
    groups = groupby(sorted(entries), key=lambda entry: entry.group)
    return tuple(NavigationGroup(title, tuple(members)) for title, members in groups)
