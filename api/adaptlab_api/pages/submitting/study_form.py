"""The form of a study: its fields and initial values."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from adaptlab_api.pages.submitting.job_form import (
    FIRST_TASK,
    Around,
    base_summary,
    chosen_section,
    field_of,
    first_document,
    measuring_section,
    method_groups,
    names_of_bases,
    queue_section,
    training_section,
)
from adaptlab_api.pages.submitting.spec_document import Document
from adaptlab_api.pages.submitting.spec_fields import FormField
from adaptlab_api.pages.submitting.spec_form import ALL, Section
from adaptlab_services.models import catalogue

FIRST_METHODS = ("lora", "full_finetuning", "prefix_tuning", "frozen")
FIRST_BUDGETS = (512, 4096)
FIRST_TRIALS = 4
NO_BASE = "no base model yet: train or import one first, or enter a spec below"
CONFIGURED = "one per line, as JSON: {“name”: “lora”, “sites”: [“mlp”], “label”: “lora-mlp”}"


def new_name(what: str, now: datetime) -> str:
    """Return a name for a new study, in which the minute is said."""
    return f"{what[:50]}-{now:%Y%m%d-%H%M}"


def first_study_document(offered: Around, now: datetime, own: Document | None = None) -> Document:
    """Return the document of a new form; `own` is the task of a dataset."""
    like = first_document(offered, "adapt", "", "", own)
    return {
        "name": new_name("study", now),
        "base_models": [like["base_model"]] if "base_model" in like else [],
        "tasks": [like.get("task", {"name": FIRST_TASK})],
        "methods": list(FIRST_METHODS),
        "budgets": list(FIRST_BUDGETS),
        "seeds": 5,
        "tuning": {"trials": FIRST_TRIALS},
    }


def study_sections(_: str, chosen: Callable[[str], str], offered: Around) -> tuple[Section, ...]:
    """Return the fields of a study."""
    name = field_of("study", "/name", hint="a-z, 0-9, dots and dashes")
    task = chosen_section("task", "/tasks/0", chosen, "what every method learns")
    further = FormField(
        "/tasks/-",
        "More tasks",
        "lines",
        hint="one per line, as a name or JSON",
        several_lines=3,
        first=1,
    )
    checks = field_of("study", "/checks", hint="one per line, as a name or JSON")
    return (
        Section("name", "Study", "the name is part of its address", (name,)),
        _bases(offered),
        replace(task, more=(further,)),
        _methods(),
        _budgets(),
        training_section("study", tuned=True),
        measuring_section("study"),
        Section("checks", "Theory checks", "claims to measure with the study", (), (checks,)),
        queue_section("study", offered),
    )


def _bases(offered: Around) -> Section:
    names = names_of_bases(offered.bases)
    summaries = {base.name: base_summary(base) for base in offered.bases}
    chosen = FormField(
        "/base_models",
        "Base models",
        "lines",
        choices=names,
        hint="pretrained here, or imported" if names else NO_BASE,
        several_lines=0 if names else 2,
        descriptions=tuple(summaries[name] for name in names),
    )
    inline = FormField(
        "/base_models/-",
        "Specs of new base models",
        "lines",
        hint="one per line, as JSON",
        several_lines=3,
    )
    return Section("base", "Base models", "the models to adapt", (chosen,), (inline,))


def _methods() -> Section:
    names = tuple(entry.name for entry in catalogue.methods().data)
    chosen = FormField(
        "/methods",
        "Methods",
        "lines",
        choices=(*names, ALL),
        grouped=method_groups(),
        hint="each gets the same budgets, seeds and tuning trials",
    )
    configured = FormField(
        "/methods/-",
        "Methods with custom knobs",
        "lines",
        hint=CONFIGURED,
        several_lines=3,
    )
    return Section("methods", "Methods", "the methods to compare", (chosen,), (configured,))


def _budgets() -> Section:
    budgets = field_of("study", "/budgets", kind="numbers", several_lines=0, required=True)
    hinted = replace(budgets, hint="trainable parameters, separated by commas: 512, 4096")
    tolerance = field_of(
        "study", "/budget_tolerance", hint="fraction of a budget that a method may leave unused"
    )
    note = "each budget determines the size of every method"
    return Section("budget", "Budgets", note, (hinted,), (tolerance,))
