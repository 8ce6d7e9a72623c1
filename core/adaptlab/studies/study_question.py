"""The checks of a study with a question."""

from collections.abc import Iterator, Sequence

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.studies.question import ALONE, WithinMarginOf
from adaptlab.studies.study import StudySpec
from adaptlab.studies.study_methods import StudyEntry
from adaptlab.values import AUTO

TUNED = ("halving", "weight_decays", "initial_scales")
"""Members of tuning that a question does not have: it sweeps learning rates alone."""


def check_question(spec: StudySpec, entries: Sequence[StudyEntry]) -> None:
    """Raise `InvalidSpec` if the study cannot answer its question, if any."""
    if spec.question is None:
        return
    # Entries share the study's tuning, and a fault there is named once.
    if problems := dict.fromkeys((*_of_members(spec), *_of_methods(spec, entries))):
        raise InvalidSpec(*problems)


def _of_members(spec: StudySpec) -> Iterator[Problem]:
    if spec.question is not None and spec.question.compare is not None and spec.methods:
        detail = "The methods are also given as `methods`. Leave one of the two out."
        yield Problem("/question/compare", "given_twice", detail)
    if spec.seeds != AUTO:
        detail = (
            "A study with a question chooses its seeds. Give question.at_most.seeds to limit them."
        )
        yield Problem("/seeds", "seeds_of_question", detail)
    if spec.controls:
        detail = "A study with a question has no controls. Create another study for them."
        yield Problem("/controls", "controls_with_question", detail)
    if spec.checks:
        detail = "A study with a question has no theory checks. Create another study for them."
        yield Problem("/checks", "checks_with_question", detail)


def _of_methods(spec: StudySpec, entries: Sequence[StudyEntry]) -> Iterator[Problem]:
    question = spec.question
    assert question is not None, "it was checked before"
    labels = tuple(entry.label for entry in entries)
    place = "/methods" if question.compare is None else "/question/compare"
    if len(labels) < 2:
        yield Problem(place, "one_method", "A question compares methods. Give at least two.")
    for entry in entries:
        for name in TUNED:
            if getattr(entry.tuning, name):
                own = entry.given.tuning is not None and name in entry.given.tuning.model_fields_set
                detail = f"A question tunes learning rates alone. Leave {name} out."
                pointer = f"{entry.pointer}/tuning/{name}" if own else f"/tuning/{name}"
                yield Problem(pointer, "not_tuned_by_question", detail)
    if isinstance(question.decide, WithinMarginOf):
        wanted = question.decide.within_margin_of
        if wanted not in labels:
            detail = f"No method has the label {wanted!r}. Name one of the methods."
            pointer = "/question/decide/within_margin_of"
            yield Problem(pointer, "no_such_method", detail, allowed=labels)
    if question.decide == "works" and ALONE not in labels:
        detail = (
            f"Whether a method works is measured against the base model alone. Add {ALONE!r} to "
            "the methods."
        )
        yield Problem(place, "no_base_alone", detail, nearest=(ALONE,))
