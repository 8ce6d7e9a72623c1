"""Pictures: values of records that are images.

A picture is a PNG as the text of a `data:` address, so that a record stays a mapping of texts. It
has 8 bits per channel, in grey or in red, green and blue. Its pixels are not read here.
"""

import base64
import binascii
import struct
import zlib
from collections.abc import Mapping
from typing import NamedTuple

PREFIX = "data:image/png;base64,"
MOST_SIDE = 1024
"""Limit of the height and the width of a picture in pixels."""
LEVELS = 256
"""The levels of a pixel in one channel, from 0 to 255."""

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS: Mapping[int, int] = {0: 1, 2: 3}
"""The channels by the colour type of PNG."""


class PictureSize(NamedTuple):
    """Channels, 1 in grey and 3 in colour, and pixels of a picture."""

    channels: int
    height: int
    width: int

    def __str__(self) -> str:
        return f"{self.channels} × {self.height} × {self.width}"


class NotAPicture(ValueError):
    """A value that is not a picture; the text says why: "is a damaged PNG"."""


def picture_text(png: bytes) -> str:
    """Return the value of a record for a PNG."""
    return PREFIX + base64.b64encode(png).decode()


def grey_png(levels: bytes, width: int) -> bytes:
    """Return a PNG of levels from 0 (black) to 255, row by row."""
    height = len(levels) // width
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = (levels[start : start + width] for start in range(0, len(levels), width))
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))  # 0: rows are not filtered
    chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    checked = kind + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))


def png_of(value: str) -> bytes:
    """Return the PNG of a picture.

    Raises:
        NotAPicture: the value is no address with a PNG.
    """
    if not value.startswith(PREFIX):
        raise NotAPicture(f"does not begin with {PREFIX}")
    try:
        return base64.b64decode(value[len(PREFIX) :].encode(), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise NotAPicture("is not written in base64") from error


def picture_size(value: str) -> PictureSize:
    """Return the size of a picture, all chunks of which are whole.

    Raises:
        NotAPicture: it is damaged, too large, or of another form.
    """
    png = png_of(value)
    if not png.startswith(_SIGNATURE):
        raise NotAPicture("is not a PNG")
    size: PictureSize | None = None
    place, kind, has_pixels = len(_SIGNATURE), b"", False
    while place < len(png) and kind != b"IEND":
        length, kind = int.from_bytes(png[place : place + 4]), png[place + 4 : place + 8]
        end = place + 12 + length
        if end > len(png) or zlib.crc32(png[place + 4 : end - 4]) != _sum_at(png, end):
            raise NotAPicture("is a damaged PNG")
        if size is None:
            size = _size_of(kind, png[place + 8 : end - 4])
        has_pixels = has_pixels or kind == b"IDAT"
        place = end
    if size is None or kind != b"IEND" or place != len(png) or not has_pixels:
        raise NotAPicture("is a damaged PNG")
    return size


def _sum_at(png: bytes, end: int) -> int:
    return int.from_bytes(png[end - 4 : end])


def _size_of(kind: bytes, header: bytes) -> PictureSize:
    """Return the size that the first chunk of a PNG gives."""
    if kind != b"IHDR" or len(header) != 13:
        raise NotAPicture("is a damaged PNG")
    width, height = int.from_bytes(header[:4]), int.from_bytes(header[4:8])
    channels = _CHANNELS.get(header[9])
    if header[8] != 8 or channels is None:
        raise NotAPicture("is a PNG without 8 bits per channel in greyscale or RGB")
    if not (0 < width <= MOST_SIDE and 0 < height <= MOST_SIDE):
        raise NotAPicture(f"has {width:,} × {height:,} pixels, more than {MOST_SIDE:,} per side")
    return PictureSize(channels, height, width)
