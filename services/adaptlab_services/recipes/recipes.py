"""Recipes, their studies, and reports on those studies."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, UnknownName
from adaptlab.reproductions.claim import Preset
from adaptlab.reproductions.preset_needs import Need, missing
from adaptlab.reproductions.recipe import PRESETS, RECIPES, Recipe, RecipeRef
from adaptlab.reproductions.recipe_report import recipe_report
from adaptlab.reproductions.recipe_study import (
    RecipeRequest,
    departures,
    needs_of,
    recipe_named,
    study_of,
    with_base_names,
)
from adaptlab.specs.resolved import spec_digest
from adaptlab.specs.spec import PretrainSpec
from adaptlab.studies.study import StudySpec
from adaptlab_answers.comparisons import StudyName
from adaptlab_answers.recipes import (
    RecipeLinks,
    RecipeList,
    RecipePreset,
    RecipeSummary,
    RecipeView,
    ReportLinks,
    StudyReport,
)
from adaptlab_db.job_states import LOST_STATES
from adaptlab_db.tables import BaseModel, Job, Study
from adaptlab_services.errors import Absent, NoReport, StateConflict
from adaptlab_services.jobs import jobs, study_lock
from adaptlab_services.models import base_models, datasets
from adaptlab_services.models.model_folders import NO_ROOTS
from adaptlab_services.people import access
from adaptlab_services.recipes.recipe_measurements import measured
from adaptlab_services.studies import studies

JsonObject = dict[str, object]


@dataclass(frozen=True, slots=True)
class RequestedStudy:
    """The study to create from a recipe, with its reference to the recipe."""

    spec: StudySpec
    recipe: RecipeRef


def listed() -> RecipeList:
    """Return every recipe."""
    return RecipeList(data=tuple(_summary(recipe_named(name)) for name in RECIPES.names()))


def get(name: str) -> RecipeView:
    """Return one recipe; raises `Absent`."""
    recipe = _existing(name)
    return RecipeView(
        name=recipe.name,
        title=recipe.title,
        question=recipe.question,
        source=recipe.source,
        versions=recipe.versions,
        base_models=recipe.base_models,
        tables=recipe.tables,
        claims=recipe.claims,
        presets=tuple(
            RecipePreset(
                preset=preset,
                note=recipe.notes.get(preset, ""),
                needs=recipe.needs.get(preset, ()),
                spec=recipe.study(preset).model_dump(mode="json", exclude_unset=True),
            )
            for preset in _presets(recipe)
        ),
        links=_links(recipe),
    )


def requested(session: Session, request: RecipeRequest) -> RequestedStudy:
    """Return the study for a request, with free names; nothing is created.

    If the study's name is taken and the request gives none, a number is appended; likewise for base
    models whose names belong to other specs. A lock keeps others from creating studies until the
    unit of work ends, so that the names stay free.

    Raises:
        InvalidSpec: the study is invalid, or lacks a base model or dataset that it needs.
        UnknownName: there is no such recipe; the error has the nearest names.
    """
    spec = study_of(request)
    absent = tuple(need for need in needs_of(request) if not _is_there(session, need))
    if absent:
        raise InvalidSpec(*missing(absent, request.preset))
    study_lock.take(session)
    if request.name is None:
        spec = spec.model_copy(update={"name": _free_study_name(session, spec.name)})
    spec = with_base_names(spec, _free_base_names(session, spec))
    return RequestedStudy(spec=spec, recipe=request.reference())


def report(session: Session, study: str) -> StudyReport:
    """Return a study's measurements next to the published figures.

    `study` is an id or a name.

    Raises:
        Absent: there is no such study.
        NoReport: the study was not created from a recipe.
        StateConflict: the recipe no longer exists.
    """
    view = studies.get(session, study)
    if (reference := view.recipe) is None:
        raise NoReport(view.name)
    recipe = _still_there(reference)
    body = recipe_report(recipe, reference.preset, measured(session, view, recipe))
    spec = StudySpec.model_validate(view.spec)
    return StudyReport(
        **dict(body),
        study=StudyName(id=view.id, name=view.name, state=view.state, terminal=view.terminal),
        departures=departures(recipe, reference.preset, spec),
        links=ReportLinks(
            self=f"/v1/studies/{view.id}/report",
            study=f"/v1/studies/{view.id}",
            comparison=f"/v1/studies/{view.id}/comparison",
            recipe=f"/v1/recipes/{recipe.name}",
        ),
    )


def _is_there(session: Session, need: Need) -> bool:
    if need.kind == "dataset":
        return need.name in datasets.known(session)
    return base_models.is_taken(session, need.name)


def _existing(name: str) -> Recipe:
    try:
        return recipe_named(name)
    except UnknownName as error:
        raise Absent("recipe", name, [*map(str, error.problems[0].allowed)]) from error


def _still_there(reference: RecipeRef) -> Recipe:
    try:
        return recipe_named(reference.name)
    except UnknownName as error:
        detail = (
            f"The study was created from the recipe {reference.name!r}, which this server no "
            "longer has. Install it, or see the study's comparison instead."
        )
        raise StateConflict(detail) from error


def _summary(recipe: Recipe) -> RecipeSummary:
    return RecipeSummary(
        name=recipe.name,
        title=recipe.title,
        question=recipe.question,
        source=recipe.source,
        presets=_presets(recipe),
        links=_links(recipe),
    )


def _presets(recipe: Recipe) -> tuple[Preset, ...]:
    return tuple(preset for preset in PRESETS if preset in recipe.presets)


def _links(recipe: Recipe) -> RecipeLinks:
    return RecipeLinks(self=f"/v1/recipes/{recipe.name}")


def _free_study_name(session: Session, name: str) -> str:
    """Return the name, with the first free number from 2 if it is taken."""
    like = Study.name.startswith(name, autoescape=True)
    in_project = Study.project_id == access.project_of(session)
    return _numbered(name, set(session.scalars(select(Study.name).where(like, in_project))))


def _free_base_names(session: Session, spec: StudySpec) -> Mapping[str, str]:
    """Return new names for inline base models whose names are taken."""
    return {
        base.name: free
        for base in spec.base_models
        if isinstance(base, PretrainSpec) and (free := _free_base_name(session, base)) != base.name
    }


def _free_base_name(session: Session, base: PretrainSpec) -> str:
    """Return the name of an equal model, or the first free name.

    Names of failed and cancelled jobs are free.
    """
    digest = spec_digest(jobs.resolved_base(session, base, NO_ROOTS))
    equal = base_models.equal_to(session, digest, base.name)
    if equal is not None:
        return equal
    like = BaseModel.name.startswith(base.name, autoescape=True)
    usable = Job.state.not_in(LOST_STATES)
    in_project = BaseModel.project_id == access.project_of(session)
    query = select(BaseModel.name).join(Job, Job.id == BaseModel.job_id)
    return _numbered(base.name, set(session.scalars(query.where(like, usable, in_project))))


def _numbered(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return free
