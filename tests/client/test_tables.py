"""Tables of the command line: no broken word or id, whatever the width."""

from adaptlab_client.cli.printing.table_layout import layout, with_short_ids

IDS = ["3f0c5e6a-9d1b-4a7e-8a53-0c2f6f1f7b11", "94494a58-3bd6-4ba0-a0b6-ecb9bfa8684c"]
TITLES = ("id", "kind", "task", "method", "metrics.accuracy.mean", "metrics.accuracy.low")
ROWS = [[one, "adapt", "sort_descending", "prefix_tuning", "0.5206", "0.1313"] for one in IDS]
WANTED = ("id", "task", "method", "metrics.accuracy.mean")


def test_everything_is_shown_where_there_is_room() -> None:
    found = layout(TITLES, ROWS, 200)
    assert (found.columns, found.left_out, found.short_ids) == (tuple(range(6)), (), False)
    assert found.widths == (36, 5, 15, 13, 21, 20)


def test_columns_are_left_out_before_a_word_is_broken() -> None:
    found = layout(TITLES, ROWS, 80, WANTED)
    assert found.short_ids
    assert [TITLES[column] for column in found.columns] == [
        "id", "kind", "task", "method", "metrics.accuracy.mean",
    ]  # fmt: skip
    assert found.left_out == ("metrics.accuracy.low",)
    assert found.widths == (8, 5, 15, 13, 21)
    assert [row[0] for row in with_short_ids(ROWS)] == [one[:8] for one in IDS]


def test_texts_break_between_words() -> None:
    text = "a sentence of several words that takes more than one line"
    found = layout(("name", "means"), [["accuracy", text]], 40)
    assert found.left_out == ()
    assert found.widths == (8, 30)


def test_a_first_column_is_shown_however_narrow() -> None:
    assert layout(("id",), [[IDS[0]]], 4).columns == (0,)
