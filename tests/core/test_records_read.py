"""Records from CSV, TSV and JSON lines, and refusals of bad files."""

from collections.abc import Iterator

import pytest

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.checking import checked_records
from adaptlab.records.file_forms import FileForm as Form
from adaptlab.records.reading import read_records, read_with_lines
from adaptlab.records.record import LONGEST_LINE, MOST_FIELDS


def read(form: Form, *pieces: bytes) -> list[dict[str, str]]:
    return [dict(record) for record in read_records(pieces, form)]


def problems(form: Form, *pieces: bytes) -> dict[str, Problem]:
    with pytest.raises(InvalidSpec) as caught:
        read(form, *pieces)
    assert len(caught.value.problems) <= 10
    return {problem.code: problem for problem in caught.value.problems}


def detail(form: Form, content: bytes) -> str:
    (problem,) = problems(form, content).values()
    assert problem.pointer == "/upload"
    return f"{problem.code}: {problem.detail}"


# What is read

TABLE = [{"text": "good film", "label": "pos"}, {"text": "bad", "label": "neg"}]
FILES: dict[str, tuple[Form, bytes]] = {
    "csv": ("csv", b"text,label\ngood film,pos\nbad,neg\n"),
    "csv of Windows": ("csv", b'\xef\xbb\xbf"text",label\r\n"good film",pos\r\nbad,neg\r\n'),
    "csv without an end": ("csv", b"text,label\n\n  \ngood film,pos\nbad,neg"),
    "tsv": ("tsv", b"text\tlabel\r\ngood film\tpos\r\nbad\tneg"),
    "jsonl": ("jsonl", b'{"text":"good film","label":"pos"}\n{"label":"neg","text":"bad"}\n'),
    "jsonl of Windows": (
        "jsonl",
        b'\xef\xbb\xbf{"text":"good film","label":"pos"}\r\n \t\r\n{"text":"bad","label":"neg"}',
    ),
}


@pytest.mark.parametrize(("form", "content"), FILES.values(), ids=FILES)
def test_files_of_all_forms_have_the_same_records(form: Form, content: bytes):
    assert read(form, content) == TABLE
    assert read(form, *(bytes([byte]) for byte in content)) == TABLE
    assert [[*record] for record in read_records([content], form)] == [["text", "label"]] * 2


def test_values_of_csv_have_commas_quotes_and_line_feeds_in_quotes():
    content = b'text,label\n"a, ""b""\r\nc\n\nd",x\ne"f,\n'
    assert read("csv", content) == [
        {"text": 'a, "b"\r\nc\n\nd', "label": "x"},
        {"text": 'e"f', "label": ""},
    ]
    assert [line for line, _ in read_with_lines([content], "csv")] == [2, 6]


def test_columns_without_a_name_are_named_by_their_place():
    """Tables of pandas begin with an index; some rows end with a comma."""
    (record,) = read_records([b",text,label,\n0,a,b,\n"], "csv")
    assert record == {"column 1": "0", "text": "a", "label": "b", "column 4": ""}


def test_a_quote_of_tsv_is_a_character():
    assert read("tsv", b'a\tb\n"x\t y"\n') == [{"a": '"x', "b": ' y"'}]


def test_scalars_of_json_become_the_text_with_which_they_are_written():
    content = b'{"a": 1, "b": true, "c": 1.50, "d": -1e400, "e": "\\ud83d\\ude00", "f": false}'
    (record,) = read("jsonl", content)
    assert [*record.values()] == ["1", "true", "1.50", "-1e400", "😀", "false"]


def test_nulls_and_missing_keys_are_empty_and_objects_are_json():
    """As Parquet is read: published files have optional and nested values."""
    lines = b'{"a":"x","b":{"id":3,"l":[null]}}\n{"a":null,"b":[{"c":"\\u00e9"},["d"]]}\n{"b":""}'
    assert read("jsonl", lines) == [
        {"a": "x", "b": '{"id": "3", "l": [null]}'},
        {"a": "", "b": '[{"c": "é"}, ["d"]]'},
        {"a": "", "b": ""},
    ]


def test_a_value_may_be_nearly_as_long_as_a_line():
    long = "x" * (LONGEST_LINE - 10)
    assert read("csv", f"a\n{long}\n".encode()) == [{"a": long}]
    assert read("jsonl", b'{"a":"%s"}' % long[:-10].encode()) == [{"a": long[:-10]}]


LISTED = (
    '\ufeff [{"a": "é,]}\\"\\\\", "b": 1},\r\n\n{\n "a": "[", "b": true} , {"a":"","b":2.50}]\n'
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_one_list_of_objects_is_read_wherever_it_is_cut(size: int):
    content = LISTED.encode()
    pieces = [content[place : place + size] for place in range(0, len(content), size)]
    assert [*read_with_lines(pieces, "jsonl")] == [
        (1, {"a": 'é,]}"\\', "b": "1"}),
        (3, {"a": "[", "b": "true"}),
        (4, {"a": "", "b": "2.50"}),
    ]


def test_an_object_of_a_list_is_as_long_as_a_line_at_most():
    pieces = [b'[{"a":"', *[b"x" * 2**18] * 6, b'"}]']
    found = problems("jsonl", b"".join(pieces))
    assert [*found] == ["line_too_long"]


# What is wrong, and where

WRONG: dict[str, tuple[Form, bytes, str]] = {
    "empty csv": ("csv", b"", "no_records: Line 1: the file is empty."),
    "blank csv": ("csv", b"\n \n", "no_records: Line 1: the file is empty."),
    "header only": ("csv", b"text,label\n", "no_records: Line 1: only the names of the fields"),
    "empty jsonl": ("jsonl", b"\xef\xbb\xbf\n", "no_records: Line 1: the file is empty."),
    "few columns": ("csv", b'a,b\n"1\n",2\n\n3\n', "missing_field: Line 5: the number of columns"),
    "many columns": ("csv", b"a,b\n1,2\n1,2,3\n", "unknown_field: Line 3: the number of columns"),
    "few tabs": ("tsv", b"a\tb\n1 2\n", "missing_field: Line 2: the number of columns is 1"),
    "another delimiter": ("csv", b"a;b\n1;2\n", "wrong_delimiter: Line 1: the only column is"),
    "a name twice": ("csv", b"a,b,a\n1,2,3\n", "field_twice: Line 1: the field 'a' occurs twice."),
    "no name": ("jsonl", b'{"": "1", "a": "2"}', "bad_field_name: Line 1: field 1 has no name."),
    "a space": ("csv", b"a, b\n1,2\n", "bad_field_name: Line 1: the name of field 2, ' b', cannot"),
    "a brace": ("jsonl", b'{"a{":1}', "bad_field_name: Line 1: the name of field 1, 'a{', cannot"),
    "open quote": ("csv", b'a,b\n1,2\n"3,4\n5,6\n', "not_csv: Line 3: a quote is opened here and"),
    "after a quote": ("csv", b'a,b\n"1"x,2\n3,4\n', "not_csv: Line 2: a closing quote is followed"),
    "a return": ("csv", b"a,b\n1\r1,2\n", "not_csv: Line 2: a carriage return is inside of a row"),
    "Latin-1": ("csv", b'a\n"\n\xc3\xa9\xe9"\n', "not_utf8: Line 3, column 2: the byte 0xe9 is"),
    "UTF-16": ("csv", "a\nb\n".encode("utf-16"), "nul_character: Line 1, column 4: there is a NUL"),
    "NUL": ("tsv", b"a\n1\nx\0\n", "nul_character: Line 3, column 2: there is a NUL byte."),
    "an escaped NUL": ("jsonl", b'{"a":"\\u0000"}', "nul_character: Line 1: the value of 'a' has"),
    "a surrogate": ("jsonl", b'{"a":"\\ud83d"}', "lone_surrogate: Line 1: the value of 'a' has"),
    "NaN": ("jsonl", b'{"a":NaN}', "not_json: Line 1: NaN is not JSON."),
    "broken JSON": ("jsonl", b'\n{"a":}\n', "not_json: Line 2, column 6: the line is not JSON"),
    "lists in lines": ("jsonl", b'["a"]\n["b"]', "not_an_object: Line 1: a member of the"),
    "a list behind": ("jsonl", b'{"a":1}\n[1]', "not_an_object: Line 2: the line is a list, not"),
    "an open list": ("jsonl", b'[\n{"a":1},\n{"a":2}\n', "not_json: Line 4: the list is not"),
    "half an object": ("jsonl", b'[{"a":1},\n{"a":"2', "not_json: Line 2: the list is not JSON"),
    "a comma more": ("jsonl", b'[{"a":1},\n]', "not_an_object: Line 2: a member of the list"),
    "no comma": ("jsonl", b'[{"a":1}\n{"a":2}]', "not_json: Line 2: the list has '{' instead of"),
    "behind a list": ("jsonl", b'[{"a":1}]\n{"a":2}', "not_json: Line 2: there is text behind the"),
    "broken in a list": ("jsonl", b'[\n{"a":1},\n{"a":}\n]', "not_json: Line 3: the list is not"),
    "NaN in a list": ("jsonl", b'[{"a":1},\n{"a":NaN}]', "not_json: Line 2: NaN is not JSON."),
    "twice in a list": ("jsonl", b'[\n{"a":1,"a":2}]', "field_twice: Line 2: the field 'a' occurs"),
    "Latin-1 in a list": ("jsonl", b'[{"a":"\n\xe9"}]', "not_utf8: Line 1: the byte 0xe9 is"),
    "NUL in a list": ("jsonl", b'[{"a":"\0"}]', "nul_character: Line 1: there is a NUL"),
    "an empty list": ("jsonl", b"[ ]", "no_records: Line 1: the file is empty."),
    "a number": ("jsonl", b"3\n", "not_an_object: Line 1: the line is a single value, not an"),
    "depth": ("jsonl", b'{"a":' * 100_000, "not_json: Line 1: the line is nested too deeply."),
    "depth in a list": ("jsonl", b"[" + b'{"a":' * 100_000, "not_json: Line 1: the object is"),
    "key twice": ("jsonl", b'{"a":1,"a":2}', "field_twice: Line 1: the field 'a' occurs twice."),
    "no fields": ("jsonl", b"{}\n{}", "no_fields: Line 1: there are no fields; 1 more line has"),
    "all keys missing": ("jsonl", b'{"a":1,"b":2}\n{}', "missing_field: Line 2: the record has no"),
    "a surrogate deep": ("jsonl", b'{"a":{"b":"\\ud83d"}}', "lone_surrogate: Line 1: the value of"),
    "key unknown": ("jsonl", b'{"a":1}\n{"a":1,"b":2}', "unknown_field: Line 2: 'b' is not in the"),
}  # fmt: skip


@pytest.mark.parametrize(("form", "content", "expected"), WRONG.values(), ids=WRONG)
def test_a_file_is_refused_with_line_and_reason(form: Form, content: bytes, expected: str):
    assert detail(form, content).startswith(expected)


def test_there_are_at_most_32_fields():
    names = ",".join(f"f{number}" for number in range(MOST_FIELDS + 1))
    assert "there are 33 fields, more than 32" in detail("csv", f"{names}\n".encode())


def test_problems_of_one_kind_are_one_problem():
    lines = [b'{"a":1}', b'{"a":}', b'{"a":2}', b'{"b":1}', b'{"b":}', b'{"a"}', b'{"c":1}']
    found = problems("jsonl", b"\n".join(lines))
    assert [*found] == ["not_json", "unknown_field"]
    assert found["not_json"].detail == (
        "Line 2, column 6: the line is not JSON (Expecting value); 2 more lines have the same "
        "problem. Write one JSON object per line."
    )
    assert found["not_json"].column == 6
    assert "; 1 more line has the same problem." in found["unknown_field"].detail


def test_no_record_behind_a_problem_is_given():
    records = read_records([b'{"a":1}\n{}\n{"a":2}\n'], "jsonl", "/file")
    assert next(records) == {"a": "1"}
    with pytest.raises(InvalidSpec) as caught:
        next(records)
    assert caught.value.problems[0].pointer == "/file"


def test_reading_stops_after_ten_thousand_lines_with_a_problem():
    read_pieces: list[int] = []

    def pieces() -> Iterator[bytes]:
        for number in range(100):
            read_pieces.append(number)
            yield b"{}\n" * 1000

    assert (
        "; at least 9,999 more lines have"
        in problems("jsonl", *[b"{}\n" * 20_000])["no_fields"].detail
    )
    with pytest.raises(InvalidSpec):
        list(read_records(pieces(), "jsonl"))
    assert len(read_pieces) == 10


# Lines without an end

ENDLESS: dict[str, tuple[Form, bytes, bytes, str]] = {
    "jsonl": ("jsonl", b'{"a":1}\n{"a":"', b"x", "line_too_long: Line 2: the line has more than"),
    "csv": ("csv", b"a\n", b"x", "line_too_long: Line 2: the line has more than 1,048,576 bytes"),
    "header": ("tsv", b"", b"x", "line_too_long: Line 1: the line has more than 1,048,576 bytes"),
    "open quote": ("csv", b'a\n1\n"', b"x,y\n", "line_too_long: Line 3: the row that begins here"),
}


@pytest.mark.parametrize(("form", "start", "more", "expected"), ENDLESS.values(), ids=ENDLESS)
def test_a_line_without_an_end_is_not_read_to_its_end(
    form: Form, start: bytes, more: bytes, expected: str
):
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        yield start
        while sent < 10 * 2**30:
            sent += 2**16
            yield more * (2**16 // len(more))

    with pytest.raises(InvalidSpec) as caught:
        list(read_records(pieces(), form))
    (problem,) = caught.value.problems
    assert f"{problem.code}: {problem.detail}".startswith(expected)
    assert sent <= LONGEST_LINE + 2**17


def test_blank_lines_are_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("adaptlab.records.lines.MOST_RECORDS", 5)
    assert read("csv", b"\na\n\n\n\n1\n\n") == [{"a": "1"}]
    assert "more than 5 lines are blank" in detail("csv", b"a\n1\n" + b"\n" * 6)


# Records that come as values


def test_values_are_checked_like_those_of_files():
    values: list[dict[str, object]] = [{"a": "x", "b": 1}, {"b": True, "a": 0.5}]
    assert [*checked_records(values)] == [{"a": "x", "b": "1"}, {"a": "0.5", "b": "true"}]
    wrong: list[dict[str, object]] = [
        {"a": 1}, {"a": float("inf")}, {"a": 10**2000}, {"a": b"x"}, {"a": {"x": b"x"}}, {"b": 1}
    ]  # fmt: skip
    with pytest.raises(InvalidSpec) as caught:
        list(checked_records(wrong))
    assert [problem.detail.partition(".")[0] for problem in caught.value.problems] == [
        "Record 2: the value of 'a' is a number that is too large or not finite; 3 more records "
        "have the same problem",
        "Record 6: 'b' is not in the first record",
    ]
