"""Encodings and delimiters that are found, and those that are not sure."""

import zipfile
from pathlib import Path

import pytest

from adaptlab.errors import InvalidSpec
from adaptlab.records import workbooks
from adaptlab.records.file_forms import FileForm
from adaptlab.records.file_reading import Reading, ReadingOptions
from adaptlab.records.reading import (
    found_reading,
    read_records,
    reading_of_file,
    records_of,
)
from adaptlab.records.workbooks import sheet_of

FRENCH = "text;label\nC’est très bien, ça;oui\nPas génial…;non\nUn été « chaud »;oui\n"
FIRST = {"text": "C’est très bien, ça", "label": "oui"}
GERMAN = "text;label\nschöner Film für alle, größer;gut\nübel;schlecht\n"
OLD = "text,label\r" + "good,pos\rbad,neg\r" * 3


def reading_of(content: bytes, form: FileForm = "csv", **options: object) -> Reading:
    size = max(7, len(content) // 10_000 | 1)  # odd, so that characters are cut
    pieces = [content[place : place + size] for place in range(0, len(content), size)]
    return found_reading(lambda: pieces, form, ReadingOptions.model_validate(options))


def first_of(content: bytes, form: FileForm = "csv", **options: object) -> dict[str, str]:
    return dict(next(read_records([content], reading_of(content, form, **options))))


FOUND: dict[str, tuple[bytes, str, str | None, dict[str, str]]] = {
    "semicolons": (FRENCH.encode(), "utf-8", "semicolon", FIRST),
    "a mark": (FRENCH.encode("utf-8-sig"), "utf-8", "semicolon", FIRST),
    "Windows": (FRENCH.encode("cp1252"), "cp1252", "semicolon", FIRST),
    "Windows, only at the end": (
        b"text,label\n" + b"plain,a\n" * 200_000 + "café,b\n".encode("cp1252"),
        "cp1252", "comma", {"text": "plain", "label": "a"},
    ),
    "UTF-16": (FRENCH.encode("utf-16"), "utf-16-le", "semicolon", FIRST),
    "UTF-16 without a mark": (FRENCH.encode("utf-16-le"), "utf-16-le", "semicolon", FIRST),
    "UTF-16, big end first": (FRENCH.encode("utf-16-be"), "utf-16-be", "semicolon", FIRST),
    "UTF-16 of Chinese": (
        ("text,label\n" + "电影很好看，推荐上映,正面\n太差了,负面\n" * 9).encode("utf-16-le"),
        "utf-16-le", "comma", {"text": "电影很好看，推荐上映", "label": "正面"},
    ),
    "tabs beside commas": (
        b"text\tlabel\nwell, one, two\tpos\nno\tneg\n",
        "utf-8", "tab", {"text": "well, one, two", "label": "pos"},
    ),
    "bars": (b"text|label\na,b|x\n", "utf-8", "bar", {"text": "a,b", "label": "x"}),
    "semicolons in quotes": (
        b'text,label\n"a; b; c",x\n"d; e",y\n',
        "utf-8", "comma", {"text": "a; b; c", "label": "x"},
    ),
    "decimal commas": (
        b"id;price\n1;1.234,56\n2;2,5\n", "utf-8", "semicolon", {"id": "1", "price": "1.234,56"}
    ),
    "a line for Excel": (
        b"\xef\xbb\xbfsep=;\r\ntext;label\r\na, b;x\r\n",
        "utf-8", "semicolon", {"text": "a, b", "label": "x"},
    ),
    "old line ends": (OLD.encode(), "utf-8", "comma", {"text": "good", "label": "pos"}),
    "one column": (b"text\nhello\nworld\n", "utf-8", "comma", {"text": "hello"}),
}  # fmt: skip


@pytest.mark.parametrize(("content", "encoding", "delimiter", "first"), FOUND.values(), ids=FOUND)
def test_encoding_and_delimiter_are_found(
    content: bytes, encoding: str, delimiter: str, first: dict[str, str]
):
    found = reading_of(content)
    assert (found.encoding, found.delimiter) == (encoding, delimiter)
    assert first_of(content) == first
    cut = (content[place : place + 1] for place in range(min(len(content), 400)))
    assert next(read_records(cut, found)) == first


UNSURE: dict[str, tuple[bytes, str]] = {
    "Cyrillic": (("text;label\n" + "Отличный фильм;да\n" * 9).encode("cp1251"), "unknown_encoding"),
    "a few Cyrillic words": (
        ("text;label\n" + "a very good film indeed;хорошо\n" * 9).encode("cp1251"),
        "unknown_encoding",
    ),
    "Japanese": (("text\n" + "とても良い映画\n" * 9).encode("shift_jis"), "unknown_encoding"),
    "Chinese": (("text\n" + "电影很好看\n" * 9).encode("gbk"), "unknown_encoding"),
    "Polish": (("text\n" + "Świetny film, podobał się\n" * 9).encode("cp1250"), "unknown_encoding"),
    "Turkish": (("text\n" + "çok ağır işçilik, sıkıcı\n" * 9).encode("cp1254"), "unknown_encoding"),
    "an old Mac": (GERMAN.encode("mac-roman"), "unknown_encoding"),
    "MS-DOS": (GERMAN.encode("cp850"), "unknown_encoding"),
    "damaged UTF-8": (GERMAN.encode() + b"caf\xe9;gut\n", "not_utf8"),
    "NUL": (b"text,label\na\0\nb,x\nc,y\n", "nul_character"),
    "two delimiters": (b"a;b,c\n1;2,3\n4;5,6\n", "several_delimiters"),
    "no names of all columns": (b"text\ngood,pos\nbad,neg\n", "unknown_field"),
    "a swallowed quote": (b'text\tlabel\n"a\tx\nb\ty\n"c\tx\n', "not_csv"),
    "a workbook": (b"PK\x03\x04\x14\x00", "wrong_form"),
    "gzip": (b"\x1f\x8b\x08", "wrong_form"),
    "a pickle": (b"\x80\x04\x95\x01", "wrong_form"),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\n", "wrong_form"),
    "a page": (b"\n<!DOCTYPE HTML><title>Sign in</title>", "wrong_form"),
}


@pytest.mark.parametrize(("content", "code"), UNSURE.values(), ids=UNSURE)
def test_what_is_not_sure_is_refused_and_not_guessed(content: bytes, code: str):
    with pytest.raises(InvalidSpec) as caught:
        list(read_records([content], reading_of(content)))
    assert caught.value.problems[0].code == code


def test_what_is_said_is_not_guessed():
    russian = ("text;label\n" + "Отличный фильм;да\n" * 9).encode("cp1251")
    assert first_of(russian, encoding="cp1251") == {"text": "Отличный фильм", "label": "да"}
    both = b"a;b,c\n1;2,3\n"
    assert first_of(both, delimiter=";") == {"a": "1", "b,c": "2,3"}
    assert first_of(both, delimiter="comma") == {"a;b": "1;2", "c": "3"}
    assert first_of('{"a":"é"}'.encode("utf-16"), "jsonl") == {"a": "é"}


# Workbooks

OFFICE = "http://schemas.openxmlformats.org"


def a_workbook(path: Path, cells: str, *, more: bytes = b"") -> Path:
    """A workbook with a hidden and a visible sheet."""
    sheets = [("Notes", ' state="hidden"'), ("Tickets", "")]
    named = (
        f'<sheet name="{name}" sheetId="{number}"{more} r:id="r{number}"/>'
        for number, (name, more) in enumerate(sheets, 1)
    )
    related = (
        f'<Relationship Id="r{number}" Type="{OFFICE}/officeDocument/2006/relationships/worksheet" '
        f'Target="worksheets/sheet{number}.xml"/>'
        for number in (1, 2)
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{OFFICE}/package/2006/content-types"/>',
        "_rels/.rels": (
            f'<Relationships xmlns="{OFFICE}/package/2006/relationships"><Relationship Id="r0" '
            f'Type="{OFFICE}/officeDocument/2006/relationships/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>'
        ),
        "xl/workbook.xml": (
            f'<workbook xmlns="{OFFICE}/spreadsheetml/2006/main" '
            f'xmlns:r="{OFFICE}/officeDocument/2006/relationships"><sheets>'
            f"{''.join(named)}</sheets></workbook>"
        ),
        "xl/_rels/workbook.xml.rels": (
            f'<Relationships xmlns="{OFFICE}/package/2006/relationships">'
            f"{''.join(related)}</Relationships>"
        ),
        "xl/worksheets/sheet1.xml": _sheet('<row r="1"><c r="A1"><v>7</v></c></row>'),
        "xl/worksheets/sheet2.xml": _sheet(cells),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
        if more:
            archive.writestr("xl/media/more.bin", more)
    return path


def _sheet(rows: str) -> str:
    return (
        f'<worksheet xmlns="{OFFICE}/spreadsheetml/2006/main"><sheetData>'
        f"{rows}</sheetData></worksheet>"
    )


def _text(place: str, text: str) -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


TICKETS = (
    f'<row r="1">{_text("A1", "text")}{_text("B1", "label")}</row>'
    f'<row r="3">{_text("A3", "é, late")}<c r="B3"><v>2</v></c></row>'
    f'<row r="4">{_text("A4", "broken")}<c r="B4"><f>1+1</f><v>3</v></c></row>'
)


def test_the_first_visible_sheet_of_a_workbook_is_read(tmp_path: Path):
    book = a_workbook(tmp_path / "tickets.xlsx", TICKETS)
    reading = reading_of_file(book, "xlsx", ReadingOptions())
    assert (reading.title, sheet_of(book)) == ("Excel, sheet 'Tickets'", "Tickets")
    assert [*records_of(book, reading)] == [
        (3, {"text": "é, late", "label": "2"}),
        (4, {"text": "broken", "label": "3"}),
    ]


BOOKS: dict[str, tuple[str, str]] = {
    "far away": (f'{TICKETS}<row r="1048576">{_text("XFD1048576", "x")}</row>', "too_many_cells"),
    "large": (TICKETS, "too_many_bytes"),
    "cut": (TICKETS, "not_xlsx"),
    "text": (TICKETS, "not_xlsx"),
    "an archive that lies": (TICKETS, "not_xlsx"),
}


@pytest.mark.parametrize("what", BOOKS)
def test_workbooks_are_bounded(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cells, code = BOOKS[what]
    book = a_workbook(tmp_path / "x.xlsx", cells, more=b"0" * 10_000)
    content = book.read_bytes()
    if what == "large":
        monkeypatch.setattr(workbooks, "MOST_UNPACKED", 10_000)
    elif what == "cut":
        book.write_bytes(content[:-40])
    elif what == "text":
        book.write_bytes(b"text,label\na,b\n")
    elif what == "an archive that lies":  # about the unpacked size of its largest part
        book.write_bytes(content.replace((10_000).to_bytes(4, "little"), bytes([9, 0, 0, 0])))
    with pytest.raises(InvalidSpec) as caught:
        reading_of_file(book, "xlsx", ReadingOptions())
    assert caught.value.problems[0].code == code
