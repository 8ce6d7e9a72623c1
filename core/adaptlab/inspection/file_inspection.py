"""What is in a file of records, before anything is uploaded."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import cast

from adaptlab.errors import InvalidSpec
from adaptlab.inspection.columns import Column, LengthSpread, pairs_of
from adaptlab.inspection.findings import FileFinding, findings_of
from adaptlab.inspection.fitting_task import Fit, SpecPart, spec_of, splits_of
from adaptlab.inspection.token_counts import TokenCounter
from adaptlab.plugins.text_task import LONGEST_ITEM
from adaptlab.records.conversations import without_answer
from adaptlab.records.facts import (
    AnswerFacts,
    ConversationFacts,
    FieldFacts,
    RecordsFacts,
    ValueCount,
)
from adaptlab.records.file_forms import FileForm, dataset_name
from adaptlab.records.file_reading import Reading, ReadingOptions
from adaptlab.records.gathering import Gatherer
from adaptlab.records.reading import reading_of_file, records_of
from adaptlab.text.cleaning import with_cleaning
from adaptlab.text.fitting import Roles, roles_of, roles_with
from adaptlab.text.splitting import SplitCounts
from adaptlab.values import Value

MOST_EXAMPLES = 3
LONGEST_EXAMPLE = 60
"""Characters of a value that is shown as an example."""


class Example(Value):
    """Two values of a field with their lines, cut to 60 characters."""

    lines: tuple[int, int]
    values: tuple[str, str]


class Pairs(Value):
    """Values or records nearly equal to an earlier one, with examples."""

    count: int
    examples: tuple[Example, ...]


class FieldReport(Value):
    """One field of a file.

    Attributes:
        name: its name.
        distinct: the number of different values.
        empty: records whose value is empty or has spaces only.
        bytes: lengths of the values in UTF-8.
        tokens: lengths in tokens, without those that a tokeniser adds; None without a tokeniser.
        values: all values with their counts; None if they are texts.
        nearly_equal: values that differ from an earlier one in case, spaces or punctuation only,
            or, as conversations, in the assistant's last turn.
        conversations: figures of conversations; None if a value is another text.
        answers: figures of right answers; None if no value is a list of texts.
    """

    name: str
    distinct: int
    empty: int
    bytes: LengthSpread
    tokens: LengthSpread | None
    values: tuple[ValueCount, ...] | None
    nearly_equal: Pairs
    conversations: ConversationFacts | None = None
    answers: AnswerFacts | None = None


class Inspection(Value):
    """A file of records.

    Attributes:
        file: its name.
        form: its form.
        reading: how it was read.
        first: its first records, with values cut to 60 characters.
        findings: what is wrong or odd in it, and what mends it.
        digest: the SHA-256 that its dataset will have.
        size_bytes: the size of its dataset's content.
        records: the number of records.
        copies: records that are equal to an earlier one in every field.
        fields: its fields, in order.
        roles: the fields that the fitting task would use; None if no task fits.
        contradictions: records whose text is nearly equal to that of a record with another answer.
        spec: the part of a spec with the task that fits; None if no task fits.
        splits: the number of records in each split; None if no task fits or a server would refuse
            it.
        notes: what to know before using the spec.
    """

    file: str
    form: FileForm
    reading: Reading
    first: tuple[dict[str, str], ...]
    findings: tuple[FileFinding, ...]
    digest: str
    size_bytes: int
    records: int
    copies: int
    fields: tuple[FieldReport, ...]
    roles: Roles | None
    contradictions: Pairs | None
    spec: SpecPart | None
    splits: SplitCounts | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MeasuredFile:
    """The columns of a file by name, and the line of every record.

    `first` are its first records, `foreign` is its first value beyond ASCII.
    """

    path: Path
    reading: Reading
    facts: RecordsFacts
    columns: Mapping[str, Column]
    lines: Sequence[int]
    size_bytes: int
    counter: TokenCounter | None
    first: tuple[dict[str, str], ...] = ()
    foreign: str = ""
    name: str = ""

    def roles(self, answer: str | None = None) -> Roles | None:
        """Return the fields of the task that fits, or of the one with this answer."""
        if answer is None:
            return roles_of(self.facts)
        return roles_with(self.facts, answer)

    def fit(
        self,
        roles: Roles,
        longest: int | None = None,
        *,
        by_head: bool | None = None,
        context: int = LONGEST_ITEM,
    ) -> Fit:
        """Return the part of a spec with the task; see `spec_of`.

        By default a head answers if the tokeniser's folder has an encoder.
        """
        if by_head is None:
            by_head = self.counter is not None and self.counter.is_of_encoder
        return spec_of(
            *(self.facts, roles, self.columns, self.counter, longest),
            by_head=by_head,
            context=context,
        )

    def counted_by(self, tokenizer: Path) -> "MeasuredFile":
        """Return the figures with lengths in tokens too; the file is read again."""
        return _measured(self.path, self.reading, tokenizer, self.name)

    def findings(self, roles: Roles | None) -> tuple[FileFinding, ...]:
        """Return what is wrong or odd, with these fields in a task."""
        return findings_of(self.facts, roles, self.columns, self.reading, self.foreign)

    def inspection(self) -> Inspection:
        """Return everything that is known of the file."""
        reports = tuple(self._report(field) for field in self.facts.fields)
        roles = self.roles()
        fit = roles and self.fit(roles)
        splits, notes = self._checked(fit) if fit else (None, ())
        return Inspection(
            file=self.name or self.path.name,
            form=self.reading.form,
            reading=self.reading,
            first=self.first,
            findings=self.findings(roles),
            digest=self.facts.digest,
            size_bytes=self.size_bytes,
            records=self.facts.records,
            copies=self.facts.copies,
            fields=reports,
            roles=roles,
            contradictions=roles and self._contradictions(roles),
            spec=fit and fit.spec,
            splits=splits,
            notes=notes,
        )

    def _checked(self, fit: Fit) -> tuple[SplitCounts | None, tuple[str, ...]]:
        """Return the sizes of the splits, and all notes on the task."""
        try:
            return splits_of(cast("SpecPart", fit.spec["task"]), self.facts), fit.notes
        except InvalidSpec as error:
            told = {"missing_label", "label_in_two_writings"}  # among the findings
            problems = (
                f"A server would refuse it: {problem.detail}"
                for problem in error.problems
                if problem.code not in told
            )
            return None, (*fit.notes, *problems)

    def _report(self, field: FieldFacts) -> FieldReport:
        column = self.columns[field.name]
        nearly_equal = column.nearly_equal()
        return FieldReport(
            name=field.name,
            distinct=column.distinct,
            empty=field.empty,
            bytes=column.bytes,
            tokens=column.tokens,
            values=field.values,
            nearly_equal=Pairs(
                count=nearly_equal.count, examples=self._examples(field.name, nearly_equal.places)
            ),
            conversations=field.conversations,
            answers=field.answers,
        )

    def _contradictions(self, roles: Roles) -> Pairs:
        # Nearly equal values of conversations are these; beside other fields, texts may be equal.
        if roles.text == roles.answer or roles.reads_more:
            return Pairs(count=0, examples=())
        text, answer = self.columns[roles.text], self.columns[roles.answer]
        found = pairs_of(text.forms, answer.values, text.is_empty_form)
        return Pairs(count=found.records, examples=self._examples(roles.text, found.places))

    def _examples(self, field: str, places: Iterable[tuple[int, int]]) -> tuple[Example, ...]:
        """Return the first examples; their values are read from the file again."""
        chosen = list(islice(places, MOST_EXAMPLES))
        if not chosen:
            return ()
        wanted = {place for pair in chosen for place in pair}
        records = islice(records_of(self.path, self.reading), max(wanted) + 1)
        values = {
            place: without_answer(placed.record[field])[:LONGEST_EXAMPLE]
            for place, placed in enumerate(records)
            if place in wanted
        }
        return tuple(
            Example(lines=(self.lines[one], self.lines[other]), values=(values[one], values[other]))
            for one, other in chosen
        )


def inspected(
    path: Path,
    form: FileForm,
    tokenizer: Path | None = None,
    options: ReadingOptions | None = None,
    name: str = "",
) -> Inspection:
    """Return what is in a file of records.

    The file is read a few times, and never as a whole. `name` is that of the file, if not its own.

    Raises:
        OSError: the file cannot be read.
        BadTokenizer: the tokenizer cannot be read.
        InvalidSpec: the file has problems, or is beyond a limit of datasets.
    """
    return measured(path, form, tokenizer, options, name).inspection()


def measured(
    path: Path,
    form: FileForm,
    tokenizer: Path | None = None,
    options: ReadingOptions | None = None,
    name: str = "",
) -> MeasuredFile:
    """Return the figures of a file of records.

    Raises:
        OSError: the file cannot be read.
        BadTokenizer: the tokenizer cannot be read.
        InvalidSpec: the file has problems, or is beyond a limit of datasets.
    """
    options = options or ReadingOptions()
    reading = reading_of_file(path, form, options, name or path.name)
    whole = _measured(path, reading, tokenizer, name)
    cleaned = with_cleaning(reading, whole.facts, options)
    return whole if cleaned == reading else _measured(path, cleaned, tokenizer, name)


def _measured(path: Path, reading: Reading, tokenizer: Path | None, name: str) -> MeasuredFile:
    counter = None if tokenizer is None else TokenCounter(tokenizer)
    named = Path(name or path.name)
    gatherer, columns = Gatherer(named.name), list[Column]()
    lines, first, foreign = array("Q"), list[dict[str, str]](), ""
    for line, record in records_of(path, reading, named.name):
        gatherer.add(record)
        columns = columns or [Column(counter) for _ in record]
        lines.append(line)
        if len(first) < MOST_EXAMPLES:
            first.append({name: _cut(value) for name, value in record.items()})
        for column, value in zip(columns, record.values(), strict=True):
            column.add(value)
            if not foreign and not value.isascii():
                foreign = value
    facts = gatherer.facts(dataset_name(named), gatherer.digest)
    by_name = dict(zip(facts.names(), columns, strict=True))
    size = gatherer.size_bytes
    return MeasuredFile(
        path, reading, facts, by_name, lines, size, counter, tuple(first), foreign, named.name
    )


def _cut(value: str) -> str:
    return value if len(value) <= LONGEST_EXAMPLE else f"{value[: LONGEST_EXAMPLE - 1]}…"
