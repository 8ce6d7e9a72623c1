"""Items of standard tasks as a harness renders them, one per record.

The client renders and stages them; the trainer scores them without the harness. Every value is the
exact text, so that prompts stay those of the harness.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, cast, get_args

from pydantic import Field, TypeAdapter, ValidationError

from adaptlab.records.facts import RecordsFacts
from adaptlab.records.generation import Generation, generation_of
from adaptlab.records.record import Record
from adaptlab.records.text_units import TEXT_UNITS, TextUnit
from adaptlab.values import Name, Value

LONGEST_NAME = 63
DIGITS = 8
"""Digits of a digest that tell apart long names of tasks."""
SPLIT = "test"
"""The value of `split` in every record."""
Output = Literal["multiple_choice", "loglikelihood", "generate_until", "loglikelihood_rolling"]
ROLLING = "loglikelihood_rolling"
TextMetric = Literal["bits_per_byte", "byte_perplexity", "word_perplexity"]
"""Figures of tasks whose texts are read in windows."""
TEXT_METRICS: tuple[TextMetric, ...] = get_args(TextMetric)
ShortDigest = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
"""The first 64 bits of a SHA-256."""

_TEXTS: TypeAdapter[list[str]] = TypeAdapter(list[str])


class Rendering(Value):
    """The origin of rendered items, the same in every record.

    Attributes:
        task: the task's name in the harness.
        output: `multiple_choice`, where the likeliest of several choices is the answer,
            `loglikelihood`, where an answer is right if greedy decoding gives it,
            `generate_until`, where what is read from a generated answer is compared, or
            `loglikelihood_rolling`, where the likelihoods of texts are summed.
        shots: examples before every item.
        seed: the seed with which they were drawn.
        harness: the version of the package lm-eval.
        version: the task's own version.
        yaml: digest of the task's resolved configuration.
        data: digest of the documents of its items and examples.
        choices: the most choices of an item; 1 without choices.
        chance: the mean of 1 / number of choices.
        answer: bytes of the longest choice or target, with what separates it from the context.
        text: the mean bytes of texts that are read in windows, None of other items.
    """

    task: str
    output: Output
    shots: int
    seed: int
    harness: str
    version: str
    yaml: ShortDigest
    data: ShortDigest
    choices: Annotated[int, Field(ge=1, le=127)]
    chance: Annotated[float, Field(gt=0, le=1)]
    answer: Annotated[int, Field(ge=1)]
    text: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        exclude_if=lambda text: text is None,  # older jobs keep their digests
    )


@dataclass(frozen=True, slots=True)
class RenderedItem:
    """One item: a continuation for each choice, each behind a context.

    Where an answer is generated, each choice is a target, and each is right. A text that is read in
    windows is the only continuation, behind nothing.

    Attributes:
        document: the item's number in the split of the task.
        contexts: the text before each continuation.
        continuations: the texts whose likelihoods are compared.
        choices: the bare choices, whose lengths normalise likelihoods.
        gold: the place of the right one, of targets the first.
        sizes: the length of a text by unit, as its task counts it; empty for other items.
    """

    document: int
    contexts: tuple[str, ...]
    continuations: tuple[str, ...]
    choices: tuple[str, ...]
    gold: int
    sizes: Mapping[TextUnit, int] = field(default_factory=dict[TextUnit, int])

    def record(self, rendering: Rendering, generation: Generation | None = None) -> dict[str, str]:
        """Return the record of the item.

        `context` is what all contexts begin with, and `endings` what follows in each.
        """
        shared = _shared_beginning(self.contexts)
        return {
            "document": str(self.document),
            "context": shared,
            "endings": _listed([context[len(shared) :] for context in self.contexts]),
            "continuations": _listed(self.continuations),
            "choices": _listed(self.choices),
            "gold": str(self.gold),
            "split": SPLIT,
            "task": rendering.task,
            "rendering": rendering.model_dump_json(exclude={"task"}),
            **{unit: str(size) for unit, size in self.sizes.items()},
            **({} if generation is None else generation.fields()),
        }


def item_of(record: Record) -> RenderedItem:
    """Return the item of a record.

    Raises:
        ValueError: the record is not that of an item.
    """
    try:
        endings = _TEXTS.validate_json(record["endings"])
        continuations = _TEXTS.validate_json(record["continuations"])
        choices = _TEXTS.validate_json(record["choices"])
        document, gold = int(record["document"]), int(record["gold"])
        sizes: dict[TextUnit, int] = {
            unit: int(record[unit]) for unit in TEXT_UNITS if unit in record
        }
    except (KeyError, ValidationError) as error:
        raise ValueError("The record is not an item of a standard task.") from error
    if not len(endings) == len(continuations) == len(choices) > gold >= 0:
        raise ValueError("An item needs a context, a continuation and a choice for each answer.")
    contexts = tuple(record["context"] + ending for ending in endings)
    return RenderedItem(document, contexts, tuple(continuations), tuple(choices), gold, sizes)


def rendering_of(facts: RecordsFacts) -> Rendering | None:
    """Return the origin of a dataset's items, None for another dataset."""
    task, origin = only_value(facts, "task"), only_value(facts, "rendering")
    if task is None or origin is None:
        return None
    try:
        return Rendering.model_validate({"task": task, **json.loads(origin)})
    except (ValueError, TypeError):  # no JSON, or no such members
        return None


def text_metrics(task: Mapping[str, object]) -> tuple[TextMetric, ...]:
    """Return the figures of a task that reads windows, by its configuration.

    There are none of another task.
    """
    return TEXT_METRICS if _output_of(task) == ROLLING else ()


def has_choices(task: Mapping[str, object]) -> bool:
    """Return True if a task compares rendered choices, by its configuration."""
    return _output_of(task) == "multiple_choice"


def _output_of(task: Mapping[str, object]) -> object:
    rendering = task.get("rendering")
    if not isinstance(rendering, Mapping):
        return None
    return cast("Mapping[str, object]", rendering).get("output")


def generated_by(facts: RecordsFacts) -> Generation | None:
    """Return how the answers of a dataset's items are generated, if they are."""
    return generation_of({name: only_value(facts, name) for name in facts.names()})


def only_value(facts: RecordsFacts, name: str) -> str | None:
    """Return the value that all records have in a field, if it is one."""
    field = facts.field(name)
    values = (field.values if field else None) or ()
    return values[0].value if len(values) == 1 else None


def dataset_of(task: str, shots: int, limit: int | None = None) -> Name:
    """Return the name of the dataset with the items of a task.

    `limit` is the number of items if only the first were rendered.
    """
    end = f"-{shots}-shots" + (f"-first-{limit}" if limit else "")
    name = re.sub(r"[^a-z0-9._-]+", "-", task.lower()).strip("-._") or "task"
    if name != task or len(name) + len(end) > LONGEST_NAME:
        digest = hashlib.sha256(task.encode()).hexdigest()[:DIGITS]
        name = f"{name[: LONGEST_NAME - len(end) - DIGITS - 1]}-{digest}"
    return name + end


def _listed(texts: list[str] | tuple[str, ...]) -> str:
    return json.dumps(list(texts), ensure_ascii=False)


def _shared_beginning(texts: tuple[str, ...]) -> str:
    """Return what all texts begin with."""
    first, last = min(texts), max(texts)
    count = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first if count is None else first[:count]
