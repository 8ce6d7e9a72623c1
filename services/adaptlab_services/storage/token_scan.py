"""Looks for tokens of adaptlab in bytes that arrive piece by piece, whatever they are.

Binary numbers are looked through like text: looking for what a token looks like costs less than
telling the one from the other.
"""

import re

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_services.people.tokens import LENGTH, PREFIX, holds_token

# What every token looks like, and hardly anything else. Searching for the prefix alone takes twice
# as long in binary numbers, and finds more that is none.
_LIKE_ONE = re.compile(rb"%s[0-9A-Za-z_]{%d}" % (PREFIX.encode(), LENGTH - len(PREFIX)))
_REACH = LENGTH - 1
"""How many bytes of a token can lie on one side of a border."""


class TokenFound(InvalidSpec):
    """Bytes that were uploaded hold a token."""

    def __init__(self) -> None:
        detail = (
            "The bytes hold a token of adaptlab, which would be kept for others to read. Leave it "
            "out, and revoke it if it may have been seen."
        )
        super().__init__(Problem("", "holds_token", detail))


class TokenScan:
    """What was looked through so far; a token that lies in two pieces is found in the second."""

    def __init__(self) -> None:
        self._end = b""

    def look(self, piece: bytes) -> None:
        """Look through the next piece; raises `TokenFound`."""
        self.look_at_border(piece)
        _refuse_tokens(piece)

    def look_at_border(self, piece: bytes) -> None:
        """Look only where the next piece meets those before it, for one that was looked through.

        Raises `TokenFound`.
        """
        _refuse_tokens(self._end + piece[:_REACH])
        self._end = (self._end + piece[-_REACH:])[-_REACH:]


def _refuse_tokens(content: bytes) -> None:
    # Most bytes need not become text: a letter for each, whatever it is.
    if _LIKE_ONE.search(content) and holds_token(content.decode("latin-1")):
        raise TokenFound
