"""The form of a job: the fields and initial values for each kind of job."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from sqlalchemy.orm import Session

from adaptlab.specs.spec import PretrainSpec
from adaptlab.studies.study import StudySpec
from adaptlab_answers.models import BaseModelView, PlugIn
from adaptlab_api.pages.rendering.examples import FIRST_JOB
from adaptlab_api.pages.rendering.formats import integer, method_title, words
from adaptlab_api.pages.submitting.spec_document import Document
from adaptlab_api.pages.submitting.spec_fields import FormField, knob_fields, spec_field
from adaptlab_api.pages.submitting.spec_form import Section
from adaptlab_services.errors import Absent
from adaptlab_services.lifecycle import workers
from adaptlab_services.models import base_models, catalogue
from adaptlab_services.recipes import recipes

MOST_BASES = 200
KINDS = {
    "adapt": "Adapt a base model",
    "pretrain": "Train a base model",
    "import": "Import a base model",
    "theory": "Check the theory",
}
FIRST_TASK, FIRST_METHOD, FIRST_BUDGET = "sort_descending", "lora", 1000
LIKE_THE_BASE = ("length", "alphabet")
"""Knobs of a new task that are copied from the base model's task."""
TRAINING = ("steps", "batch_size", "learning_rate")
MORE_TRAINING = (
    *("schedule", "warmup_fraction", "weight_decay", "gradient_clip", "precision", "validations"),
    *("base_weights", "accumulation", "early_stopping"),
)
MORE_TUNING = (
    *("learning_rate_range", "weight_decays", "initial_scales", "selection", "validation_samples"),
    "halving",
)
NEW_NAME = "name of the new base model: a-z, 0-9, dots and dashes"
COMMA = "separate several values with commas"
HINTS = {
    "/seeds": "a number of seeds, or a list: 0, 1, 2",
    "/training/steps": "optimiser steps per replicate",
    "/training/batch_size": "items per step",
    "/training/learning_rate": "auto: chosen from the tuning trials",
    "/training/schedule": "how the learning rate changes over the steps",
    "/training/warmup_fraction": "share of the steps over which the rate rises from 0",
    "/training/weight_decay": "pull of the weights towards 0",
    "/training/gradient_clip": "largest norm of a replicate's gradient",
    "/training/precision": "number format of the computation",
    "/training/base_weights": "nf4: a published base in four bits, on a GPU only",
    "/training/validations": "evaluations on the validation split during training",
    "/training/accumulation": "parts into which a batch is divided to save memory",
    "/tuning/selection": "how the trial of each seed is chosen",
    "/tuning/validation_samples": "validation items by which trials are chosen",
    "/capture/attention/samples": "test items whose attention is stored, before and after",
    "/evaluation/samples": "test items per task",
    "/resources/self_fence": "the worker stops the job itself if it loses its lease",
    "/replicates": "replicates to check, separated by commas",
    "/seed": "seed of the check's random numbers",
    "/base_replicates": f"replicates of the base model to start from, one per seed; {COMMA}",
    "/tuning/trials": "number of learning rates tried per seed",
    "/tuning/learning_rates": f"the rates to try instead; {COMMA}",
    "/tuning/learning_rate_range": "lowest and highest rate to try: 0.001, 0.1",
    "/tuning/weight_decays": f"weight decays to try; {COMMA}",
    "/tuning/initial_scales": f"factors on the first values to try; {COMMA}",
    "/training/early_stopping": "end when validation stops improving; JSON: {} or {“patience”: 3}",
    "/tuning/halving": "stop the worst trials early; JSON: {“rungs”: 2}",
    "/evaluation/tasks": "one per line, as a name or JSON; default: the job's own task",
    "/budget/trainable_parameters": "largest number of trainable parameters, such as 96 or 10,000",
    "/labels": "one per line: name = value",
    "/resources/priority": "0 to 9; 9 runs first",
    "/resources/max_seconds": "in seconds; a longer job is stopped",
    "/checks": "one per line, as a name or JSON",
    "/adaptation": "id of an adaptation job",
    "/adapter": "ALIAS/SUB/PATH of an adapter to evaluate, instead of all settings of training",
    "/folder": "ALIAS/SUB/PATH, below a model root of the server",
    "/budget/fraction_of_base": "fraction of the base model's parameters, such as 0.001",
    "/budget/context_tokens": "positions that prompts and prefixes add, such as 8",
}
COMPLETE = frozenset(HINTS) - {
    *(f"/training/{name}" for name in (*TRAINING, *MORE_TRAINING) if name != "early_stopping"),
    "/tuning/validation_samples",
    "/capture/attention/samples",
    "/evaluation/samples",
}
"""Fields whose hint stands alone; the limits follow those of the others."""
LABELS = {
    "/adapter": "Or the folder of a PEFT adapter",
    "/capture/attention/samples": "Samples with attention maps",
    "/evaluation/samples": "Test items",
    "/evaluation/tasks": "Evaluation tasks",
    "/budget/fraction_of_base": "Or fraction of the base model",
    "/budget/context_tokens": "Or context tokens",
    "/resources/max_seconds": "Time limit",
    "/training/early_stopping": "Early stopping",
    "/seeds": "Seeds",
}


@dataclass(frozen=True, slots=True)
class Around:
    """The choices of a form besides plug-ins.

    `made` are specs of base models from recipes, by their keys in the form. `queues` have a live
    worker.
    """

    bases: tuple[BaseModelView, ...]
    queues: tuple[str, ...]
    made: Mapping[str, Document]


def around(session: Session) -> Around:
    """Return the base models of project and recipes, and the live queues."""
    return Around(
        bases=base_models.usable(session, MOST_BASES),
        queues=workers.live_queues(session),
        made=_bases_of_recipes(),
    )


def first_document(
    offered: Around, kind: str, base_model: str, method: str, own: Document | None = None
) -> Document:
    """Return the document of a new form; without a base model, the first job.

    `own` is the task of a dataset. The base model is then one that was imported or that has learned
    texts.
    """
    if kind == "pretrain" or (not kind and not offered.bases and not base_model):
        changes = {} if own is None else {"name": f"{own['dataset']}-base", "task": own}
        return {**FIRST_JOB, **changes}
    if kind in ("import", "theory"):
        return {"kind": kind}
    ready = [base for base in offered.bases if base.ready] or list(offered.bases)
    named = [base for base in offered.bases if base.name == base_model] or ready
    task: Document = {"name": FIRST_TASK}
    if own is not None:
        suited = [base for base in (*named, *offered.bases) if _learns(base, own)]
        named, task = suited or named, own
    elif named and named[0].task is not None:
        learned = named[0].task
        task |= {name: learned[name] for name in LIKE_THE_BASE if name in learned}
    document: Document = {
        "kind": "adapt",
        "base_model": base_model or (named[0].name if named else ""),
        "task": _without_defaults(task) if own is None else task,
        "method": {"name": method or FIRST_METHOD},
        "budget": {"trainable_parameters": FIRST_BUDGET},
        "seeds": 5,
    }
    return {name: value for name, value in document.items() if value != ""}


def job_sections(kind: str, chosen: Callable[[str], str], offered: Around) -> tuple[Section, ...]:
    """Return the fields of a kind of job, with knobs of the `chosen` plug-ins."""
    own = {
        "adapt": lambda: _adapting(chosen, offered),
        "pretrain": lambda: _pretraining(chosen),
        "import": _importing,
        "theory": lambda: _checking(offered),
    }
    return (*own[kind](), queue_section(kind, offered))


def chosen_section(what: str, at: str, chosen: Callable[[str], str], note: str) -> Section:
    """Return the choice of a method, task or family, with its knobs."""
    listed, entry_of = _REGISTERED[what]
    name = chosen(f"{at}/name")
    try:
        knobs = knob_fields(entry_of(name), at)
    except Absent:
        knobs = ()
    grouped = method_groups() if what == "method" else ()
    known = {value for _, values in grouped for value, _ in values}
    choice = FormField(
        f"{at}/name",
        what.capitalize(),
        "choice",
        choices=tuple(dict.fromkeys(one for one in (*listed(), name) if one and one not in known)),
        grouped=grouped,
        required=True,
        hint="each is described under “Methods” and in the documentation",
    )
    return Section(what, what.capitalize(), note, (choice, *knobs), of=name)


def method_groups() -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """Return the methods with their titles, by group."""
    groups = catalogue.grouped_methods()
    return tuple((group, tuple((n, method_title(n)) for n in names)) for group, names in groups)


def field_of(spec: str, pointer: str, **changes: object) -> FormField:
    """Return a field of a spec, with the label and hint of the forms."""
    field = spec_field(spec, pointer, **changes)
    texts = (HINTS.get(pointer, ""), "" if pointer in COMPLETE else field.hint)
    hint = "; ".join(text for text in texts if text)
    return replace(field, hint=hint, label=LABELS.get(pointer, field.label))


def training_section(spec: str, *, tuned: bool) -> Section:
    """Return the fields of training and tuning."""
    plain = [f"/training/{name}" for name in TRAINING]
    more = [f"/training/{name}" for name in MORE_TRAINING]
    if tuned:
        plain += ["/tuning/trials", "/tuning/learning_rates"]
        more += [f"/tuning/{name}" for name in MORE_TUNING]
    if spec == "adapt":
        more.append("/base_replicates")
    title = "Training and tuning" if tuned else "Training"
    fields = tuple(field_of(spec, pointer) for pointer in ("/seeds", *plain))
    note = "an empty field takes the value shown in grey"
    further = tuple(field_of(spec, pointer) for pointer in more)
    return Section("training", title, note, fields, further, is_folded=True)


def measuring_section(spec: str) -> Section:
    """Return the fields of the evaluation."""
    attention = field_of(spec, "/capture/attention/samples", default="none")
    more = field_of(spec, "/evaluation/tasks")
    samples = field_of(spec, "/evaluation/samples")
    fields = (samples,) if spec == "import" else (samples, attention)
    return Section(
        "measuring", "Evaluation", "on test items, after training", fields, (more,), is_folded=True
    )


def names_of_bases(bases: Sequence[BaseModelView]) -> tuple[str, ...]:
    """Return the names of base models, ready ones first."""
    return tuple(base.name for base in sorted(bases, key=lambda base: not base.ready))


def base_summary(base: BaseModelView) -> str:
    """Return a base model's task, size and state in a few words."""
    task = words(str(base.task["name"])) if base.task else "imported"
    state = "" if base.ready else f", {base.state}"
    return f"{task}, {integer(base.parameters)} parameters{state}"


def _adapting(chosen: Callable[[str], str], offered: Around) -> tuple[Section, ...]:
    named = chosen("/base_model")
    names = names_of_bases(offered.bases)
    if named and named not in names and named not in offered.made:
        names = (*names, named)
    base = field_of(
        "adapt",
        "/base_model",
        kind="choice",
        choices=names,
        hint="pretrained here, or imported",
        required=True,
    )
    on_hub = FormField(
        "/base_model/folder",
        "Or a model on the hub",
        "hub_model",
        instead_of="/base_model",
        placeholder="hub:ORGANISATION/NAME@REVISION",
        hint="fetched and imported first, under a name from its repository",
    )
    summaries = {model.name: base_summary(model) for model in offered.bases}
    base = replace(
        base,
        grouped=_grouped(offered),
        descriptions=tuple(summaries.get(name, "") for name in names),
    )
    inline = FormField(
        "/base_model/inline",
        "Or the spec of a new base model, as JSON",
        "open",
        several_lines=5,
        instead_of="/base_model",
        hint="trained first, if no model has this name",
    )
    budget = tuple(
        field_of("adapt", f"/budget/{name}")
        for name in ("trainable_parameters", "fraction_of_base", "context_tokens")
    )
    first = (
        Section("base", "Base model", "the model to adapt", (base, on_hub), (inline,)),
        chosen_section("task", "/task", chosen, "what the adapted model learns"),
    )
    adapter = field_of("adapt", "/adapter")
    if chosen("/adapter"):
        replicate = field_of("adapt", "/base_replicates")
        note = "evaluated, not trained; clear the field to train a method"
        imported = Section("method", "Adapter", note, (adapter,), (replicate,))
        return (*first, imported, measuring_section("adapt"))
    method = chosen_section("method", "/method", chosen, "how the base model is adapted")
    return (
        *first,
        replace(method, more=(adapter,)),
        Section("budget", "Budget", "determines the size of the method", budget),
        training_section("adapt", tuned=True),
        measuring_section("adapt"),
    )


def _pretraining(chosen: Callable[[str], str]) -> tuple[Section, ...]:
    name = field_of("pretrain", "/name", hint=NEW_NAME)
    return (
        Section("base", "Base model", "the model to train", (name,)),
        chosen_section("family", "/family", chosen, "architecture of the model"),
        chosen_section("task", "/task", chosen, "what the model learns"),
        training_section("pretrain", tuned=False),
        measuring_section("pretrain"),
    )


def _importing() -> tuple[Section, ...]:
    named = field_of("import", "/name", hint=NEW_NAME)
    fields = (named, field_of("import", "/folder"))
    return (
        Section("base", "Base model", "the model to import", fields),
        measuring_section("import"),
    )


def _checking(offered: Around) -> tuple[Section, ...]:
    base = field_of(
        "theory",
        "/base_model",
        kind="choice",
        choices=names_of_bases(offered.bases),
        default="none",
        hint="the model whose weights the check uses",
    )
    pointers = ("/checks", "/adaptation", "/replicates", "/seed")
    checks, *rest = (field_of("theory", pointer) for pointer in pointers)
    return (Section("base", "Theory checks", "claims to measure", (checks, base, *rest)),)


def queue_section(kind: str, offered: Around) -> Section:
    """Return the fields of queue, priority, time limit and labels."""
    fields = tuple(
        field_of(kind, f"/resources/{name}") for name in ("queue", "priority", "max_seconds")
    )
    served = ", ".join(offered.queues) or "none"
    queue = replace(fields[0], hint=f"queues with a live worker: {served}")
    more = (field_of(kind, "/labels"), field_of(kind, "/resources/self_fence"))
    return Section(
        "queue", "Queue", "where and when jobs run", (queue, *fields[1:]), more, is_folded=True
    )


def _grouped(offered: Around) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    listed = tuple(
        (key, f"{spec['name']} ({key.split(':')[1]})") for key, spec in offered.made.items()
    )
    return (("From a recipe, created first if missing", listed),) if listed else ()


@cache
def _bases_of_recipes() -> dict[str, Document]:
    """Return the base models that recipes train, without repetitions.

    Those that they import need a folder that this server may not have.
    """
    specs: dict[str, Document] = {}
    for summary in recipes.listed().data:
        for preset in recipes.get(summary.name).presets:
            bases = StudySpec.model_validate(preset.spec).base_models
            inline = [base for base in bases if isinstance(base, PretrainSpec)]
            for number, base in enumerate(inline):
                spec = base.model_dump(mode="json", exclude_unset=True)
                if spec not in specs.values():
                    specs[f"recipe:{summary.name} {preset.preset}:{number}"] = spec
    return specs


def _learns(base: BaseModelView, task: Document) -> bool:
    """Return True if a base model was imported, or has learned a task alike."""
    kinds = str(task["name"]).partition("_")[0]
    return base.task is None or str(base.task["name"]).startswith(kinds)


def _without_defaults(task: Document) -> Document:
    """Return the task without the knobs that have their default."""
    entry = _task(str(task["name"]))
    defaults = {field.pointer.rpartition("/")[2]: field.default for field in knob_fields(entry, "")}
    return {n: value for n, value in task.items() if n == "name" or defaults.get(n) != str(value)}


def _task(name: str) -> PlugIn:
    return catalogue.task(name)


_REGISTERED: Mapping[str, tuple[Callable[[], tuple[str, ...]], Callable[[str], PlugIn]]] = {
    "method": (lambda: tuple(entry.name for entry in catalogue.methods().data), catalogue.method),
    "task": (lambda: tuple(entry.name for entry in catalogue.tasks().data), catalogue.task),
    "family": (lambda: tuple(entry.name for entry in catalogue.families().data), catalogue.family),
}
