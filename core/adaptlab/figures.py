"""Numbers and names in sentences: counts, shares, points and lists."""

from collections.abc import Sequence


def percent(share: float, decimals: int = 1) -> str:
    """Return a share in per cent: "91.3 %"."""
    return f"{100 * share:.{decimals}f} %"


def points(difference: float) -> str:
    """Return a difference of two shares in points, with its sign: "+12.3"."""
    return f"{100 * difference:+.1f}"


def limited_points(difference: float, low: float, high: float) -> str:
    """Return a difference of shares with limits: "+12.3 (+9 to +15)"."""
    return f"{points(difference)} ({_whole(low)} to {_whole(high)})"


def _whole(difference: float) -> str:
    value = round(100 * difference)
    if not difference:
        return "0"
    return f"{value:+d}" if value else f"{100 * difference:+.1f}"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: "1 seed", "5 seeds"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Return names as a list in a sentence: "a, b and c"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
