"""Datasets of words in three languages, as values.

The content of a dataset is canonical: one JSON object per line, sorted by English words, without
repetition. Its SHA-256 is the dataset's digest.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from adaptlab.errors import BadDataset, InvalidSpec, Problem
from adaptlab.records.facts import RecordsFacts
from adaptlab.text.splitting import SplitCounts
from adaptlab.values import Name, Value

LONGEST_WORD = 48
FEWEST_TRIPLES = 2
MOST_TRIPLES = 100_000
MOST_CHARACTERS = 256
BETWEEN_LETTERS = " -'.’"

Source = Literal["generated", "imported"]


def _checked(word: str) -> str:
    """Return a word unless it has characters that datasets do not allow."""
    if unicodedata.normalize("NFC", word) != word:
        raise PydanticCustomError("not_composed", "the word is not in Unicode's form NFC")
    if any(not (sign.isalpha() or sign in BETWEEN_LETTERS) for sign in word):
        raise PydanticCustomError(
            "not_a_word", "a word consists of letters, spaces, hyphens, apostrophes or dots"
        )
    if not any(sign.isalpha() for sign in word) or word != " ".join(word.split()):
        raise PydanticCustomError("not_a_word", "a word has letters and no stray spaces")
    return word


Word = Annotated[str, Field(min_length=1, max_length=LONGEST_WORD), AfterValidator(_checked)]


class Triple(NamedTuple):
    """One word in three languages."""

    english: Word
    german: Word
    spanish: Word

    @property
    def longest(self) -> int:
        """Characters of the longest of the three words."""
        return max(map(len, self))


class DatasetReference(Value):
    """A dataset by its digest, with the sorted characters of its words."""

    name: Name
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    source: Source
    characters: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]


class DatasetFacts(DatasetReference):
    """Facts about a dataset without its words.

    `lengths` counts triples by the characters of their longest word, starting at 1.
    """

    lengths: tuple[int, ...]

    @property
    def longest(self) -> int:
        """Characters of the longest word."""
        return len(self.lengths)

    def triples_up_to(self, longest: int) -> int:
        """Return the number of triples without a longer word."""
        return sum(self.lengths[:longest])

    def reference(self) -> DatasetReference:
        """Return the part that a resolved task keeps."""
        return DatasetReference(
            name=self.name, digest=self.digest, source=self.source, characters=self.characters
        )


class RecordsReference(Value):
    """A dataset of records by its digest, as a task uses it.

    Attributes:
        name: its name on the server.
        digest: the SHA-256 of its canonical content.
        splits: its records by the task's rule.
        majority: the share of the most common answer among all records, None if it is not known.
    """

    name: Name
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    splits: SplitCounts
    majority: float | None = None


AnyReference = DatasetReference | RecordsReference

Datasets = Mapping[str, DatasetFacts | RecordsFacts]
"""Uploaded datasets of both kinds by name; the generated list is not among them."""

NO_DATASETS: Datasets = MappingProxyType({})


@dataclass(frozen=True)
class WordList:
    """The words of a dataset; lists with the same digest are equal."""

    digest: str
    triples: tuple[Triple, ...] = field(compare=False, repr=False)

    def facts(self, name: str, source: Source) -> DatasetFacts:
        """Return the facts about the list under a name."""
        counts = [0] * max(triple.longest for triple in self.triples)
        for triple in self.triples:
            counts[triple.longest - 1] += 1
        return DatasetFacts(
            name=name,
            digest=self.digest,
            source=source,
            characters=self.characters,
            lengths=tuple(counts),
        )

    @cached_property
    def characters(self) -> str:
        """The characters of all words, sorted."""
        return "".join(sorted({sign for triple in self.triples for sign in "".join(triple)}))

    @cached_property
    def _shuffled(self) -> tuple[Triple, ...]:
        def place(triple: Triple) -> bytes:
            return hashlib.sha256(triple.english.encode()).digest()

        return tuple(sorted(self.triples, key=place))

    def chosen(self, longest: int, words: int) -> tuple[Triple, ...]:
        """Return the first `words` triples without longer words than `longest`.

        Lengths are in characters. The order depends only on the English words.
        """
        return tuple(t for t in self._shuffled if t.longest <= longest)[:words]


def word_list(triples: Iterable[Triple]) -> WordList:
    """Return the list of triples given in any order.

    Raises:
        InvalidSpec: the triples are not a valid dataset.
    """
    ordered = tuple(sorted(triples))
    if problems := tuple(_dataset_problems(ordered)):
        raise InvalidSpec(*problems)
    return WordList(hashlib.sha256(content_of(ordered)).hexdigest(), ordered)


def content_of(triples: Iterable[Triple]) -> bytes:
    """Return the canonical content of sorted triples."""
    lines = (
        json.dumps(triple._asdict(), ensure_ascii=False, separators=(",", ":"))
        for triple in triples
    )
    return "".join(f"{line}\n" for line in lines).encode()


def read_words(content: bytes, digest: str) -> WordList:
    """Return the list with this canonical content.

    Raises:
        BadDataset: the content has another digest or is not in canonical form.
    """
    actual = hashlib.sha256(content).hexdigest()
    if actual != digest:
        raise BadDataset(f"The dataset {digest} arrived with the SHA-256 {actual}. Fetch it again.")
    try:
        line: TypeAdapter[Triple] = TypeAdapter(Triple)
        lines = content.decode().splitlines()
        triples = [line.validate_json(text, strict=True) for text in lines]
        read = word_list(triples)
    except (ValueError, ValidationError, InvalidSpec) as error:
        raise BadDataset(
            f"The dataset {digest} does not consist of word triples: {error}"
        ) from error
    if read.digest != digest:
        raise BadDataset(f"The dataset {digest} is not in canonical form. Upload it again.")
    return read


def _dataset_problems(ordered: tuple[Triple, ...]) -> Iterable[Problem]:
    """Yield the reasons why sorted triples are not a dataset."""
    count, pointer = len(ordered), "/triples"
    if not FEWEST_TRIPLES <= count <= MOST_TRIPLES:
        detail = f"A dataset has {FEWEST_TRIPLES} to {MOST_TRIPLES:,} triples, not {count:,}."
        nearest = (FEWEST_TRIPLES if count < FEWEST_TRIPLES else MOST_TRIPLES,)
        yield Problem(pointer, "wrong_number_of_triples", detail, nearest=nearest)
    for before, after in pairwise(ordered):
        if before.english == after.english:
            detail = f"{after.english!r} occurs twice. Give every English word one translation."
            yield Problem(pointer, "word_twice", detail)
            break
    signs = {sign for triple in ordered for sign in "".join(triple)}
    if len(signs) > MOST_CHARACTERS:
        detail = (
            f"The words have {len(signs)} different characters. The limit is {MOST_CHARACTERS}."
        )
        yield Problem(pointer, "too_many_characters", detail, nearest=(MOST_CHARACTERS,))
