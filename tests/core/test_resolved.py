"""Resolved specs as values, read from JSON and written as JSON.

They are unread where a plug-in is lacking.
"""

import tempfile
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.folders import a_qwen3_folder
from tests.making import a_pretrain_spec, a_resolved_job, a_resolved_spec, an_adapt_spec, base_facts

from adaptlab.errors import InvalidSpec
from adaptlab.families.gpt2 import GPT2
from adaptlab.families.transformers import Transformers
from adaptlab.methods.lora import Lora
from adaptlab.plugins.family import FAMILIES, Family
from adaptlab.plugins.method import METHODS, Method
from adaptlab.plugins.records_task import RecordsTask
from adaptlab.plugins.registry import as_json, by_name
from adaptlab.plugins.task import TASKS, Task
from adaptlab.plugins.theory_check import THEORY_CHECKS, TheoryCheck
from adaptlab.specs.resolve import resolve, resolve_adapter, resolve_import
from adaptlab.specs.resolve_theory import adaptation_of, resolve_theory
from adaptlab.specs.resolved import (
    Resolved,
    ResolvedAdapt,
    ResolvedImport,
    ResolvedPretrain,
    ResolvedTheory,
    UnreadSpec,
    read_resolved,
    readable,
    seedless_digest,
    spec_digest,
    write_resolved,
)
from adaptlab.specs.spec import AdaptSpec, ImportSpec, ModelFolder, ResolvedSpec, TheorySpec
from adaptlab.weights.model_folder import check_folder

JOB = UUID(int=1)


def an_import() -> ResolvedImport:
    spec = ImportSpec.model_validate(
        {"name": "small", "folder": "models/small", "evaluation": {"tasks": ["sort_ascending"]}}
    )
    folder = ModelFolder(folder="models/small", files=())
    family = GPT2(layers=1, heads=1, width=8).resolved(20, 30)
    return resolve_import(spec, family, folder)


def a_theory() -> ResolvedTheory:
    prefix = an_adapt_spec(method={"name": "prefix_tuning", "length": 2}, budget={}, seeds=2)
    measured = adaptation_of(JOB, "1" * 64, resolve(prefix, base_facts()))
    asked = {"checks": ["span", "theorems"], "adaptation": [JOB], "seed": 5}
    return resolve_theory(TheorySpec.model_validate(asked), base_facts(), [measured])


def an_imported_adapter() -> ResolvedAdapt:
    task = {"name": "sort_descending", "length": 3, "alphabet": 4}
    document = {"base_model": "tiny-sort", "task": task, "adapter": "models/lora"}
    folder = ModelFolder(folder="models/lora", files=())
    method = Lora(rank=1)
    return resolve_adapter(AdaptSpec.model_validate(document), base_facts(), method, folder)


def job_of(kind: str) -> Resolved:
    match kind:
        case "pretrain":
            return a_resolved_job(a_pretrain_spec())
        case "adapt":
            return a_resolved_job()
        case "import":
            return an_import()
        case "adapter":
            return an_imported_adapter()
        case _:
            return a_theory()


def stored(document: ResolvedSpec, **changes: object) -> ResolvedSpec:
    """Return the document as it comes back from a database.

    Some members are changed.
    """
    return ResolvedSpec.model_validate(document.model_dump(mode="json") | changes)


def unread(document: ResolvedSpec) -> UnreadSpec:
    found = read_resolved(document)
    assert isinstance(found, UnreadSpec)
    return found


KINDS = {
    "pretrain": ResolvedPretrain,
    "import": ResolvedImport,
    "adapt": ResolvedAdapt,
    "adapter": ResolvedAdapt,
    "theory": ResolvedTheory,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_comes_back_from_its_json(kind: str):
    job = job_of(kind)
    assert isinstance(job, KINDS[kind])
    found = readable(stored(write_resolved(job)))
    assert (found, type(found)) == (job, type(job))
    assert write_resolved(found) == write_resolved(job)
    assert spec_digest(found) == spec_digest(write_resolved(job))


@pytest.mark.parametrize("kind", ["import", "theory"])
def test_what_trains_nothing_says_so_in_json_alone(kind: str):
    job = job_of(kind)
    document = write_resolved(job)
    assert job.training is None
    assert (document.training.steps, document.training.batch_size) == (0, 0)
    assert (document.task, document.method, len(document.training.trials)) == (None, None, 1)


def test_an_imported_adapter_is_part_of_what_is_digested():
    """Jobs without one, which older versions stored, keep their digests."""
    job = an_imported_adapter()
    assert (job.trains, job.training.steps, job.seeds) == (False, 0, (0,))
    without = write_resolved(job).model_copy(update={"adapter": None})
    assert spec_digest(without) != spec_digest(job)
    older = without.model_dump(mode="json", exclude={"adapter"})
    assert spec_digest(ResolvedSpec.model_validate(older)) == spec_digest(without)


def test_a_theory_check_has_one_seed_and_its_adaptations_have_plug_ins():
    job = readable(stored(write_resolved(a_theory())))
    assert isinstance(job, ResolvedTheory)
    assert (job.seed, job.seeds, job.base_replicates) == (5, (5,), (0,))
    (measured,) = job.adaptations
    assert (measured.job, measured.seeds) == (JOB, (0, 1))
    assert isinstance(measured.method, METHODS.get("prefix_tuning"))
    assert isinstance(measured.task, Task)


def published() -> Family:
    """A family that has no defaults, because it describes a folder."""
    with tempfile.TemporaryDirectory() as folder:
        return check_folder(a_qwen3_folder(Path(folder) / "qwen3")).family


def configurations(plug_in: type[Family] | type[Task] | type[Method] | type[TheoryCheck]):
    """Return configurations of a plug-in.

    They are its defaults, and those that differ from them in some knobs.
    """
    named = {"name": plug_in.model_fields["name"].default}
    if issubclass(plug_in, RecordsTask):  # no defaults, because it describes a dataset
        named |= RECORDS_TASKS[named["name"]]
    plain = published() if plug_in is Transformers else plug_in.model_validate(named)
    knobs: dict[str, st.SearchStrategy[object]] = {}
    for name, field in plug_in.model_fields.items():
        value = getattr(plain, name)
        if isinstance(value, bool):
            knobs[name] = st.booleans()
        elif isinstance(value, int):
            knobs[name] = st.integers(value, value + 3)
        elif name != "name" and field.annotation in (float, float | None):
            knobs[name] = st.sampled_from([value, 0.25, 0.5])
    return st.fixed_dictionaries({}, optional=knobs).map(lambda some: as_json(plain) | some)


RECORDS_TASKS = {
    "benchmark": {"tasks": ["hellaswag"]},
    "image_classification": {"dataset": "trees"},
    "text_classification": {
        "dataset": "reviews",
        "prompt": "{text} It is",
        "label": {"field": "label", "words": {"neg": " bad", "pos": " good"}},
    },
    "text_completion": {"dataset": "pairs", "prompt": "{text}", "answer": {"field": "answer"}},
    "chat_completion": {"dataset": "chats", "messages": {"field": "messages"}},
    "neutral_text": {"dataset": "prose"},
}
REGISTRIES = {"family": FAMILIES, "task": TASKS, "method": METHODS, "checks": THEORY_CHECKS}
PLUG_INS = [(member, name) for member, one in REGISTRIES.items() for name in one.names()]


@pytest.mark.long("every combination", but=10)
@pytest.mark.parametrize(("member", "name"), PLUG_INS)
@settings(max_examples=10)
@given(data=st.data())
def test_every_plug_in_comes_back_from_its_json(member: str, name: str, data: st.DataObject):
    registry = REGISTRIES[member]
    plug_in = registry.get(name)
    document = data.draw(configurations(plug_in))
    try:
        value = by_name(registry, document)
    except InvalidSpec:
        return  # a knob beyond its limits
    assert type(value) is plug_in
    assert by_name(registry, as_json(value)) == value
    job = job_of("theory" if member == "checks" else "adapt")
    whole = job.model_copy(update={member: (value, value) if member == "checks" else value})
    assert readable(stored(write_resolved(whole))) == whole


MISSING = {"name": "vanished", "size": 3}
UNREAD = {
    "method": ({"method": MISSING}, "There is no method named 'vanished'."),
    "task": ({"task": MISSING}, "There is no task named 'vanished'."),
    "family": ({"family": MISSING}, "There is no family named 'vanished'."),
    "evaluation task": ({"evaluation_tasks": [MISSING]}, "There is no task named 'vanished'."),
    "base task": ({"base_tasks": [MISSING]}, "There is no task named 'vanished'."),
}


@pytest.mark.parametrize("what", UNREAD)
def test_a_plug_in_that_is_not_installed_makes_a_spec_unread(what: str):
    changes, text = UNREAD[what]
    document = stored(a_resolved_spec(), **changes)
    found = unread(document)
    assert (found.document, found.text) == (document, text)
    with pytest.raises(InvalidSpec, match="vanished"):
        readable(document)
    assert len(spec_digest(document)) == len(seedless_digest(document)) == 64


def test_a_knob_that_the_plug_in_lacks_makes_a_spec_unread():
    (problem,) = unread(stored(a_resolved_spec(), method={"name": "frozen", "knob": 1})).problems
    assert (problem.pointer, problem.code) == ("/knob", "extra_forbidden")


def test_a_check_that_is_not_installed_makes_a_spec_unread():
    document = stored(write_resolved(a_theory()), checks=[MISSING])
    assert unread(document).text == "There is no check named 'vanished'."


def test_a_measured_method_that_is_not_installed_makes_a_spec_unread():
    document = write_resolved(a_theory()).model_dump(mode="json")
    (one,) = document["adaptations"]
    changed = stored(write_resolved(a_theory()), adaptations=[one | {"method": MISSING}])
    assert unread(changed).text == "There is no method named 'vanished'."


def test_a_kind_of_a_later_version_makes_a_spec_unread():
    document = stored(a_resolved_spec(), kind="distil")
    (problem,) = unread(document).problems
    assert (problem.pointer, problem.code) == ("/kind", "union_tag_invalid")
    assert "adapt" in problem.allowed


def test_a_spec_of_an_earlier_version_is_read_without_what_it_lacks():
    document = a_resolved_spec().model_dump(mode="json")
    for later in ("checks", "adaptations", "model_folder", "selection", "base_tasks"):
        del document[later]
    found = readable(ResolvedSpec.model_validate(document))
    assert isinstance(found, ResolvedAdapt)
    assert (found.selection, found.base_tasks) == ("per_seed", ())
