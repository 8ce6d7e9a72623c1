"""Headers of safetensors files, written here by hand.

Tests cover what is read, and what is refused and why.
"""

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.security.safetensors_mutations import bomb, file_of

from adaptlab.errors import BadWeightsFile
from adaptlab.weights.weights_file import LARGEST_HEADER, MOST_TENSORS, StoredTensor, read_header


def tensor(shape: Any, start: Any, stop: Any, dtype: Any = "F32", **more: object) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop], **more}


def test_what_the_library_writes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    arrays = {"b": np.zeros((2, 3), np.float64), "a": np.ones(5, np.float16), "none": np.zeros(0)}
    save_file(arrays, path, {"kind": "test"})
    found = read_header(path)
    assert found.metadata == {"kind": "test"}
    assert {(t.name, t.dtype, t.shape) for t in found.tensors} == {
        ("b", "F64", (2, 3)),
        ("a", "F16", (5,)),
        ("none", "F64", (0,)),
    }
    content = path.read_bytes()
    assert content.startswith(found.header)
    for stored in found.tensors:
        assert content[stored.start : stored.stop] == arrays[stored.name].tobytes()


def test_tensors_may_stand_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(file_of({"b": tensor([1], 4, 8), "a": tensor([], 0, 4)}, bytes(8)))
    begin = len(read_header(path).header)
    assert read_header(path).tensors == (
        StoredTensor(path, "b", "F32", (1,), begin + 4, begin + 8),
        StoredTensor(path, "a", "F32", (), begin, begin + 4),
    )


ONE = {"a": tensor([2], 0, 8)}
TWICE = json.dumps(ONE)[:-1].encode() + b',"a":' + json.dumps(ONE["a"]).encode() + b"}"
BAD: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "it has 0 bytes"),
    "no header": (file_of(b"", b""), "not JSON"),
    "a header cut off": (file_of(ONE, b"")[:-5], "ends after"),
    "a long header": (
        (LARGEST_HEADER + 1).to_bytes(8, "little") + b"{}",
        f"limit of {LARGEST_HEADER}",
    ),
    "a length beyond all": (b"\xff" * 8 + b"{}", "18446744073709551615 bytes"),
    "no object": (file_of(b"[]", b""), "not a JSON object"),
    "not UTF-8": (file_of(b'{"\xff":1}', b""), "not JSON"),
    "NaN": (file_of(b'{"a":NaN}', b""), "NaN is not a number"),
    "too deep": (file_of(b"[" * 100_000, b""), "not JSON"),
    "too many digits": (file_of(b'{"a":' + b"9" * 5000 + b"}", b""), "not JSON"),
    "a name twice": (file_of(TWICE, bytes(8)), "occurs twice"),
    "a member twice": (file_of(b'{"a":{"dtype":"F32","dtype":"F32"}}', b""), "occurs twice"),
    "too many": (bomb(MOST_TENSORS + 1), f"has {MOST_TENSORS + 1:,} tensors"),
    "metadata that is no text": (
        file_of({"__metadata__": {"a": 1}}, b""),
        "not an object of texts",
    ),
    "metadata that is a list": (file_of({"__metadata__": []}, b""), "not an object of texts"),
    "an empty name": (file_of({"": ONE["a"]}, bytes(8)), "is not a name of"),
    "a name with a control": (file_of({"a\n": ONE["a"]}, bytes(8)), "is not a name of"),
    "half a letter": (file_of({"\ud800": ONE["a"]}, bytes(8)), "is not a name of"),
    "a long name": (file_of({"a" * 257: ONE["a"]}, bytes(8)), "is not a name of"),
    "a tensor that is none": (file_of({"a": 3}, b""), "a must have the members"),
    "a member more": (file_of({"a": tensor([2], 0, 8, x=1)}, bytes(8)), "a must have the members"),
    "an unknown type": (file_of({"a": tensor([2], 0, 8, "F8_E4M3")}, bytes(8)), "'F8_E4M3'"),
    "a type that is none": (file_of({"a": tensor([2], 0, 8, ["F32"])}, bytes(8)), "has the type"),
    "a negative axis": (file_of({"a": tensor([-2], 0, 8)}, bytes(8)), "the shape of a"),
    "a broken axis": (file_of({"a": tensor([2.0], 0, 8)}, bytes(8)), "the shape of a"),
    "a true axis": (file_of({"a": tensor([True, 2], 0, 8)}, bytes(8)), "the shape of a"),
    "many axes": (file_of({"a": tensor([1] * 9, 0, 4)}, bytes(4)), "the shape of a"),
    "three offsets": (
        file_of({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4, 8]}}, bytes(8)),
        "the data_offsets of a",
    ),
    # 2^32 · 2^32 is 0 in 64 bits, and 2^62 · 4 is as well.
    "an overflow": (
        file_of({"a": tensor([2**32, 2**32], 0, 0)}, b""),
        "needs 73786976294838206464",
    ),
    "an overflow by the type": (
        file_of({"a": tensor([2**62], 0, 0)}, b""),
        "needs 1844674407370955",
    ),
    "another size": (file_of({"a": tensor([2], 0, 4)}, bytes(4)), "needs 8 bytes"),
    "backwards": (file_of({"a": tensor([2], 8, 0)}, bytes(8)), "needs 8 bytes"),
    "an overlap": (
        file_of({"a": tensor([2], 0, 8), "b": tensor([1], 4, 8)}, bytes(8)),
        "overlaps the bytes before it",
    ),
    "the same twice": (file_of({"a": ONE["a"], "b": ONE["a"]}, bytes(8)), "overlaps"),
    "a gap": (file_of({"a": tensor([1], 4, 8)}, bytes(8)), "leaves a gap"),
    "bytes beyond": (file_of(ONE, bytes(9)), "but the file has"),
    "bytes too few": (file_of(ONE, bytes(7)), "but the file has"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_header_is_refused_with_the_file_and_the_fault(tmp_path: Path, fault: str) -> None:
    content, told = BAD[fault]
    path = tmp_path / "some.safetensors"
    path.write_bytes(content)
    with pytest.raises(BadWeightsFile) as refused:
        read_header(path)
    message = str(refused.value)
    assert message.startswith("some.safetensors is not a whole safetensors file: ")
    assert told in message
    assert len(message) < 500


@contextmanager
def in_little_memory() -> Iterator[None]:
    """Check that little memory is used.

    What is read or made of a file is held, if only for a moment: that takes time as well.
    """
    tracemalloc.start()
    try:
        yield
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < LARGEST_HEADER


def test_a_header_bomb_costs_nothing(tmp_path: Path) -> None:
    """A tenth of the one that cost the library 11.5 s and 2.4 GiB."""
    path = tmp_path / "bomb"
    path.write_bytes(bomb(100_000))
    with in_little_memory(), pytest.raises(BadWeightsFile, match="more than the limit of 1048576"):
        read_header(path)


def test_of_a_large_file_only_the_header_is_read(tmp_path: Path) -> None:
    size = 2**36  # 64 GiB of which the disk holds one page
    content = file_of({"a": tensor([size // 4], 0, size)}, b"")
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.write(content)
        file.truncate(len(content) + size)
    with in_little_memory():
        assert read_header(path).tensors[0].shape == (size // 4,)
