"""Records from Parquet, written by DuckDB and by arro3."""

import json
import random
from pathlib import Path

import duckdb
import pytest
from arro3.core import Array, DataType, RecordBatch
from arro3.io import write_parquet

from adaptlab.errors import InvalidSpec
from adaptlab.records.parquet import read_parquet
from adaptlab.records.parquet_footer import rows_of


def written(path: Path, query: str) -> Path:
    with duckdb.connect() as database:
        database.sql(query).write_parquet(str(path))
    return path


def refusal(path: Path) -> list[str]:
    with pytest.raises(InvalidSpec) as caught:
        list(read_parquet(path, "/file"))
    assert {problem.pointer for problem in caught.value.problems} == {"/file"}
    return [f"{problem.code}: {problem.detail}" for problem in caught.value.problems]


def test_scalars_become_text_row_by_row(tmp_path: Path):
    path = written(
        tmp_path / "scalars",
        "select 'text ' || i as text, i as n, i / 2.0 as half, i % 2 = 0 as even "
        "from range(3000) t(i)",
    )
    placed = list(read_parquet(path))
    assert [row for row, _ in placed] == [*range(1, 3001)]
    assert placed[1].record == {"text": "text 1", "n": "1", "half": "0.5", "even": "false"}
    assert placed[2999].record["text"] == "text 2999"


def test_dictionary_encoded_text_is_text(tmp_path: Path):
    labels = Array(["pos", "neg", "pos"], type=DataType.string())
    encoded = labels.cast(DataType.dictionary(DataType.int8(), DataType.string()))
    write_parquet(RecordBatch.from_pydict({"label": encoded}), tmp_path / "labels")
    values = [record["label"] for _, record in read_parquet(tmp_path / "labels")]
    assert values == ["pos", "neg", "pos"]


def test_values_without_a_text_are_refused_by_row_and_column(tmp_path: Path):
    path = written(
        tmp_path / "bytes", "select if(i in (5, 7), 'a'::blob, null) as picture from range(10) t(i)"
    )
    (detail,) = refusal(path)
    assert detail.startswith(
        "wrong_value: Row 6: the value of 'picture' is neither text nor a number; 1 more row has"
    )


OTHERS = {
    "date '2026-01-31'": "2026-01-31",
    "timestamp '2026-01-31 12:30:00'": "2026-01-31T12:30:00",
    "time '12:30:00'": "12:30:00",
    "12.50::decimal(6, 2)": "12.50",
    "[1, 2]": "[1, 2]",
    "['a', null]": '["a", null]',
    "{'start': 3, 'text': 'é'}": '{"start": 3, "text": "é"}',
    "[date '2026-01-31']": '["2026-01-31"]',
    "null::varchar": "",
    "null::bigint": "",
    "'nan'::double": "",
}


@pytest.mark.parametrize("value", OTHERS)
def test_other_values_become_text(value: str, tmp_path: Path):
    path = written(tmp_path / "others", f"select 'a text' as text, {value} as other")
    (placed,) = read_parquet(path)
    assert placed.record == {"text": "a text", "other": OTHERS[value]}


def test_numbers_of_classes_become_their_names(tmp_path: Path):
    features = {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}, "text": {"dtype": "s"}}
    about = json.dumps({"info": {"features": features}})
    batch = RecordBatch.from_pydict(
        {
            "label": Array([1, 0, -1, 7], type=DataType.int64()),
            "text": Array(["a", "b", "c", "d"], type=DataType.string()),
        }
    )
    schema = batch.schema.with_metadata({"huggingface": about})
    write_parquet(batch.with_schema(schema), tmp_path / "classes")
    labels = [record["label"] for _, record in read_parquet(tmp_path / "classes")]
    assert labels == ["pos", "neg", "", "7"]


def test_a_file_has_rows_and_usable_columns(tmp_path: Path):
    (detail,) = refusal(written(tmp_path / "empty", "select 1 as a where false"))
    assert detail.startswith("no_records: Row 1: the file has no rows.")
    (detail,) = refusal(written(tmp_path / "names", 'select 1 as "{a}"'))
    assert detail.startswith("bad_field_name: Columns of the file: the name of field 1, '{a}',")


def test_a_file_with_too_many_rows_is_refused_before_any_is_read(tmp_path: Path):
    path = written(tmp_path / "many", "select i % 3 as label from range(2000001) t(i)")
    assert rows_of(path) == 2_000_001
    with pytest.raises(InvalidSpec, match="has 2,000,001 rows, more than 2,000,000"):
        next(read_parquet(path))


@pytest.mark.parametrize("rows", [1, 127, 20_000])
def test_the_footer_tells_the_rows_whoever_wrote_it(rows: int, tmp_path: Path):
    query = (
        f"select i as n, [{{'a': i, 'b': ['x']}}] as nested, i > 2 as yes from range({rows}) t(i)"
    )
    assert rows_of(written(tmp_path / "duckdb", query)) == rows
    labels = Array(["pos"] * rows, type=DataType.string())
    write_parquet(RecordBatch.from_pydict({"label": labels}), tmp_path / "arro3")
    assert rows_of(tmp_path / "arro3") == rows


def test_a_footer_that_is_none_tells_nothing(tmp_path: Path):
    """Every byte of the footer is damaged once, and bytes are drawn at random."""
    whole = written(tmp_path / "whole", "select i as n, 'x' as t from range(9) t(i)").read_bytes()
    draw = random.Random(3)
    length = int.from_bytes(whole[-8:-4], "little")
    footers = [draw.randbytes(draw.randrange(1, 200)) for _ in range(300)]
    start = len(whole) - 8 - length
    for place in range(length):
        changed = bytearray(whole[start:-8])
        changed[place] ^= 1 << draw.randrange(8)
        footers.append(bytes(changed))
    footers += [b"\x1c" * 5000, b"\x19\xfc" + b"\xff" * 12, b""]
    for footer in footers:
        (tmp_path / "odd").write_bytes(
            whole[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
        )
        found = rows_of(tmp_path / "odd")
        assert found is None or found >= 0


def test_a_damaged_file_is_refused(tmp_path: Path):
    path = written(tmp_path / "whole", "select 'text ' || i as text from range(1000) t(i)")
    content = path.read_bytes()
    for name, damaged in {
        "nothing": b"",
        "short": b"PAR1PAR1",
        "cut": content[: len(content) // 2],
        "length": content[:-8] + b"\xff\xff\xff\x7fPAR1",
        "footer": content[:-40] + b"\xff" * 32 + content[-8:],
        "pages": content[:4] + b"\xff" * 40 + content[44:],
    }.items():
        damaged_path = tmp_path / name
        damaged_path.write_bytes(damaged)
        assert [detail.partition(":")[0] for detail in refusal(damaged_path)] == ["not_parquet"]
    with pytest.raises(FileNotFoundError):
        list(read_parquet(tmp_path / "none"))


def test_a_list_of_messages_is_a_conversation(tmp_path: Path):
    turns = "[{'role': 'user', 'content': 'Hi'}, {'role': 'assistant', 'content': 'Yes?'}]"
    path = written(tmp_path / "chats", f"select {turns} as messages")
    (placed,) = read_parquet(path)
    assert placed.record["messages"] == (
        '[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes?"}]'
    )
