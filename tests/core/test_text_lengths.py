"""Texts have their usual length in time, and the longest in memory."""

import math
from typing import Any

import pytest
from tests.texts import CLASSIFICATION, COMPLETION, Stored, reviews, stored, without

from adaptlab.specs.cost import work
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedPretrain
from adaptlab.specs.spec import PretrainSpec
from adaptlab.tasks.sort_ascending import SortAscending
from adaptlab.text.lengths import BYTES_PER_TOKEN, PADDED, unknown
from adaptlab.text.tokeniser import BYTES_VOCABULARY

PUBLISHED = 30_522
TEXT, THING = 20.0, 4.0  # mean bytes


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), reviews(400))


def means(_: str) -> dict[str, float]:
    return {"text": TEXT, "thing": THING}


def long(document: Any, **changes: Any) -> dict[str, Any]:
    return without(document, tokens={"longest": 512, "answer": 8}, **changes)


def test_a_typical_item_is_its_mean_length_and_a_share_of_padding(data: Stored) -> None:
    task = data.task(long(CLASSIFICATION))  # "{text}. It is", then one sign
    item = TEXT + len(". It is") + 1
    assert task.typical_length(BYTES_VOCABULARY, means) == math.ceil(PADDED * item)
    assert task.typical_length(PUBLISHED, means) == math.ceil(PADDED * item / BYTES_PER_TOKEN)
    completion = data.task(long(COMPLETION, prompt="{text}{text}:"))
    twice = PADDED * (2 * TEXT + 1 + THING)
    assert completion.typical_length(BYTES_VOCABULARY, means) == math.ceil(twice)


def test_choices_with_fields_are_as_long_as_their_fields(data: Stored) -> None:
    label = {"field": "label", "words": {"neg": " no {thing}", "pos": " {thing}"}}
    task = data.task(long(CLASSIFICATION, label=label))
    item = TEXT + len(". It is") + (len(" no ") + len(" ")) / 2 + THING
    assert task.typical_length(BYTES_VOCABULARY, means) == math.ceil(PADDED * item)
    limit = task.sequence_length()
    assert task.typical_length(PUBLISHED, lambda _: {"text": TEXT}) == limit, "thing is unknown"


def test_it_is_never_above_the_limit_and_the_limit_if_lengths_are_unknown(data: Stored) -> None:
    task = data.task(CLASSIFICATION)
    limit = task.sequence_length()
    assert task.typical_length(PUBLISHED, unknown) == limit
    assert task.typical_length(PUBLISHED, lambda _: {"thing": 1.0}) == limit
    assert task.typical_length(PUBLISHED, lambda _: {"text": 1e6}) == limit
    digits = SortAscending()
    assert digits.typical_length(8, means) == digits.sequence_length()


def test_time_follows_usual_lengths_and_memory_the_limit(data: Stored) -> None:
    document = {
        "name": "reader",
        "family": {"name": "minigpt", "layers": 1, "heads": 2, "width": 32},
        "task": long(CLASSIFICATION),
    }
    resolved = resolve(PretrainSpec.model_validate(document), None, data.datasets)
    assert isinstance(resolved, ResolvedPretrain)
    longest, usual = work(resolved), work(resolved, means)
    assert usual.memory_bytes == longest.memory_bytes
    assert 5 < longest.training.flops / usual.training.flops < 512 / (TEXT + 8)
    assert usual.evaluation.flops < longest.evaluation.flops / 5


def test_facts_have_the_bytes_of_all_values(data: Stored) -> None:
    texts = [record["text"] for record in reviews(400)]
    field = data.facts.field("text")
    assert field is not None
    assert field.total_bytes == sum(len(text.encode()) for text in texts)
