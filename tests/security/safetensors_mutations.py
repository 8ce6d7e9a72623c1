"""Safetensors files that are wrong or hostile, made from a sound one.

Written without the library, which would not write most of them.
"""

import json
import struct
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

Header = dict[str, Any]
Mutation = Callable[[Random, bytes], bytes]

ODD_NUMBERS: tuple[Any, ...] = (
    *(-1, 0, 1, 2**31, 2**32, 2**62, 2**63, 2**64, 10**40),
    *(1.5, 1e300, True, None, "4", [], {}, [[4]]),
)
ODD_NAMES = ("", "\x00", "a\nb", "../../etc/passwd", "\u202e", "\ud800", "é" * 300, "x" * 5000)
ODD_TYPES: tuple[Any, ...] = ("F8_E4M3", "F4", "C64", "U64", "I32", "BOOL", "f32", "", None, 4, [])


def file_of(header: Mapping[str, Any] | bytes, numbers: bytes) -> bytes:
    """A file with this header, which may be anything, and these numbers."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + numbers


def parts_of(content: bytes) -> tuple[Header, bytes]:
    """The header and the numbers of a sound file."""
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def bomb(tensors: int) -> bytes:
    """A header that names so many empty tensors, about 50 bytes each."""
    one = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    names = ",".join(f'"{number:x}":{one}' for number in range(tensors))
    return file_of(f"{{{names}}}".encode(), b"")


def _truncated(random: Random, content: bytes) -> bytes:
    return content[: random.randrange(len(content))]


def _lengthened(random: Random, content: bytes) -> bytes:
    return content + random.randbytes(random.choice((1, 7, 8, 4096)))


def _flipped(random: Random, content: bytes) -> bytes:
    changed = bytearray(content)
    header = 8 + struct.unpack("<Q", content[:8])[0]
    for _ in range(random.choice((1, 1, 2, 8, 64))):
        until = random.choice((8, header, len(changed)))
        changed[random.randrange(until)] ^= 1 << random.randrange(8)
    return bytes(changed)


def _length_changed(random: Random, content: bytes) -> bytes:
    (length,) = struct.unpack("<Q", content[:8])
    near = (length - 1, length + 1, length + 8, 0, 1, 2, len(content), len(content) - 8)
    far = (2**20, 2**20 + 1, 10**8, 2**31, 2**32, 2**53, 2**63, 2**64 - 1)
    return struct.pack("<Q", random.choice(near + far)) + content[8:]


def _tensor_changed(random: Random, content: bytes) -> bytes:
    header, numbers = parts_of(content)
    name = random.choice([name for name in header if name != "__metadata__"])
    tensor = header[name]
    match random.randrange(8):
        case 0:
            tensor["dtype"] = random.choice(ODD_TYPES)
        case 1:
            tensor["shape"] = random.choice(ODD_NUMBERS)
        case 2:
            tensor["shape"] = [random.choice(ODD_NUMBERS) for _ in range(random.randrange(12))]
        case 3:
            tensor["shape"] = [2 ** random.randrange(70)] * random.randrange(12)
        case 4:
            tensor["data_offsets"][random.randrange(2)] = random.choice(ODD_NUMBERS)
        case 5:
            move = random.choice((-8, -4, -1, 1, 4, 8, 2**62))
            tensor["data_offsets"] = [place + move for place in tensor["data_offsets"]]
        case 6:
            tensor.pop(random.choice(list(tensor)))
        case _:
            header[name] = random.choice(ODD_NUMBERS)
    return file_of(header, numbers)


def _tensors_confused(random: Random, content: bytes) -> bytes:
    """Overlaps, gaps, doubles, and names that are none."""
    header, numbers = parts_of(content)
    names = [name for name in header if name != "__metadata__"]
    one, other = random.sample(names, 2) if len(names) > 1 else names * 2
    match random.randrange(6):
        case 0:
            header[one]["data_offsets"] = header[other]["data_offsets"]
        case 1:
            header.pop(one)
        case 2:
            header[random.choice(ODD_NAMES)] = header.pop(one)
        case 3:
            header["more"] = header[one]
        case 4:
            twice = json.dumps(header).encode()
            return file_of(twice[:-1] + b"," + twice[1:], numbers)
        case _:
            header["__metadata__"] = random.choice(
                ([], "x", {"a": 1}, {"a": None}, {"a": "b"}, None)
            )
    return file_of(header, numbers)


def _no_json(random: Random, content: bytes) -> bytes:
    _, numbers = parts_of(content)
    texts = (
        *(b"", b"{", b"[]", b"null", b"NaN", b'{"a":NaN}', b'{"a":1e999}', b"\xff\xfe{}"),
        *(b"{" + b'"a":{' * 100_000, b"[" * 500_000, b'{"a":' + b"9" * 100_000 + b"}"),
        *(b'{"a":{"dtype":"F32","shape":[' + b"1," * 200_000 + b'1],"data_offsets":[0,4]}}',),
        random.randbytes(random.randrange(1, 2000)),
        b"{}" + b" " * 2**20,
    )
    return file_of(random.choice(texts), numbers)


def _not_finite(random: Random, content: bytes) -> bytes:
    header, numbers = parts_of(content)
    changed = bytearray(numbers)
    for _ in range(random.choice((1, 4))):
        place = 4 * random.randrange(len(changed) // 4)
        worst = random.choice((float("nan"), float("inf"), -float("inf")))
        changed[place : place + 4] = struct.pack("<f", worst)
    return file_of(header, bytes(changed))


def _bombed(random: Random, content: bytes) -> bytes:
    return random.choice(BOMBS)


BOMBS = (bomb(9_000), bomb(11_000), bomb(18_000), bomb(40_000))
"""Below both limits, above the number of tensors, and above the size of a header."""
MUTATIONS: tuple[Mutation, ...] = (
    *(_truncated, _lengthened, _flipped, _flipped, _length_changed, _tensor_changed),
    *(_tensor_changed, _tensor_changed, _tensors_confused, _no_json, _not_finite),
)


def mutated(random: Random, content: bytes) -> bytes:
    """A sound file after one mutation, seldom after several or after none."""
    if random.random() < 0.01:
        return _bombed(random, content)
    if random.random() < 0.02:
        return content
    return random.choice(MUTATIONS)(random, content)
