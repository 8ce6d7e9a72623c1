"""Tasks over datasets of records, as declarative views of them.

A task says which text of a record is the prompt, and which the answer. Its tokens are those of the
base model's own tokeniser, so the task itself has none.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.records_task import RecordsTask, names_field, problems_of_splits
from adaptlab.plugins.task import only_own_items
from adaptlab.records.facts import RecordsFacts
from adaptlab.records.record import FieldName, Record
from adaptlab.text.encoding import Keep
from adaptlab.text.lengths import MeanBytes, padded_tokens, rendered_bytes
from adaptlab.text.splitting import SplitRule, SplitsByValue, unknown_field
from adaptlab.text.template import LONGEST_TEMPLATE, BadTemplate, Template, parsed
from adaptlab.text.tokeniser import BYTES_VOCABULARY, Tokeniser
from adaptlab.values import Value

LONGEST_ITEM = 8192
"""Limit in tokens of a prompt with its answer."""


class PromptCut(Value):
    """The field that is shortened if a prompt is too long.

    `keep` is the part of its value that stays. By default the field is the first of the prompt.
    """

    field: FieldName | None = None
    keep: Keep = "start"


class TokenLimits(Value):
    """Limits in tokens of the base model's tokeniser.

    `longest` is that of a prompt with its answer, and `answer` that of an answer; by default it
    depends on the task. A job with a longer item fails with the number of such items, unless
    `if_longer` is `cut`, which shortens a field.
    """

    longest: Annotated[int, Field(ge=4, le=LONGEST_ITEM)] = 256
    answer: Annotated[int, Field(ge=1, le=512)] | None = None
    if_longer: Literal["refuse", "cut"] = "refuse"
    cut: PromptCut = PromptCut()


class TextTask(RecordsTask, ABC):
    """A task whose prompts and answers are texts of records."""

    needs_tokeniser: ClassVar[bool] = True
    ends: ClassVar[bool]
    """Whether the token that ends a text follows an answer."""

    tokens: TokenLimits = TokenLimits()
    """most tokens of an item"""
    splits: SplitRule = SplitsByValue()
    """shares of training, validation and test records"""

    @abstractmethod
    def template(self) -> Template:
        """Return the parsed prompt."""

    @abstractmethod
    def answer_text(self, record: Record) -> str:
        """Return the text that follows the prompt of a record."""

    def accepted(self, record: Record) -> tuple[str, ...]:
        """Return the right answers of a record, the one of training first."""
        return (self.answer_text(record),)

    def accepts_several(self) -> bool:
        """Return True if a record can have several right answers."""
        return False

    def wanted_answers(self) -> str:
        """Return what to give where a field does not hold right answers."""
        return "Give every record an answer."

    def conversations(self) -> str | None:
        """Return the field with conversations.

        They are rendered by the base model's chat template, and their last turn is the answer. The
        result is None if prompts and answers are texts.
        """
        return None

    def is_rendered(self) -> bool:
        """Return True if records hold the requests that a harness has rendered."""
        return False

    def reads_windows(self) -> bool:
        """Return True if whole texts are read, in windows of `tokens.longest`."""
        return False

    def size_of(self, choice: str) -> int:
        """Return what a rendered choice's log-likelihood is divided by."""
        return 1

    def tokeniser(self) -> Tokeniser:
        """Return the tokeniser of its texts."""
        return self.source().tokeniser

    def typical_length(self, vocabulary: int, mean_bytes: MeanBytes) -> int:
        """Return the tokens of an item of a typical batch, with its padding."""
        means, longest = mean_bytes(self.reference_to_records().digest), self.sequence_length()
        used = (self.template(), *self.choices().values())
        if means is None or not {field for text in used for field in text.fields} <= means.keys():
            return longest
        mean = rendered_bytes(self.template(), means) + self._answer_bytes(means)
        return min(longest, max(padded_tokens(mean, vocabulary), self.target_length() + 1))

    def _answer_bytes(self, means: Mapping[str, float]) -> float:
        """Return the mean bytes of an answer beside its prompt; a class has none."""
        if self.classes() is not None:
            return 0.0
        if words := [rendered_bytes(word, means) for word in self.choices().values()]:
            return sum(words) / len(words)
        if self.conversations() is not None:
            return 0.0  # the answer is in the same field as the prompt
        return means.get(self.answer_field()[1], 0.0)

    @abstractmethod
    def usual_answer(self) -> int:
        """Return the limit on the tokens of an answer if the spec has none."""

    @abstractmethod
    def fits(self, facts: RecordsFacts) -> Iterator[Problem]:
        """Yield what the answer's field does not allow; the field exists."""

    def unread_answers(self, facts: RecordsFacts) -> Iterator[Problem]:
        """Yield the problem of right answers that the task's metric cannot read."""
        metric, field = self.own_metric(), facts.field(self.answer_field()[1])
        assert field is not None
        for missed in field.missed_forms or ():
            if metric is not None and missed.form == metric.reads:
                answer = f"the right answer of record {missed.first:,} of {facts.name!r}"
                yield Problem("/metric", "unread_answers", metric.unread(answer))

    def choices(self) -> Mapping[str, Template]:
        """Return the label words by the value of the answer's field.

        The result is empty if any text can be the answer.
        """
        return {}

    def has_own_choices(self) -> bool:
        """Return True if label words differ between records."""
        return any(word.fields for word in self.choices().values())

    def listed_answers(self) -> Mapping[str, str | None]:
        """Return the label words or classes, as text, by their labels."""
        words = {value: word.fixed for value, word in self.choices().items()}
        return words or super().listed_answers()

    def templates(self) -> Iterator[tuple[str, Template]]:
        """Yield all templates, with their pointers below the task."""
        yield "/prompt", self.template()

    def empty_prompt(self) -> str | None:
        """Return the prompt that scores are calibrated by, None if none is."""
        return None

    def text_after(self) -> str:
        """Return the text that follows the answer where a model fills it in."""
        return ""

    def answer_tokens(self) -> int:
        """Return the limit on the tokens of an answer."""
        return self.tokens.answer or self.usual_answer()

    def split_rule(self) -> SplitRule:
        """Return the rule with every default filled in."""
        if names_field(self.splits):
            return self.splits
        first = next(iter(self.template().fields), None)
        return self.splits.model_copy(update={"by": self.cluster or first})

    def cut_field(self) -> str:
        """Return the field that is shortened if a prompt is too long."""
        return self.tokens.cut.field or next(iter(self.template().fields))

    def vocabulary(self) -> int:
        """Return the tokens of the tokeniser of bytes, the smallest that there is."""
        return BYTES_VOCABULARY

    def input_length(self) -> int:
        """Return the largest number of tokens of a prompt."""
        if self.classes() is not None:
            return self.tokens.longest
        return self.tokens.longest - self.answer_tokens()

    def longest_demonstration(self, separator: str) -> int | None:
        """Return the most tokens of an item and a separator.

        A separator has at most as many tokens as bytes.
        """
        if self.classes() is not None:
            return None
        return self.tokens.longest + len(separator.encode())

    def target_length(self) -> int:
        """Return the largest number of tokens of an answer; a class counts as one."""
        return self.answer_tokens() if self.classes() is None else 1

    def input_problem(self) -> Problem:
        """Return the reason why only records can be asked."""
        return only_own_items(self.name, "records of its dataset", "inputs_of_texts")

    def reading_problem(self, family: Family) -> Problem | None:
        """Return the problem of a model that cannot answer where answers are."""
        if (problem := super().reading_problem(family)) or self.classes() is not None:
            return problem
        if family.fills_in():
            return family.padding_problem("no_words_in_family") or self._filling_problem()
        if self.text_after():
            detail = (
                "The model continues the prompt and reads nothing after the answer. Leave `after` "
                "out, or use an encoder that fills masks in."
            )
            return Problem("/after", "nothing_read_after", detail)
        return None

    def mask_problem(self, family: Family) -> None:
        """Return None: the mask is among the tokens of texts, for answers."""

    def _filling_problem(self) -> Problem | None:
        """Return the problem of answers that masks behind a text do not give."""
        if not self.choices():
            detail = (
                f"The model fills in masks instead of continuing a text, so {self.name} needs a "
                "decoder. Use text_classification, with label words or with `score: head`."
            )
            return Problem("", "no_words_from_encoders", detail)
        if self.has_own_choices():
            detail = (
                "The model fills in a mask for each token of a label word, and words with fields "
                "have different numbers of tokens. Use words without fields, or a decoder."
            )
            return Problem("/label/words", "own_words_from_encoders", detail)
        return None

    def _own_problems(self) -> Iterator[Problem]:
        """Yield the problems that do not depend on the dataset."""
        if self.classes() is None and self.answer_tokens() >= self.tokens.longest:
            detail = (
                f"An answer of {self.answer_tokens()} tokens leaves no room for a prompt in "
                f"{self.tokens.longest}. Raise `longest`."
            )
            nearest = (self.answer_tokens() + 1,)
            yield Problem("/tokens/longest", "no_room_for_prompt", detail, nearest=nearest)

    def _misfits(self, facts: RecordsFacts) -> Iterator[Problem]:
        """Yield what the dataset does not allow."""
        for place, template in self.templates():
            for name in template.fields:
                if facts.field(name) is None:
                    yield unknown_field(place, name, facts)
        pointer, name = self.answer_field()
        if facts.field(name) is None:
            yield unknown_field(pointer, name, facts)
        else:
            yield from self.fits(facts)
        is_known = all(facts.field(name) is not None for name in self.template().fields)
        if not is_known and self.split_rule() != self.splits:
            return  # the rule follows from the prompt
        yield from problems_of_splits(self.split_rule(), self.cluster, facts)

    def _known_of(self, facts: RecordsFacts) -> dict[str, Value]:
        known = super()._known_of(facts)
        if self.classes() is None:
            known["tokens"] = self.tokens.model_copy(update={"answer": self.answer_tokens()})
        return known


class PromptedTask(TextTask, ABC):
    """A task over texts whose prompts are written by a template.

    `prompt` is the template: text with the names of fields in braces.
    """

    prompt: Annotated[str, Field(min_length=1, max_length=LONGEST_TEMPLATE)]
    """text before the answer, with fields in braces: {text}"""

    def template(self) -> Template:
        """Return the parsed prompt."""
        return parsed(self.prompt)

    def _own_problems(self) -> Iterator[Problem]:
        try:
            fields = self.template().fields
        except BadTemplate as error:
            yield Problem("/prompt", "bad_template", str(error), column=error.column)
            return
        if not fields:
            detail = "The prompt contains no field. Write the name of a field in braces: {text}."
            yield Problem("/prompt", "no_field", detail)
        if self.answer_field()[1] in fields:
            detail = f"The prompt contains {self.answer_field()[1]!r}, which is the answer."
            yield Problem("/prompt", "answer_in_prompt", detail)
        yield from super()._own_problems()
        cut = self.tokens.cut.field
        if cut is not None and cut not in fields:
            detail = f"The prompt does not contain {cut!r}, the field to cut."
            yield Problem("/tokens/cut/field", "not_in_prompt", detail, allowed=fields)
