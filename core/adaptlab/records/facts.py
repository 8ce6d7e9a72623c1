"""Facts about a dataset of records, without its content."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from adaptlab.records.answer_forms import AnswerForm
from adaptlab.records.buckets import BUCKETS
from adaptlab.records.record import MOST_FIELDS, FieldName
from adaptlab.values import Name, Value

MOST_WORDS = 64
"""The most labels with a word each; every word is scored for every record."""
LONGEST_VALUE = 256
"""Characters up to which values of a field are counted one by one."""
MOST_VALUES = 1024
"""The most different values of a field that are counted one by one, and the most classes."""
MOST_CONFUSED = 32
"""The most labels whose right and given ones are counted, and macro-F1 with them."""
MOST_SIGNS = 16_384
"""Characters of all values together above which more than `MOST_WORDS` are not counted."""


class ValueCount(Value):
    """A value of a field, and how many records have it."""

    value: str
    count: int


class ConversationFacts(Value):
    """Figures of a field whose values are all conversations.

    Attributes:
        messages: messages of all conversations together.
        longest: messages of the longest one.
        with_system: conversations that begin with a system message.
        unanswered: conversations that do not end with the assistant's turn.
        longest_answer: bytes of the longest last turn of the assistant in UTF-8.
    """

    messages: int
    longest: int
    with_system: int
    unanswered: int
    longest_answer: int


class AnswerFacts(Value):
    """Figures of a field of right answers, some as lists of texts.

    Attributes:
        most: the most different answers of a record.
        answers: those of all records together.
        total_bytes: bytes of all answers in UTF-8.
        longest: bytes of the longest one.
        unanswered: records without an answer; those with an empty list, and `empty` ones.
    """

    most: int
    answers: int
    total_bytes: int
    longest: int
    unanswered: int


class PictureFacts(Value):
    """Figures of a field whose first value is a picture.

    Attributes:
        channels: 1 for grey, 3 for red, green and blue; of the first picture.
        height: its rows of pixels.
        width: the pixels of a row.
        others: records whose value has another size or is no picture.
        first_other: the first of these records, counted from 1; None if there is none.
    """

    channels: int
    height: int
    width: int
    others: int
    first_other: int | None


class MissedForm(Value):
    """A form of answers that not every value of a field has.

    Attributes:
        form: the form; see `adaptlab.records.answer_forms`.
        first: the first record whose value does not have it, counted from 1.
    """

    form: AnswerForm
    first: int


class FieldFacts(Value):
    """One field of all records.

    Attributes:
        name: its name.
        longest: bytes of its longest value in UTF-8.
        empty: records whose value is empty or has spaces only.
        total_bytes: bytes of all its values; None for datasets of earlier versions.
        values: its values with their counts, sorted by value; None if they are texts: one has more
            than 256 characters, there are more than 1,024, or there are more than 64 and most occur
            once or they have more than 16,384 characters together.
        buckets: records by the bucket of their value; see `adaptlab.records.buckets`.
        conversations: figures of conversations; None if a value is another text, and for datasets
            of earlier versions.
        pictures: figures of pictures; None if the first value is none, and for datasets of earlier
            versions.
        missed_forms: forms of answers that not every value has; None for datasets of earlier
            versions, whose answers are checked when a job reads them.
        answers: figures of right answers; None if no value is a list of texts or one is other JSON,
            and for datasets of earlier versions.
    """

    name: FieldName
    longest: int
    empty: int
    total_bytes: int | None = None
    values: tuple[ValueCount, ...] | None
    buckets: Annotated[tuple[int, ...], Field(min_length=BUCKETS, max_length=BUCKETS)]
    conversations: ConversationFacts | None = None
    pictures: PictureFacts | None = None
    missed_forms: tuple[MissedForm, ...] | None = None
    answers: AnswerFacts | None = None


class RecordsFacts(Value):
    """The facts about a dataset of records.

    Attributes:
        name: its name on the server.
        digest: the SHA-256 of its canonical content.
        records: the number of records.
        copies: records that are equal to an earlier one in every field.
        fields: its fields, in the order of the content.
    """

    kind: Literal["records"] = "records"
    name: Name
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    records: int
    copies: int
    fields: Annotated[tuple[FieldFacts, ...], Field(min_length=1, max_length=MOST_FIELDS)]

    def field(self, name: str) -> FieldFacts | None:
        """Return the facts about a field, None if there is no such field."""
        return next((field for field in self.fields if field.name == name), None)

    def names(self) -> Iterable[str]:
        """Return the names of all fields, in order."""
        return (field.name for field in self.fields)
