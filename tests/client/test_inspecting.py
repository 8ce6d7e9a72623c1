"""`adaptlab datasets inspect`: files are described without a server."""

import hashlib
import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from tests.client.tokenizers_of_words import a_tokenizer_file
from tests.folders import a_sentence_encoder
from typer.testing import CliRunner, Result

from adaptlab.records.record import canonical_line
from adaptlab_client.cli.main import application

REVIEWS = [
    ("A fine film.", "pos"),
    ("a fine film", "pos"),
    ("a FINE film!", "neg"),
    ("dull", "neg"),
    ("dull", "neg"),
    (" ", "neg"),
]


def inspect(*arguments: object, **environment: str) -> Result:
    words = ["datasets", "inspect", *map(str, arguments)]
    return CliRunner().invoke(application(), words, env={"COLUMNS": "80"} | environment)


def inspected(*arguments: object) -> Any:  # Any: JSON of many kinds
    done = inspect(*arguments, "--output", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    file = tmp_path / "My Reviews.csv"
    file.write_text("text,label\n" + "".join(f'"{text}",{label}\n' for text, label in REVIEWS))
    return file


def test_columns_are_counted(reviews: Path):
    found = inspected(reviews)
    lines = (canonical_line({"text": text, "label": label}) for text, label in REVIEWS)
    assert found["digest"] == hashlib.sha256(b"".join(lines)).hexdigest()
    assert (found["records"], found["copies"], found["form"]) == (6, 1, "csv")
    text, label = found["fields"]
    assert (text["name"], text["distinct"], text["empty"]) == ("text", 5, 1)
    assert text["bytes"] == {"least": 1, "median": 11, "percentile_95": 12, "most": 12}
    assert text["tokens"] is None
    assert label["values"] == [{"value": "neg", "count": 4}, {"value": "pos", "count": 2}]


def test_nearly_equal_and_contradicting_records_are_shown_with_their_lines(reviews: Path):
    found = inspected(reviews)
    assert found["fields"][0]["nearly_equal"] == {
        "count": 2,
        "examples": [{"lines": [2, 3], "values": ["A fine film.", "a fine film"]}],
    }
    assert found["contradictions"] == {
        "count": 3,
        "examples": [{"lines": [2, 4], "values": ["A fine film.", "a FINE film!"]}],
    }


def test_numbers_are_never_nearly_equal(tmp_path: Path):
    file = tmp_path / "signs.jsonl"
    file.write_text('{"text":"up","label":1}\n{"text":"down","label":-1}\n{"text":"x","label":1}\n')
    found = inspected(file)
    assert [field["nearly_equal"]["count"] for field in found["fields"]] == [0, 0]
    assert found["spec"]["task"]["label"]["words"] == {"-1": " -1", "1": " 1"}
    assert any("numbers" in note for note in found["notes"])


def test_people_read_the_answer_first_and_a_spec_last(reviews: Path):
    done = inspect(reviews)
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    assert said.startswith(
        "My Reviews.csv: 6 records with the fields text and label. The task that fits is "
        "text_classification, with text as the text and label as the label."
    )
    assert "label: neg 4 (66.7 %), pos 2 (33.3 %)" in said
    assert "1 record is a copy of an earlier one." in said
    assert "lines 2 and 4: 'A fine film.', 'a FINE film!'" in said
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "adaptlab datasets upload my-reviews '" in done.stderr
    assert yaml.safe_load(done.stdout[done.stdout.index("\ntask:") :]) == {
        "task": {
            "name": "text_classification",
            "dataset": "my-reviews",
            "prompt": "{text}\nAnswer:",
            "label": {"field": "label", "words": {"neg": " neg", "pos": " pos"}},
            "tokens": {"longest": 256},
            "splits": {"validation": 0.1, "test": 0.2, "by": "text"},
        }
    }


def test_lengths_are_counted_in_tokens_without_truncation_and_padding(
    reviews: Path, tmp_path: Path
):
    a_tokenizer_file(tmp_path / "tokenizer.json", "a", "fine", "film", "dull", "pos", "neg")
    long = "dull " * 30
    reviews.write_text(reviews.read_text() + f"{long},neg\n")
    for tokenizer in (tmp_path, tmp_path / "tokenizer.json"):
        found = inspected(reviews, "--tokenizer", tokenizer)
        tokens = {"least": 0, "median": 3, "percentile_95": 30, "most": 30}
        assert found["fields"][0]["tokens"] == tokens
        assert found["spec"]["task"]["tokens"] == {"longest": 48, "answer": 2}
    assert "Lengths in tokens" in inspect(reviews, "--tokenizer", tmp_path).stdout


def test_label_words_with_one_first_token_are_named(reviews: Path, tmp_path: Path):
    a_tokenizer_file(tmp_path / "tokenizer.json", "a")
    found = inspected(reviews, "--tokenizer", tmp_path)
    assert found["notes"][0] == "The words ' neg' and ' pos' begin with the same token."


def test_labels_are_answered_by_a_head_if_the_model_is_an_encoder(reviews: Path, tmp_path: Path):
    folder = a_sentence_encoder(tmp_path / "encoder")
    a_tokenizer_file(folder / "tokenizer.json", "a", "fine", "film", "dull")
    task = inspected(reviews, "--tokenizer", folder)["spec"]["task"]
    assert (task["label"], task["score"]) == ({"field": "label"}, "head")
    assert set(task["tokens"]) == {"longest"}
    by_file = inspected(reviews, "--tokenizer", folder / "tokenizer.json")["spec"]["task"]
    assert "score" not in by_file, "the file alone does not say what the model is"


def test_a_file_that_is_no_tokenizer_is_refused(reviews: Path, tmp_path: Path):
    (tmp_path / "tokenizer.json").write_text("{}")
    done = inspect(reviews, "--tokenizer", tmp_path)
    assert done.exit_code == 2
    assert "is not the tokenizer.json of a model" in done.stderr


# The task that fits


def task_of(tmp_path: Path, *records: Mapping[str, object]) -> Any:  # Any: JSON of many kinds
    file = tmp_path / "own.ndjson"
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    spec = inspected(file)["spec"]
    return spec and spec["task"]


def test_prompts_and_completions_are_completed(tmp_path: Path):
    task = task_of(tmp_path, {"prompt": "2+2", "completion": 4}, {"prompt": "3+3", "completion": 6})
    assert task["name"] == "text_completion"
    assert task["prompt"] == "{prompt}\nAnswer:"
    assert task["answer"] == {"field": "completion"}
    assert task["splits"] == {"validation": 0.1, "test": 0.2, "by": "prompt"}


def test_conversations_are_continued(tmp_path: Path):
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
    later = [{"role": "system", "content": "Brief."}, *turns, *turns]
    others = [{**turns[0], "content": "hi!"}, {**turns[1], "content": "No"}]
    records = [{"talk": talk} for talk in (turns, later, others)]
    assert task_of(tmp_path, *records) == {
        "name": "chat_completion",
        "dataset": "own",
        "messages": {"field": "talk"},
        "tokens": {"longest": 256},
        "splits": {"validation": 0.1, "test": 0.2, "by": "talk"},
    }
    printed = " ".join(inspect(tmp_path / "own.ndjson").stdout.split())
    assert "the assistant's last turn in talk as the answer" in printed
    assert "talk: conversations of 3.0 messages on average and 5 at most, 1 with a" in printed
    assert "nearly equal to an earlier one: 1 lines 1 and 3: 'Hi', 'hi!'" in printed
    lengths = inspected(
        tmp_path / "own.ndjson", "--tokenizer", a_tokenizer_file(tmp_path / "tokens")
    )
    assert lengths["spec"]["task"]["tokens"]["answer"] == 6


def test_a_field_of_splits_is_used_and_usual_names_come_first(tmp_path: Path):
    records = [
        {
            "id": number,
            "set": ("train", "dev", "Test")[number % 3],
            "seen": number % 2 == 0,
            "label": "abc"[number % 3],
            "comment": f"text number {number}",
        }
        for number in range(9)
    ]
    task = task_of(tmp_path, *records)
    assert task["label"]["field"] == "label"
    assert task["prompt"] == "{comment}\nAnswer:"
    assert task["splits"] == {"field": "set"}


def test_where_nothing_fits_it_is_said(tmp_path: Path):
    assert task_of(tmp_path, {"text": "a"}, {"text": "b"}, {"text": "a"}) is None
    assert task_of(tmp_path, {"text": "a", "label": "x"}, {"text": "b", "label": "x"}) is None
    assert "No task fits" in " ".join(inspect(tmp_path / "own.ndjson").stdout.split())


def test_the_task_is_checked_as_a_server_would(reviews: Path, tmp_path: Path):
    (refusal,) = [note for note in inspected(reviews)["notes"] if "refuse" in note]
    assert refusal.startswith("A server would refuse it: No record of 'my-reviews' is in the")
    a_tokenizer_file(tmp_path / "tokenizer.json", "film", "pos", "neg")
    reviews.write_text("text,label\n" + "".join(f"film {n},{'pn'[n % 2]}\n" for n in range(1000)))
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(f'{{"question":"{n}+1","answer":{n + 1}}}\n' for n in range(1000)))
    for file, options in product((reviews, questions), ((), ("--tokenizer", tmp_path))):
        splits = inspected(file, *options)["splits"]
        assert sum(splits.values()) == 1000
        assert splits["test"] == pytest.approx(200, abs=65)  # five standard deviations
    assert "Splits of the task below: train " in inspect(reviews).stdout


# Forms and errors


def test_forms_are_known_by_name_or_given(reviews: Path, tmp_path: Path):
    expected = inspected(reviews)["digest"]
    other = tmp_path / "reviews.txt"
    other.write_bytes(reviews.read_bytes())
    done = inspect(other)
    assert done.exit_code == 2
    assert "--format" in done.stderr
    assert inspected(other, "--format", "csv")["digest"] == expected
    parquet = tmp_path / "reviews.parquet"
    with duckdb.connect() as database:
        database.read_csv(str(reviews), all_varchar=True).write_parquet(str(parquet))
    assert inspected(parquet)["digest"] == expected


def test_what_is_wrong_is_printed_with_file_and_line(tmp_path: Path):
    file = tmp_path / "broken.csv"
    file.write_bytes("text,label\na\nb\né,é,é\n".encode() + b"\xff,x\n")
    done = inspect(file)
    assert done.exit_code == 2
    assert "broken.csv: Line 2: the number of columns is 1 instead of 2" in done.stderr
    assert "1 more line has the same problem" in done.stderr
    assert "broken.csv: Line 5, column 1: the byte 0xff is not UTF-8." in done.stderr


def test_values_cannot_control_the_terminal(tmp_path: Path):
    file = tmp_path / "hostile.jsonl"
    file.write_text(
        '{"a":"\\u001b[2Jx","label":"\\u001b[1m"}\n{"a":"\\u001b[2JX","label":"b"}\n' * 2
    )
    done = inspect(file)
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.stdout
    assert "\\x1b" in done.stdout
    assert inspect(file, "-o", "csv").stdout.splitlines()[0].startswith("field,distinct,empty,")


def labelled(folder: Path, *labels: str, many: int = 40) -> Path:
    """Texts with frequent labels `a` and `b`, and more of these."""
    file = folder / "labelled.csv"
    rows = [f"text {place},{label}" for place, label in enumerate([*"ab" * many, *labels])]
    file.write_text("\n".join(["text,label", *rows]))
    return file


@pytest.mark.parametrize(
    ("labels", "words", "codes"),
    [
        (["", "NaN", "null"], {"a": " a", "b": " b"}, {"missing_label"}),
        (["A ", "A "], {"a": " a", "b": " b"}, {"label_in_two_writings"}),
        (["none"], {"a": " a", "b": " b"}, {"missing_label"}),
        (["none"] * 20, {"a": " a", "b": " b", "none": " none"}, set[str]()),
    ],
    ids=["missing", "writings", "a rare none", "none is a class"],
)
def test_labels_that_would_stop_a_study_are_found_and_not_proposed(
    labels: list[str], words: dict[str, str], codes: set[str], tmp_path: Path
):
    file = labelled(tmp_path, *labels)
    found = inspected(file)
    assert found["spec"]["task"]["label"]["words"] == words
    assert "metric" not in found["spec"]["task"], "what is no label unbalances nothing"
    assert {one["code"] for one in found["findings"]} == codes
    cleaned = inspected(file, "--drop-empty", "--merge-labels")
    kept = {one["value"] for one in cleaned["fields"][1]["values"]}
    assert kept == set(words)
