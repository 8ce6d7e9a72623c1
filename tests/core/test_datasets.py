"""Lists of words: the generated one, and what can be one at all."""

import hashlib
import json
from statistics import mean

import pytest

from adaptlab.errors import BadDataset, InvalidSpec, Problem
from adaptlab.plugins.dataset import (
    MOST_TRIPLES,
    Triple,
    WordList,
    content_of,
    read_words,
    word_list,
)
from adaptlab.plugins.generated_words import COUNT, generated_words
from adaptlab.plugins.registry import as_json
from adaptlab.plugins.task import Task
from adaptlab.records.buckets import BUCKETS
from adaptlab.records.facts import FieldFacts, RecordsFacts
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import datasets_of
from adaptlab.specs.spec import Choice, PretrainSpec
from adaptlab.tasks.word_translation import WordTranslation

ANIMALS = word_list(
    [
        Triple("dog", "Hund", "perro"),
        Triple("ant", "Ameise", "hormiga"),
        Triple("cat", "Katze", "gato"),
        Triple("butterfly", "Schmetterling", "mariposa"),
    ]
)
REVIEWS = RecordsFacts(
    name="reviews",
    digest="a" * 64,
    records=2,
    copies=0,
    fields=tuple(
        FieldFacts(name=name, longest=4, empty=0, values=None, buckets=(2,) + (0,) * (BUCKETS - 1))
        for name in ("text", "label")
    ),
)
KNOWN = {"animals": ANIMALS.facts("animals", "imported"), "reviews": REVIEWS}


def word_task(**knobs: object) -> WordTranslation:
    task = made(name="word_translation", **knobs)
    assert isinstance(task, WordTranslation)
    return task


def made(**knobs: object) -> Task:
    return resolve_task(Choice.model_validate(knobs), "/task", KNOWN)


def fault(**knobs: object) -> Problem:
    with pytest.raises(InvalidSpec) as caught:
        made(**{"name": "word_translation", **knobs})
    return caught.value.problems[0]


# The generated list


def test_the_generated_list_has_the_shape_of_the_one_in_the_paper():
    words = generated_words()
    english, german, spanish = zip(*words.triples, strict=True)
    assert len(set(english)) == len(words.triples) == COUNT == 4921
    # Appendix C: means 7.08, 7.98 and 7.52 characters, at most 22, 20 and 16; 53 characters and
    # two more tokens; 3,767 of the German words with a capital letter.
    for forms, usual, most in ((english, 7.08, 22), (german, 7.98, 20), (spanish, 7.52, 16)):
        assert mean(map(len, forms)) == pytest.approx(usual, abs=0.3)
        assert max(map(len, forms)) <= most
    assert max(map(len, english)) == 22
    assert len(words.characters) == pytest.approx(53, abs=5)
    assert sum(word[0].isupper() for word in german) == pytest.approx(3767, rel=0.05)
    assert not any(word[0].isupper() for word in (*english, *spanish))


def test_its_translations_are_unrelated_but_for_a_few_cognates():
    triples = generated_words().triples
    spanish = sum(one.english == one.spanish for one in triples)
    german = sum(one.english.capitalize() == one.german for one in triples)
    assert 0 < spanish < 0.05 * COUNT
    assert 0 < german < 0.05 * COUNT
    assert sum(one.german.lower() == one.spanish for one in triples) <= 5
    # Nothing else of a word tells another: next to no German word is the Spanish one of a neighbour
    assert len({one.german for one in triples} & {one.spanish for one in triples}) < 0.01 * COUNT


def test_it_is_the_same_everywhere():
    # The digest is part of every spec that uses the list: another list would be another task.
    digest = "c6b1ba32edd9fff87b9ca2cd29d8ac21b20d6de2edf8542122699917ee588dee"
    assert generated_words().digest == digest
    assert hashlib.sha256(content_of(generated_words().triples)).hexdigest() == digest


# Content


def test_content_is_lines_of_json_that_come_back():
    content = content_of(ANIMALS.triples)
    lines = [json.loads(line) for line in content.decode().splitlines()]
    assert [line["english"] for line in lines] == ["ant", "butterfly", "cat", "dog"]
    assert lines[0] == {"english": "ant", "german": "Ameise", "spanish": "hormiga"}
    again = read_words(content, hashlib.sha256(content).hexdigest())
    assert again.triples == ANIMALS.triples
    assert again == ANIMALS


LINE = b'{"english":"ant","german":"Ameise","spanish":"hormiga"}\n'
OTHER = b'{"english":"cat","german":"Katze","spanish":"gato"}\n'


FAULTY = {
    "nothing": b"",
    "one line": LINE,
    "no json": LINE + b"cat\n",
    "not text": LINE + b"\xff\xfe\n",
    "a list": LINE + b'["cat","Katze","gato"]\n',
    "a form missing": LINE + b'{"english":"cat","german":"Katze"}\n',
    "one too many": LINE + b'{"english":"cat","german":"Katze","spanish":"gato","x":"y"}\n',
    "a number": LINE + b'{"english":"cat","german":3,"spanish":"gato"}\n',
    "unsorted": OTHER + LINE,
    "twice": LINE + LINE,
    "spaces": LINE + OTHER.replace(b":", b": "),
    "no end": (LINE + OTHER)[:-1],
    "an empty word": LINE + OTHER.replace(b"gato", b""),
    "a control character": LINE + OTHER.replace(b"gato", b"ga\\u0007to"),
    "digits": LINE + OTHER.replace(b"gato", b"g4to"),
    "stray spaces": LINE + OTHER.replace(b"gato", b" gato"),
    "decomposed": LINE + OTHER.replace(b"gato", "ga\u0301to".encode()),
    "the sign of a unit": LINE + OTHER.replace(b"gato", "\u212bgato".encode()),
    "far too long": LINE + OTHER.replace(b"gato", b"gato" * 13),
}


@pytest.mark.parametrize("content", FAULTY.values(), ids=FAULTY)
def test_nothing_but_canonical_content_is_read(content: bytes):
    with pytest.raises(BadDataset):
        read_words(content, hashlib.sha256(content).hexdigest())


def test_content_of_another_digest_is_not_read():
    with pytest.raises(BadDataset, match="SHA-256"):
        read_words(content_of(ANIMALS.triples), generated_words().digest)


def test_a_list_has_a_limit():
    letters = "abcdefghijklmnopqrstuvwxyz"
    names = (a + b + c + d for a in letters for b in letters for c in letters for d in letters)
    triples = [Triple(next(names), "x", "y") for _ in range(MOST_TRIPLES + 1)]
    assert len(word_list(triples[:-1]).triples) == MOST_TRIPLES
    with pytest.raises(InvalidSpec, match="100,001"):
        word_list(triples)


# What tasks make of it


def test_a_task_knows_its_dataset_by_digest():
    task = word_task(dataset="animals")
    assert task.model_dump(mode="json") == {
        "name": "word_translation",
        "dataset": {
            "name": "animals",
            "digest": ANIMALS.digest,
            "source": "imported",
            "characters": "AHKSabcdefghilmnoprstuyz",
        },
        "target": "german",
        "longest": 13,  # Schmetterling
        "words": 4,
        "held_out": False,
    }
    assert task.vocabulary() == 26
    assert (task.input_length(), task.target_length()) == (14, 14)
    assert task.chance() == 0.25


def test_words_that_are_too_long_in_any_language_are_left_out():
    task = word_task(dataset="animals", longest=7)
    assert (task.words, task.longest, task.target_length()) == (3, 7, 8)
    chosen = ANIMALS.chosen(7, 3)
    assert {triple.english for triple in chosen} == {"ant", "cat", "dog"}
    assert ANIMALS.chosen(7, 2) == chosen[:2]
    assert ANIMALS.chosen(13, 4) != ANIMALS.triples, "they are shuffled, not sorted"


def test_what_a_dataset_has_not_is_said_with_what_it_has():
    assert fault(dataset="plants").code == "unknown_dataset"
    assert fault(dataset="animals", words=5).nearest == (4,)
    assert fault(dataset="animals", longest=6, words=3).nearest == (2,)
    assert fault(dataset="animals", longest=4).nearest == (5,)
    another = word_task(dataset="animals").model_dump(mode="json")["dataset"]
    forged = {**another, "digest": "0" * 64}
    assert fault(dataset=forged).code == "dataset_differs"
    assert fault(dataset={**another, "characters": "abc"}).code == "dataset_differs"
    mixed = {"tasks": [{"name": "word_translation", "dataset": "plants"}, "copy"]}
    assert fault(name="mixture", **mixed).pointer == "/task/tasks/0/dataset"


def test_records_are_no_words():
    problem = fault(dataset="reviews")
    assert (problem.pointer, problem.code) == ("/task/dataset", "not_words")
    assert "the fields text, label" in problem.detail
    assert problem.nearest == ("generated",)
    forged = word_task(dataset="animals").model_dump(mode="json")["dataset"]
    assert fault(dataset={**forged, "name": "reviews"}).code == "not_words"


def test_tasks_without_the_same_words_do_not_mix():
    def mixed(**other: object) -> str:
        first = {"name": "word_translation", "dataset": "animals"}
        return fault(name="mixture", tasks=[first, {**first, "target": "spanish", **other}]).code

    assert mixed(words=3) == mixed(longest=7) == mixed(dataset="generated") == "tasks_differ"
    assert mixed(held_out=True) == "tasks_differ"
    one = {"name": "word_translation", "dataset": "animals"}
    assert made(name="mixture", tasks=[one, {**one, "target": "spanish"}]).vocabulary() == 26


def test_a_task_that_takes_listed_questions_cannot_come_second():
    found = fault(name="composition", first="copy", then={"name": "word_translation"})
    assert (found.pointer, found.code) == ("/task/then/name", "asked_from_a_list")


def test_a_base_of_one_language_fits_the_other():
    first = {"name": "word_translation", "words": 50}
    spec = {"name": "base", "family": "minigpt", "task": first}
    resolved = resolve(PretrainSpec.model_validate(spec), None)
    others = ({**first, "target": "spanish"}, {**first, "target": "german_reversed"})
    needed = {made(**other).vocabulary() for other in others}
    assert needed == {as_json(resolved.family)["vocabulary"]} == {56}


def test_a_job_says_which_contents_it_needs():
    words = {"name": "word_translation", "dataset": "animals"}
    mixture = {"name": "mixture", "tasks": [words, {**words, "target": "spanish"}]}
    spec = {"name": "base", "family": "minigpt", "task": mixture, "evaluation": {"tasks": [words]}}
    resolved = resolve(PretrainSpec.model_validate(spec), None, KNOWN)
    assert [one.digest for one in datasets_of(resolved)] == [ANIMALS.digest]
    own = resolve(PretrainSpec.model_validate({**spec, "task": "word_translation"}), None, KNOWN)
    assert [one.name for one in datasets_of(own)] == ["animals"]


def test_words_are_not_taken_from_another_list():
    task = word_task(dataset="animals")
    with pytest.raises(BadDataset, match="animals"):
        task.word_list()
    with pytest.raises(BadDataset, match="animals"):
        task.with_words({ANIMALS.digest: WordList("0" * 64, ANIMALS.triples)}).word_list()
    assert task.with_words({ANIMALS.digest: ANIMALS}).word_list() == ANIMALS
