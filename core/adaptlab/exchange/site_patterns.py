"""Patterns of sites, as methods take them, for a set of sites."""

from collections.abc import Collection, Iterator

from adaptlab.plugins.shapes import ModelShape


def site_patterns(shape: ModelShape, chosen: Collection[str]) -> Iterator[str]:
    """Yield few and short patterns that match only these linear sites.

    Together they match all of these sites.

    A pattern consists of adjacent parts of names. The one that matches most of the remaining sites
    is taken first, the shortest of several.
    """
    matched: dict[str, set[str]] = {}
    for site in shape.linear_sites:
        for pattern in _parts(site.name):
            matched.setdefault(pattern, set()).add(site.name)
    usable = {pattern: sites for pattern, sites in matched.items() if sites <= set(chosen)}
    left = set(chosen)
    while left:
        best = max(usable, key=lambda p: (len(usable[p] & left), -p.count("."), -len(p)))
        yield best
        left -= usable[best]


def _parts(name: str) -> Iterator[str]:
    """Yield every run of adjacent parts of a dotted name.

    Runs that begin with a number are left out.
    """
    parts = name.split(".")
    for start in (index for index, part in enumerate(parts) if not part.isdecimal()):
        for stop in range(start + 1, len(parts) + 1):
            yield ".".join(parts[start:stop])
