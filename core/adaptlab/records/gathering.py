"""The canonical content of records, and the facts about it, in one pass."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.accepted_answers import NotAnswers, accepted_in, texts_listed
from adaptlab.records.answer_forms import FORMS, AnswerForm, first_without
from adaptlab.records.buckets import BUCKETS, bucket_of
from adaptlab.records.conversations import conversation_in
from adaptlab.records.facts import (
    LONGEST_VALUE,
    MOST_SIGNS,
    MOST_VALUES,
    MOST_WORDS,
    AnswerFacts,
    ConversationFacts,
    FieldFacts,
    MissedForm,
    PictureFacts,
    RecordsFacts,
    ValueCount,
)
from adaptlab.records.pictures import PREFIX, NotAPicture, PictureSize, picture_size
from adaptlab.records.record import (
    LONGEST_LINE,
    MOST_BYTES,
    MOST_RECORDS,
    Record,
    canonical_line,
)

_HASH_BYTES = 8
"""Of 2 million records, two have one hash by chance in one of 10 million datasets."""
_RECORDS_AT_ONCE, _BYTES_AT_ONCE = 2048, 2**20
_NO_TEXT = ("", "[", "{")
"""How values begin that are empty, or may be lists of answers."""


class CanonicalLines:
    """The canonical lines of records within the limits of a dataset.

    All records have the same fields in the same order, as those of `read_records` have.
    """

    def __init__(self, pointer: str = "/upload") -> None:
        self._pointer = pointer
        self._content = hashlib.sha256()
        self.records = 0
        self.size_bytes = 0

    def lines(self, records: Iterable[Record]) -> Iterator[bytes]:
        """Add records, and yield the canonical line of each.

        Raises:
            InvalidSpec: there are no or too many records, or too many bytes.
        """
        for record in records:
            yield self.add(record)
        if not self.records:
            raise self._wrong("wrong_number_of_records", "There are no records. Give at least one.")

    def add(self, record: Record) -> bytes:
        """Add a record and return its canonical line.

        Raises:
            InvalidSpec: it exceeds a limit.
        """
        line = canonical_line(record)
        self.records += 1
        self.size_bytes += len(line)
        self._check(len(line) - 1)
        self._content.update(line)
        return line

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical content so far."""
        return self._content.hexdigest()

    def _check(self, length: int) -> None:
        if length > LONGEST_LINE:
            detail = (
                f"Record {self.records:,} has {length:,} bytes as a line of JSON. The limit is "
                f"{LONGEST_LINE:,}. Shorten its values."
            )
            raise self._wrong("line_too_long", detail)
        if self.records > MOST_RECORDS:
            detail = f"There are more than {MOST_RECORDS:,} records. Give fewer."
            raise self._wrong("wrong_number_of_records", detail)
        if self.size_bytes > MOST_BYTES:
            detail = (
                f"The first {self.records:,} records have more than {MOST_BYTES:,} bytes as lines "
                "of JSON. Give fewer, or leave out fields that no task needs."
            )
            raise self._wrong("too_many_bytes", detail)

    def _wrong(self, code: str, detail: str) -> InvalidSpec:
        return InvalidSpec(Problem(self._pointer, code, detail))


class Gatherer(CanonicalLines):
    """Facts about records that are added one by one.

    It keeps 8 bytes per record, and the last records: the values of a field are looked at many at
    once, which takes a third of the time.
    """

    def __init__(self, pointer: str = "/upload") -> None:
        super().__init__(pointer)
        self._fields: dict[str, _Field] = {}
        self._hashes = bytearray()
        self._last: list[Record] = []
        self._last_until = 0

    def add(self, record: Record) -> bytes:
        """Add a record and return its canonical line.

        Raises:
            InvalidSpec: it exceeds a limit.
        """
        line = super().add(record)
        self._hashes += hashlib.blake2b(line, digest_size=_HASH_BYTES).digest()
        self._last.append(record)
        if len(self._last) >= _RECORDS_AT_ONCE or self.size_bytes > self._last_until:
            self._add_last()
        return line

    def _add_last(self) -> None:
        """Add the values of the last records to the facts of their fields."""
        if not self._last:
            return
        self._fields = self._fields or {name: _Field() for name in self._last[0]}
        columns = zip(*(one.values() for one in self._last), strict=True)
        for field, values in zip(self._fields.values(), columns, strict=True):
            field.add(values)
        self._last.clear()
        self._last_until = self.size_bytes + _BYTES_AT_ONCE

    def facts(self, name: str, digest: str) -> RecordsFacts:
        """Return the facts about the records added so far."""
        self._add_last()
        fields = tuple(field.facts(title) for title, field in self._fields.items())
        return RecordsFacts(
            name=name,
            digest=digest,
            records=self.records,
            copies=self.records - _distinct(self._hashes),
            fields=fields,
        )


class _Field:
    """Facts about one field, as its values are added."""

    def __init__(self) -> None:
        self._longest = 0
        self._records = self._bytes = 0
        self._forms: list[AnswerForm] = [*FORMS]
        self._missed: dict[AnswerForm, int] = {}
        self._empty = 0
        self._signs = 0
        self._values: Counter[str] | None = Counter()
        self._buckets = [0] * BUCKETS
        self._conversations: _Conversations | None = _Conversations()
        self._pictures: _Pictures | None = _Pictures()
        self._answers: _Answers | None = _Answers()

    def add(self, values: Sequence[str]) -> None:
        """Add the values of records, in their order."""
        sizes = _sizes_of(values)
        self._longest = max(self._longest, *sizes)
        self._bytes += sum(sizes)
        self._forms = [form for form in self._forms if self._have(values, form)]
        self._records += len(values)
        self._empty += sum(not value.strip() for value in values)
        if self._conversations is not None and not all(map(self._conversations.add, values)):
            self._conversations = None
        if self._pictures is not None and not all(map(self._pictures.add, values)):
            self._pictures = None
        if self._answers is not None and not self._answers.add_all(values, sizes):
            self._answers = None
        counted = Counter(values)
        if self._values is None:
            _add_to(self._buckets, counted)
            return
        self._signs += sum(map(len, counted.keys() - self._values.keys()))
        self._values.update(counted)
        if max(map(len, counted)) > LONGEST_VALUE or self._are_too_many(len(self._values)):
            self._buckets = self._all_buckets()
            self._values = None

    def _have(self, values: Sequence[str], form: AnswerForm) -> bool:
        """Return True if all values have a form; otherwise note the first without."""
        without = first_without(values, form)
        if without is None:
            return True
        self._missed[form] = self._records + without + 1
        return False

    def _are_too_many(self, values: int) -> bool:
        return values > MOST_VALUES or (values > MOST_WORDS and self._signs > MOST_SIGNS)

    def facts(self, name: str) -> FieldFacts:
        """Return the facts under the name of the field."""
        counts = None
        if self._values is not None and not self._are_texts(self._values):
            ordered = sorted(self._values.items())
            counts = tuple(ValueCount(value=value, count=count) for value, count in ordered)
        return FieldFacts(
            name=name,
            longest=self._longest,
            empty=self._empty,
            total_bytes=self._bytes,
            values=counts,
            buckets=tuple(self._all_buckets()),
            conversations=self._conversations and self._conversations.facts(),
            pictures=self._pictures and self._pictures.facts(),
            missed_forms=tuple(
                MissedForm(form=form, first=first) for form, first in sorted(self._missed.items())
            ),
            answers=self._answers and self._answers.facts(),
        )

    def _are_texts(self, values: Counter[str]) -> bool:
        """Return True if values are many and most of them occur once."""
        return len(values) > MOST_WORDS and 2 * len(values) > values.total()

    def _all_buckets(self) -> list[int]:
        """Return the buckets with those of the values that are counted one by one."""
        buckets = list(self._buckets)
        _add_to(buckets, self._values or {})
        return buckets


class _Conversations:
    """Figures of the conversations of one field."""

    def __init__(self) -> None:
        self._messages = self._longest = 0
        self._with_system = self._unanswered = 0
        self._longest_answer = 0

    def add(self, value: str) -> bool:
        """Add a value; return False if it is no conversation."""
        messages = conversation_in(value)
        if messages is None:
            return False
        self._messages += len(messages)
        self._longest = max(self._longest, len(messages))
        self._with_system += messages[0].role == "system"
        if messages[-1].role == "assistant":
            self._longest_answer = max(self._longest_answer, _bytes_of(messages[-1].content))
        else:
            self._unanswered += 1
        return True

    def facts(self) -> ConversationFacts:
        """Return the figures."""
        return ConversationFacts(
            messages=self._messages,
            longest=self._longest,
            with_system=self._with_system,
            unanswered=self._unanswered,
            longest_answer=self._longest_answer,
        )


class _Answers:
    """Figures of the right answers of one field."""

    def __init__(self) -> None:
        self._most = self._answers = self._bytes = self._longest = 0
        self._lists = self._unanswered = 0

    def add_all(self, values: Sequence[str], sizes: Sequence[int]) -> bool:
        """Add values of so many bytes; return False if one holds no answers."""
        if not {value.lstrip()[:1] for value in values}.isdisjoint(_NO_TEXT):
            return all(map(self._add, values, sizes))
        self._answers += len(values)
        self._bytes += sum(sizes)
        self._longest = max(self._longest, *sizes)
        self._most = max(self._most, 1)
        return True

    def _add(self, value: str, size: int) -> bool:
        begin = value.lstrip()[:1]
        if begin and begin in _NO_TEXT:
            return self._add_list(value)
        self._unanswered += not begin
        self._answers += bool(begin)
        self._bytes += size if begin else 0
        self._most = max(self._most, int(bool(begin)))
        if begin and size > self._longest:
            self._longest = size
        return True

    def _add_list(self, value: str) -> bool:
        texts = texts_listed(value)
        if not texts:
            self._unanswered += texts is not None
            self._lists += texts is not None
            return texts is not None
        try:
            sizes = [*map(_bytes_of, accepted_in(value, "list"))]
        except NotAnswers:
            return False
        self._lists += 1
        self._most = max(self._most, len(sizes))
        self._answers += len(sizes)
        self._bytes += sum(sizes)
        self._longest = max(self._longest, *sizes)
        return True

    def facts(self) -> AnswerFacts | None:
        """Return the figures, None without a list or an answer."""
        if not self._lists or not self._answers:
            return None
        return AnswerFacts(
            most=self._most,
            answers=self._answers,
            total_bytes=self._bytes,
            longest=self._longest,
            unanswered=self._unanswered,
        )


class _Pictures:
    """Figures of the pictures of one field."""

    def __init__(self) -> None:
        self._size: PictureSize | None = None
        self._records = self._others = 0
        self._first_other: int | None = None

    def add(self, value: str) -> bool:
        """Add a value; return False if it is the first and no picture."""
        self._records += 1
        size = _size_of(value)
        self._size = self._size or size
        if size != self._size:
            self._others += 1
            self._first_other = self._first_other or self._records
        return self._size is not None

    def facts(self) -> PictureFacts | None:
        """Return the figures, None without any value."""
        if self._size is None:
            return None
        return PictureFacts(
            **self._size._asdict(), others=self._others, first_other=self._first_other
        )


def _size_of(value: str) -> PictureSize | None:
    if not value.startswith(PREFIX):  # as nearly all values of other datasets
        return None
    try:
        return picture_size(value)
    except NotAPicture:
        return None


def _add_to(buckets: list[int], values: Mapping[str, int]) -> None:
    for value, count in values.items():
        buckets[bucket_of(value)] += count


def _sizes_of(values: Sequence[str]) -> list[int]:
    return [*map(len if "".join(values).isascii() else _bytes_of, values)]


def _bytes_of(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode())


def _distinct(hashes: bytearray) -> int:
    """Return how many of the hashes differ."""
    return np.unique(np.frombuffer(hashes, np.uint64)).size
