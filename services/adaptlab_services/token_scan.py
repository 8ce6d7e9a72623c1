"""Looks for tokens of adaptlab in bytes that arrive piece by piece, whatever they are.

Binary numbers are looked through like text: looking for the three letters that a token begins with
costs less than telling the one from the other.
"""

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_services.tokens import LENGTH, PREFIX, holds_token

_BEGIN = PREFIX.encode()


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
        content = self._end + piece
        # Most pieces need not become text: a letter for every byte, whatever it is.
        if _BEGIN in content and holds_token(content.decode("latin-1")):
            raise TokenFound
        self._end = content[-(LENGTH - 1) :]
