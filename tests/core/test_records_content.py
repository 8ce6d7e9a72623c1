"""The canonical content of records: writing, facts, reading."""

import hashlib
from collections.abc import Iterable
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptlab.errors import BadDataset, InvalidSpec
from adaptlab.records.buckets import bucket_of, normalised
from adaptlab.records.content import read_content
from adaptlab.records.facts import RecordsFacts
from adaptlab.records.gathering import Gatherer
from adaptlab.records.record import LONGEST_LINE, Record

REVIEWS = [
    {"text": "Süß & gut", "label": "pos"},
    {"text": "bad", "label": "neg"},
    {"text": "Bad!", "label": "neg"},
    {"text": "bad", "label": "neg"},
    {"text": " ", "label": "neg"},
]
CONTENT = b"".join(
    [
        '{"text":"Süß & gut","label":"pos"}\n'.encode(),
        b'{"text":"bad","label":"neg"}\n',
        b'{"text":"Bad!","label":"neg"}\n',
        b'{"text":"bad","label":"neg"}\n',
        b'{"text":" ","label":"neg"}\n',
    ]
)


def gathered(records: Iterable[Record]) -> tuple[bytes, RecordsFacts]:
    gatherer = Gatherer()
    content = b"".join(gatherer.lines(records))
    return content, gatherer.facts("reviews", gatherer.digest)


def test_content_is_one_object_of_texts_per_line():
    content, facts = gathered(REVIEWS)
    assert content == CONTENT
    assert facts.digest == hashlib.sha256(CONTENT).hexdigest()


def test_facts_are_counted():
    facts = gathered(REVIEWS)[1]
    assert (facts.records, facts.copies, [*facts.names()]) == (5, 1, ["text", "label"])
    text, label = facts.fields
    assert (text.longest, text.empty) == (11, 1)
    assert label.values is not None
    assert [(value.value, value.count) for value in label.values] == [("neg", 4), ("pos", 1)]
    assert {bucket: count for bucket, count in enumerate(text.buckets) if count} == {
        bucket_of("Süß & gut"): 1,
        bucket_of("bad"): 3,
        bucket_of(" "): 1,
    }


@pytest.mark.parametrize("count", [64, 65, 1024, 1025])
def test_values_are_counted_one_by_one_if_they_are_few(count: int):
    records = [{"n": f"value {number % count}"} for number in range(3 * count)]
    facts = gathered(records)[1]
    (field,) = facts.fields
    assert (field.values is None) == (count > 1024)
    assert facts.copies == 2 * count
    expected = [0] * 1000
    for record in records:
        expected[bucket_of(record["n"])] += 1
    assert [*field.buckets] == expected


def test_long_values_are_not_counted_one_by_one():
    assert gathered([{"a": "x" * 256}])[1].fields[0].values is not None
    assert gathered([{"a": "y"}, {"a": "x" * 257}])[1].fields[0].values is None


@pytest.mark.parametrize("at_once", [1, 7])
def test_facts_do_not_depend_on_how_many_records_are_looked_at_once(
    at_once: int, monkeypatch: pytest.MonkeyPatch
):
    texts = ["a 1", "Süß 2", "", " ", '["x", "y"]', "[]", "####", "x" * 257, "x" * 5000, "{}", "12"]
    records = [{"text": f"{n} {n % 90}", "any": texts[n % len(texts)]} for n in range(3000)]
    facts = gathered(records)
    monkeypatch.setattr("adaptlab.records.gathering._RECORDS_AT_ONCE", at_once)
    assert gathered(records) == facts


@given(st.text(st.characters(max_codepoint=127)))
def test_texts_of_ascii_are_normalised_like_others(text: str):
    assert normalised(f"{text} é").removesuffix("é").strip() in ("", normalised(text))


# Limits


def refusal(records: Iterable[Record]) -> str:
    with pytest.raises(InvalidSpec) as caught:
        for _ in Gatherer("/file").lines(records):
            pass
    (problem,) = caught.value.problems
    assert problem.pointer == "/file"
    return f"{problem.code}: {problem.detail}"


def test_records_have_limits(monkeypatch: pytest.MonkeyPatch):
    assert refusal([]).startswith("wrong_number_of_records: There are no records.")
    long = {"a": '"' * (LONGEST_LINE // 2)}
    assert refusal([long]).startswith("line_too_long: Record 1 has 1,048,584 bytes as a line")
    monkeypatch.setattr("adaptlab.records.gathering.MOST_RECORDS", 1000)
    assert refusal(repeat({"a": "b"})).startswith("wrong_number_of_records: There are more than")
    monkeypatch.setattr("adaptlab.records.gathering.MOST_BYTES", 100)
    assert refusal(repeat({"a": "b"})).startswith("too_many_bytes: The first 11 records have")


# Reading content


def records_of(*pieces: bytes) -> list[Record]:
    return list(read_content(pieces, hashlib.sha256(b"".join(pieces)).hexdigest()))


def test_content_comes_back_from_pieces_of_any_size():
    assert records_of(CONTENT) == REVIEWS
    assert records_of(*(bytes([byte]) for byte in CONTENT)) == REVIEWS
    assert [*map(list, records_of(CONTENT))] == [["text", "label"]] * 5


LINE = b'{"a":"x","b":"y"}\n'
FOREIGN = {
    "no end": LINE[:-1],
    "a byte order mark": b"\xef\xbb\xbf" + LINE,
    "blank": LINE + b"\n",
    "no JSON": LINE + b"x\n",
    "not UTF-8": LINE + b'{"a":"\xff","b":"y"}\n',
    "a list": b'["a"]\n',
    "no fields": b"{}\n",
    "a number": b'{"a":1}\n',
    "spaces": LINE.replace(b":", b": "),
    "an escape": LINE.replace(b"x", b"\\u0078"),
    "a surrogate": LINE.replace(b"x", b"\\ud83d"),
    "a field twice": b'{"a":"x","a":"x"}\n',
    "another order": LINE + b'{"b":"y","a":"x"}\n',
    "fewer fields": LINE + b'{"a":"x"}\n',
    "other fields": LINE + b'{"a":"x","c":"y"}\n',
    "depth": b"[" * 100_000 + b"\n",
    "too long": LINE.replace(b"x", b"x" * LONGEST_LINE),
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_only_canonical_content_is_read(content: bytes):
    with pytest.raises(BadDataset, match=r"not canonical: line \d"):
        records_of(content)


def test_content_of_another_digest_is_refused_at_its_end():
    records = read_content([CONTENT], "0" * 64)
    assert [next(records) for _ in REVIEWS] == REVIEWS
    with pytest.raises(BadDataset, match="SHA-256"):
        next(records)
