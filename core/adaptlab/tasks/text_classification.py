"""Classification of texts by label words, or by a trained head."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.labels import problem_of_metric, problems_of_labels
from adaptlab.plugins.metric import LabelMetric
from adaptlab.plugins.task import TASKS
from adaptlab.plugins.text_task import PromptedTask
from adaptlab.records.facts import MOST_VALUES, MOST_WORDS, RecordsFacts
from adaptlab.records.record import FieldName, Record
from adaptlab.text.template import LONGEST_WORD, BadTemplate, Template, parsed
from adaptlab.validation import escaped
from adaptlab.values import Value

MOST_USUAL = 8
"""Tokens of a label word, if the spec does not say otherwise."""
MOST_USUAL_OF_OWN = 32
"""Likewise of a label word with fields."""

LabelWord = Annotated[str, Field(min_length=1, max_length=LONGEST_WORD)]


class Label(Value):
    """The field with the label.

    `words` has a word for each of its values, for `score: label_words` only. A word is a template
    like the prompt: with fields, such as " {option_a}", every record has choices of its own.
    `classes` are the values in the order of the outputs of a head, by default in alphabetical
    order.
    """

    field: FieldName
    words: Annotated[dict[str, LabelWord], Field(min_length=2, max_length=MOST_WORDS)] | None = None
    classes: Annotated[tuple[str, ...], Field(min_length=2, max_length=MOST_VALUES)] | None = None

    def __hash__(self) -> int:
        return hash((self.field, self.classes, *sorted((self.words or {}).items())))


@TASKS.register("text_classification")
class TextClassification(PromptedTask):
    """Choose the label of a record's text.

    By `label_words`, the model reads the prompt and answers with a word. The choice is the word to
    which it gives the highest probability among all label words; a word of several tokens has the
    product of their probabilities. Training minimises the loss on the tokens of the right word.
    If words have fields, this is multiple choice: the choices are those of the record. An encoder
    fills the word in, in place of a mask for each of its tokens behind the prompt; all words need
    equally many. It also reads the text `after` it, such as ".".

    With `calibration: empty_input`, the score of a word is its log-probability after the prompt
    minus that after the same prompt with every field empty, which removes the model's preference
    for some words. It decides validation and test scores and answers, not the training loss.
    Sources: Zhao et al. (ICML 2021); where words have fields, Holtzman et al. (EMNLP 2021).

    By `head`, a linear layer that starts at zero is trained with the method. It reads the last
    hidden state of the prompt's last token, or in an encoder the mean of those of all tokens. Its
    parameters are part of the budget. The base alone has an untrained head, which always answers
    the first class.

    With `metric: macro_f1`, trials are chosen by macro-F1 on validation, and comparisons show that
    of every method on test items beside accuracy. Verdicts are given by accuracy.

    Chance is the share of the most common label in the dataset, and 1 / number of choices where
    words have fields.
    """

    title: ClassVar[str] = "Text classification"
    hub_task: ClassVar[str] = "text-classification"
    summary: ClassVar[str] = "Texts of your own dataset with labels."
    reference: ClassVar[str] = "Schick, Schütze (EACL 2021), label words"
    ends: ClassVar[bool] = False

    name: Literal["text_classification"] = "text_classification"
    label: Label
    """field of the dataset that holds the label"""
    score: Literal["label_words", "head"] = "label_words"
    """answer by label words, or by a head for classes"""
    after: Annotated[str, Field(max_length=LONGEST_WORD)] = ""
    """text after a label word that an encoder fills in, such as a full stop"""
    calibration: Literal["none", "empty_input"] = "none"
    """correct scores of label words by those after an empty prompt"""
    metric: LabelMetric = "accuracy"
    """figure by which answers are scored"""

    def other_metric(self) -> str | None:
        return None if self.metric == "accuracy" else self.metric

    def answer_text(self, record: Record) -> str:
        words = self.label.words or {}
        return parsed(words[record[self.label.field]]).rendered(record).text

    def answer_field(self) -> tuple[str, str]:
        return "/label/field", self.label.field

    def usual_answer(self) -> int:
        words = [word.fixed for word in self.choices().values()]
        if None in words:
            return MOST_USUAL_OF_OWN
        # No tokeniser makes more tokens of a word than it has bytes.
        return min(MOST_USUAL, max((len(word.encode()) for word in words if word), default=1))

    def choices(self) -> Mapping[str, Template]:
        words = (self.label.words or {}) if self.score == "label_words" else {}
        return {value: parsed(word) for value, word in words.items()}

    def templates(self) -> Iterator[tuple[str, Template]]:
        yield from super().templates()
        yield from self._words_with_places()

    def compares_with_empty(self) -> bool:
        return self.calibration == "empty_input"

    def empty_prompt(self) -> str | None:
        if self.calibration == "none":
            return None
        template = self.template()
        return template.rendered(dict.fromkeys(template.fields, "")).text

    def text_after(self) -> str:
        return self.after

    def classes(self) -> int | None:
        if self.score == "label_words":
            return None
        return len(self.label.classes or ())

    def class_values(self) -> tuple[str, ...]:
        return (self.label.classes or ()) if self.score == "head" else ()

    def fits(self, facts: RecordsFacts) -> Iterator[Problem]:
        by_head = self.score == "head"
        if by_head and self.after:
            detail = "Only a label word has text after it. Leave `after` out with `score: head`."
            yield Problem("/after", "after_no_word", detail)
        yield from problems_of_labels(
            facts,
            self.label.field,
            self.label.classes if by_head else tuple(self.choices()),
            noun="class" if by_head else "word",
            place="classes" if by_head else "words",
            otherwise=", or the task text_completion" if by_head else ", or set `score` to head",
            most=MOST_VALUES if by_head else MOST_WORDS,
        )
        field = facts.field(self.label.field)
        yield from problem_of_metric(self.other_metric(), len((field and field.values) or ()))

    def found_in(self, facts: RecordsFacts) -> "TextClassification":
        """Return the task with the dataset's labels as classes of a head."""
        field = facts.field(self.label.field)
        if self.score != "head" or self.label.classes is not None or field is None:
            return self
        values = tuple(sorted(entry.value for entry in field.values or ()))
        return self.model_copy(update={"label": self.label.model_copy(update={"classes": values})})

    def chance(self) -> float:
        """Return the accuracy of always answering the most common label.

        Where choices are the record's own, a label stands for no text, and chance is that of
        guessing.
        """
        majority = None if self.has_own_choices() else self.reference_to_records().majority
        return majority or 1 / self._labels()

    def chance_loss(self) -> float:
        """Return the loss of guessing among classes, or among words of one token."""
        return math.log(self._labels())

    def passes_of_choices(self) -> int:
        """Return one pass per choice with fields, two with calibration.

        Whether other words need one depends on the tokeniser. Their calibration is a small part of
        a pass.
        """
        calibrated = self.compares_with_empty()
        return self._labels() * (1 + calibrated) if self.has_own_choices() else 0

    def _labels(self) -> int:
        return self.classes() or len(self.choices())

    def _own_problems(self) -> Iterator[Problem]:
        if broken := tuple(self._broken_words()):
            yield from broken
            return
        yield from super()._own_problems()
        yield from self._wrong_head() if self.score == "head" else self._wrong_words()

    def _wrong_head(self) -> Iterator[Problem]:
        """Yield the problems of the members that a head does not have."""
        words, classes = self.label.words, self.label.classes
        if words is not None:
            detail = "A head answers with classes and not with words. Leave the words out."
            yield Problem("/label/words", "words_of_head", detail)
        if self.tokens.answer is not None:
            detail = "A head's answer has no tokens. Leave the limit out."
            yield Problem("/tokens/answer", "answer_of_head", detail)
        if len(set(classes or ())) != len(classes or ()):
            detail = "A class occurs twice. List each once."
            yield Problem("/label/classes", "class_twice", detail)
        if self.calibration != "none":
            detail = (
                f"The calibration {self.calibration!r} compares label words, and a head has none. "
                "Leave `calibration` out, or set `score` to label_words."
            )
            yield Problem("/calibration", "calibration_of_head", detail)

    def _wrong_words(self) -> Iterator[Problem]:
        """Yield the problems of label words, which are templates."""
        words, classes = self.label.words, self.label.classes
        if words is None:
            detail = (
                'Give a word for every label, as in {"words": {"neg": " negative"}}, or set '
                "`score` to head."
            )
            yield Problem("/label/words", "missing", detail)
            return
        if classes is not None:
            detail = "Only a head has classes. Leave them out, or set `score` to head."
            yield Problem("/label/classes", "classes_of_words", detail)
        counts = Counter(words.values())
        if twice := [word for word, count in counts.items() if count > 1]:
            detail = f"The word {twice[0]!r} stands for several labels. Give each its own."
            yield Problem("/label/words", "word_twice", detail)
        for place, word in self._words_with_places():
            if self.label.field in word.fields:
                detail = f"The word contains {self.label.field!r}, which is the answer."
                yield Problem(place, "answer_in_word", detail)

    def _words_with_places(self) -> Iterator[tuple[str, Template]]:
        for value, word in self.choices().items():
            yield f"/label/words/{escaped(value)}", word

    def _broken_words(self) -> Iterator[Problem]:
        """Yield the problem of every word that is no template."""
        words = self.label.words if self.score == "label_words" else None
        for value, word in (words or {}).items():
            try:
                parsed(word)
            except BadTemplate as error:
                place = f"/label/words/{escaped(value)}"
                yield Problem(place, "bad_template", str(error), column=error.column)
