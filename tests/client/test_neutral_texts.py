"""Neutral texts that Python ships, as records."""

import pytest
from tests.texts import stored

from adaptlab.text.splitting import SplitsByField
from adaptlab_client.machine.neutral_texts import GENRES, Genre, neutral_records, source


@pytest.mark.parametrize("genre", GENRES)
def test_passages_are_short_and_of_many_chapters(genre: Genre) -> None:
    records = neutral_records(genre, 200, 400)
    assert len(records) == 200
    assert len({one["chapter"] for one in records}) >= 50
    assert {(one["genre"], one["split"]) for one in records} == {(genre, "test")}
    sizes = [len(one["text"].encode()) for one in records]
    assert 40 <= min(sizes) <= max(sizes) <= 400
    assert neutral_records(genre, 50, 400) == records[:50]


def test_all_passages_are_in_the_test_split(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = stored(tmp_path_factory.mktemp("data"), neutral_records("prose", 30, 200), "manual")
    counts = SplitsByField(field="split").counts(data.facts)
    assert (counts.train, counts.validation, counts.test) == (0, 0, 30)
    assert source()["licence"] == "PSF-2.0"
