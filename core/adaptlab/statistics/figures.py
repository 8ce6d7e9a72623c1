"""Shares and differences of scores as sentences show them."""


def percent(share: float, decimals: int = 1) -> str:
    """Return a share in per cent: "91.3 %"."""
    return f"{100 * share:.{decimals}f} %"


def points(difference: float) -> str:
    """Return a difference of two shares in points, with its sign: "+12.3"."""
    return f"{100 * difference:+.1f}"
