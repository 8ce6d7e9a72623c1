"""A first study of one's own task, with a default for each part."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import chain, count
from typing import TYPE_CHECKING, Self, cast

from pydantic import JsonValue, TypeAdapter

from adaptlab.errors import AdaptlabError, InvalidSpec
from adaptlab.inspection.fitting_task import MULTIPLE, Fit, splits_of
from adaptlab.plugins.dataset import Datasets
from adaptlab.plugins.family import AnyFamily, Family
from adaptlab.plugins.method import LARGE_BASE, METHODS, Method
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.task import TASKS
from adaptlab.plugins.text_task import LONGEST_ITEM
from adaptlab.records.facts import RecordsFacts
from adaptlab.specs.budget import check_method
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import PretrainSpec
from adaptlab.text.fitting import ASKS, LONGEST_ANSWER, Roles, limits_in_bytes

if TYPE_CHECKING:
    from adaptlab.inspection.file_inspection import MeasuredFile

JsonObject = dict[str, object]
"""A part of a spec, as JSON."""

NEW = "new"
"""The answer that stands for a small base model, which the study pretrains first."""

CLOSE = 0.05
"""The largest unused share of a budget that methods are called matched at."""

LEAST_SHARE = 0.001
"""The share of a base model's parameters that a proposed budget has at least."""

MOST_SIZES = 64
LIKE_THE_BASE = ("length", "alphabet")
"""Knobs of a task of digits that are copied from the base model's task."""

METHODS_OF_SMALL = ("frozen", "full_finetuning", "lora", "prefix_tuning", "soft_prompt")
METHODS_OF_HEADS = ("head_only", "lora", "ia3", "prefix_tuning", "soft_prompt")
"""For a task that a trained head answers; the head alone is what to beat."""
METHODS_OF_LARGE = ("frozen", "lora", "prefix_tuning", "soft_prompt")
"""Without full fine-tuning, which needs the memory of several copies of the model."""


class NoDraft(ValueError):
    """An answer from which no study can be made."""


@dataclass(frozen=True)
class DraftBase:
    """A base model, as far as it is known.

    Attributes:
        name: its name.
        parameters: the number of its parameters, None without a server.
        family: its family, None if it is not known here.
        task: the task of its pretraining, None if it was imported.
        spec: the spec of a base model that the study pretrains.
    """

    name: str
    parameters: int | None = None
    family: Family | None = None
    task: Mapping[str, object] | None = None
    spec: JsonObject | None = None
    classes: int | None = None

    @classmethod
    def of(
        cls,
        name: str,
        parameters: int | None,
        family: Mapping[str, object],
        task: Mapping[str, object] | None,
    ) -> Self:
        """Return what a server tells of a base model."""
        known = None
        with suppress(AdaptlabError, ValueError):  # of a plug-in that is not installed here
            known = TypeAdapter[Family](AnyFamily).validate_python(family)
        return cls(name, parameters, known, task)

    @property
    def needs_head(self) -> bool:
        """True if it cannot answer with words, so that texts need a trained head."""
        family = self.family
        return family is not None and not family.predicts_next()

    @property
    def reads_texts(self) -> bool:
        """True unless it is known to read images."""
        return self.family is None or self.family.image() is None

    @property
    def reads_bytes(self) -> bool:
        """True if texts are bytes for it."""
        return self.task is not None

    @property
    def is_small(self) -> bool:
        """True if it is known to be small."""
        return self.parameters is not None and self.parameters < LARGE_BASE

    def shape(self) -> ModelShape | None:
        """Return its shape with the head of the task, None if not known."""
        return None if self.family is None else family_shape(self.family, self.classes)

    def with_head_for(self, task: JsonObject, facts: RecordsFacts) -> "DraftBase":
        """Return the base model with the head for the classes of a task."""
        label = cast("JsonObject", task.get("label") or {})
        field = facts.field(str(label.get("field")))
        if task.get("score") != "head" or field is None:
            return self
        return replace(self, classes=len(field.values or ()))

    def suits(self, *, texts: bool) -> bool:
        """Return True if it was pretrained on tasks of this kind, or imported."""
        if self.task is None:
            return texts
        return str(self.task["name"]).startswith("text_") == texts


@dataclass(frozen=True, slots=True)
class Effort:
    """Training, tuning and evaluation of every method of a study."""

    steps: int
    batch_size: int
    trials: int
    validation_samples: int
    samples: int
    halves: bool = False

    def tuning(self) -> JsonObject:
        """Return the member `tuning` of a study."""
        halving: JsonObject = {"halving": {"rungs": 2, "keep": 0.5}} if self.halves else {}
        return {"trials": self.trials, "validation_samples": self.validation_samples, **halving}


USUAL_OF_SMALL = Effort(600, 32, 4, 640, 1000)
USUAL_OF_LARGE = Effort(200, 8, 5, 200, 1000, halves=True)
"""Five rates that halve cost as much as three that do not, and are closer to each other."""
USUAL_SEEDS = 5
MOST_SHOWN = 8
"""Test items whose attention is recorded, so that the verdict can say why."""
MOST_MAP_BYTES = 128 * 2**20
"""Of a job's attention maps, half of what servers allow unless they are set otherwise."""
FLOAT_BYTES = 4
USUAL_LENGTH = 256
"""Tokens of an item where the task does not limit them."""


@dataclass(frozen=True)
class StudyDraft:
    """The answers that make a study; without effort, it is the usual one."""

    name: str
    task: JsonObject
    base: DraftBase
    methods: Sequence[str]
    budgets: Sequence[int | float]
    seeds: int
    notes: tuple[str, ...] = field(default=())
    effort: Effort | None = None

    def document(self) -> JsonObject:
        """Return the spec of the study; fractions are shares of the base."""
        usual = USUAL_OF_SMALL if self.base.is_small else USUAL_OF_LARGE
        effort = self.effort or usual
        return {
            "name": self.name,
            "base_models": [self.base.spec or self.base.name],
            "tasks": [self.task],
            "methods": [*self.methods],
            "budgets": [
                {"fraction_of_base": budget} if isinstance(budget, float) else budget
                for budget in self.budgets
            ],
            "seeds": self.seeds,
            "training": {
                "steps": effort.steps,
                "batch_size": effort.batch_size,
                "validations": 5,
            },
            "tuning": effort.tuning(),
            "evaluation": {"samples": effort.samples},
            **({"capture": {"attention": {"samples": shown}}} if (shown := self._shown()) else {}),
        }

    def _shown(self) -> int:
        """Return the number of items whose attention maps are not too large."""
        shape = self.base.shape()
        if shape is None or not (shape.layers and shape.heads):
            return 0
        limits = cast("JsonObject", self.task.get("tokens") or {})
        length = cast("int", limits.get("longest", USUAL_LENGTH))
        learned = max((int(size) // shape.width for size in self.budgets), default=0)
        maps = 2 * self.seeds * shape.layers * shape.heads  # of base and adaptation
        each = maps * length * (length + learned) * FLOAT_BYTES
        return min(MOST_SHOWN, MOST_MAP_BYTES // each)


def in_order(bases: Sequence[DraftBase], *, texts: bool) -> list[DraftBase]:
    """Return the base models that suit a task first."""
    return sorted(bases, key=lambda base: not base.suits(texts=texts))


def new_base_for_texts(facts: RecordsFacts, roles: Roles, seeds: int) -> DraftBase:
    """Return a small base model of bytes that has learned a dataset's texts.

    It reads the answer of a record and writes the text, so that it has learned the language of the
    texts and not the task.

    Raises:
        NoDraft: the texts are too long, or empty, or they are conversations or images.
    """
    if roles.task == "chat_completion":
        raise NoDraft(
            "A new base model would be pretrained on the conversations themselves. Import a model "
            "with `adaptlab base-models import`, or pretrain one on other texts, and give its name."
        )
    if roles.task == "image_classification":
        raise NoDraft(
            "A new base model would read texts and not images. Import a ViT with `adaptlab "
            "base-models import`, and give its name."
        )
    text, answer = facts.field(roles.text), facts.field(roles.answer)
    assert text is not None
    assert answer is not None
    longest = text.longest + 1
    if longest > LONGEST_ANSWER:
        raise NoDraft(
            f"The longest {roles.text!r} has {longest - 1:,} bytes, and a new base model is "
            f"pretrained on texts of at most {LONGEST_ANSWER - 1}. Import a model with `adaptlab "
            "base-models import`, and give its name."
        )
    # Room for the longest record in both directions, with line feed, both ends and the prompt.
    answers = min(answer.longest, LONGEST_ANSWER)
    limits = limits_in_bytes(facts, roles, len(ASKS) + 4, LONGEST_ITEM)
    needed = max(longest + answers + 7, cast("int", limits["longest"]))
    context = -(-needed // MULTIPLE) * MULTIPLE
    task: dict[str, JsonValue] = {
        "name": "text_completion",
        "dataset": facts.name,
        "prompt": f"{{{roles.answer}}}\n",
        "answer": {"field": roles.text},
        "metric": "perplexity",
        "tokens": {"longest": context, "answer": longest, "if_longer": "cut"},
        "splits": {"validation": 0.1, "test": 0.2, "by": roles.text},
    }
    family: JsonObject = {"name": "minigpt", "layers": 2, "heads": 4, "width": 64}
    family["context"] = context
    return _new(f"{facts.name}-base", family, dict(task), seeds, {facts.name: facts})


def new_base_for(task: JsonObject, name: str, seeds: int) -> DraftBase:
    """Return a small base model that sorts digits.

    Raises:
        NoDraft: the task is not known here.
    """
    own = "sort_descending" if task["name"] == "sort_ascending" else "sort_ascending"
    knobs = {knob: task[knob] for knob in LIKE_THE_BASE if knob in task}
    family: JsonObject = {"name": "minigpt", "layers": 1, "heads": 1, "width": 64}
    return _new(f"{name}-base", family, {"name": own, **knobs}, seeds, {})


def task_of_file(file: "MeasuredFile", roles: Roles, base: DraftBase) -> Fit:
    """Return the task of a file, with limits in the tokens of a base model.

    Raises:
        NoDraft: the records do not allow the task.
    """
    shape = base.shape()
    most = min(LONGEST_ITEM, shape.context) if shape else LONGEST_ITEM
    longest = most if base.reads_bytes else None
    fit = file.fit(roles, longest, by_head=base.needs_head, context=most)
    try:
        splits_of(cast("JsonObject", fit.spec["task"]), file.facts)
    except InvalidSpec as error:
        raise NoDraft(f"{file.path.name} does not allow the task: {_reasons(error)}") from error
    return fit


def like_the_base(task: JsonObject, base: DraftBase) -> JsonObject:
    """Return a task of digits with the length and alphabet of a base model's."""
    if base.task is None or "text_" in str(task["name"]):
        return task
    own = {knob: base.task[knob] for knob in LIKE_THE_BASE if knob in base.task}
    known = TASKS.get(str(task["name"])).model_fields
    return {**{knob: value for knob, value in own.items() if knob in known}, **task}


def usual_draft(name: str, task: JsonObject, base: DraftBase, facts: RecordsFacts) -> StudyDraft:
    """Return the study that is proposed for a dataset and a base model.

    Without known sizes the budget is a thousandth of the base model.
    """
    methods, headed = usual_methods(base, task), base.with_head_for(task, facts)
    budget = matched_budget(methods, headed) or LEAST_SHARE
    return StudyDraft(name, task, base, methods, [budget], USUAL_SEEDS)


def usual_methods(base: DraftBase, task: JsonObject) -> tuple[str, ...]:
    """Return the methods that are proposed for a base model and a task."""
    if task.get("score") == "head":
        return METHODS_OF_HEADS
    return METHODS_OF_SMALL if base.is_small else METHODS_OF_LARGE


def check_methods(
    names: Sequence[str], base: DraftBase, task: JsonObject, served: Sequence[str]
) -> None:
    """Raise `NoDraft` for a method that does not exist or fit.

    Args:
        names: the names of methods.
        base: the base model.
        task: the task, which texts may be for.
        served: the methods of the server, empty without one.
    """
    texts = TASKS.get(str(task["name"])).needs_tokeniser
    listed = served or METHODS.names()
    for name in names:
        if name not in listed:
            near = get_close_matches(name, listed, cutoff=0.4) or listed
            raise NoDraft(f"There is no method {name!r}. Take one of {', '.join(near)}.")
        method = _method(name)
        if method is None:
            continue
        if texts and method.follows_question():
            raise NoDraft(
                f"{name} places learned positions after the question, and texts differ in length. "
                "Use another method."
            )
        if shape := base.shape():
            try:
                check_method(method, shape)
            except InvalidSpec as error:
                raise NoDraft(f"{name} does not fit {base.name}: {_reasons(error)}") from error


def matched_budget(methods: Sequence[str], base: DraftBase) -> int | None:
    """Return the smallest budget that the methods nearly use up.

    Every method other than a reference leaves at most 5 % of it unused, if such a budget is among
    their first sizes. It is at least a thousandth of the base model. The result is None if the
    sizes are not known here.
    """
    shape = base.shape()
    known = [method for name in methods if (method := _method(name))]
    compared = [m for m in known if m.size_is_free() or not (m.is_reference or m.moves_content)]
    # What has one size only, such as a head, is within any budget and matches none.
    compared = [m for m in compared if m.size_is_free()] or compared
    if shape is None or not compared:
        return None
    least = max(method.smallest().trained_scalars(shape) for method in compared)
    least = max(least, round(LEAST_SHARE * shape.parameters))
    sizes = sorted({size for method in compared for size in _sizes(method, shape, least)})
    gaps = {
        size: max(1 - m.within(shape, size).trained_scalars(shape) / size for m in compared)
        for size in sizes or [least]
    }
    return next((size for size in gaps if gaps[size] <= CLOSE), min(gaps, key=gaps.__getitem__))


def spread_of(trained: Sequence[int]) -> float:
    """Return the share by which the smallest size is below the largest."""
    return 1 - min(trained) / max(trained) if trained and max(trained) else 0.0


def free_name(wanted: str, is_taken: Callable[[str], bool]) -> str:
    """Return a name that is not taken: the wanted one, or that with a number."""
    names = chain([wanted], (f"{wanted[:58]}-{number}" for number in count(2)))
    return next(name for name in names if not is_taken(name))


def _new(
    name: str, family: JsonObject, task: JsonObject, seeds: int, datasets: Datasets
) -> DraftBase:
    spec: JsonObject = {
        "kind": "pretrain",
        "name": name[-63:].lstrip("-._"),
        "family": family,
        "task": task,
        "training": {"steps": 900, "batch_size": 32, "learning_rate": 0.005, "validations": 5},
        "seeds": seeds,
        "evaluation": {"samples": 200},
    }
    try:
        resolved = resolve(PretrainSpec.model_validate(spec), None, datasets)
    except InvalidSpec as error:
        raise NoDraft(f"No base model can be pretrained for this: {_reasons(error)}") from error
    parameters = family_shape(resolved.family).parameters
    return DraftBase(str(spec["name"]), parameters, resolved.family, task, spec)


def _reasons(error: InvalidSpec) -> str:
    return " ".join(problem.detail for problem in error.problems)


def _method(name: str) -> Method | None:
    """Return a method with its defaults, None if it is not installed here."""
    if name not in METHODS.names():
        return None
    return METHODS.get(name).model_validate({"name": name})


def _sizes(method: Method, shape: ModelShape, least: int) -> Iterator[int]:
    """Yield the method's sizes from about `least` parameters on."""
    if not method.size_is_free():
        yield from (size for size in [method.trained_scalars(shape)] if size >= least)
        return
    first = max(1, least // method.smallest().trained_scalars(shape))
    for size in range(first, min(first + MOST_SIZES, method.largest_size(shape)) + 1):
        trained = method.with_size(size).trained_scalars(shape)
        if trained >= least:
            yield trained
