"""Recipes, and the reports of their studies."""

from adaptlab.reproductions.claim import Claim
from adaptlab.reproductions.recipe import Preset, PublishedTable
from adaptlab.reproductions.recipe_report import RecipeReport
from adaptlab.values import Value
from adaptlab_answers.comparisons import StudyName
from adaptlab_answers.documents import JsonObject


class RecipeLinks(Value):
    """Where to go from a recipe."""

    self: str


class RecipeSummary(Value):
    """A recipe in a list."""

    name: str
    title: str
    question: str
    source: str
    presets: tuple[Preset, ...]
    links: RecipeLinks


class Recipes(Value):
    """All recipes, by name."""

    data: tuple[RecipeSummary, ...]


class RecipePreset(Value):
    """One preset: what differs from the paper and why, and the study that it runs."""

    preset: Preset
    note: str
    spec: JsonObject


class RecipeView(Value):
    """A recipe with the tables of the paper, its claims and tests, and the study of each preset."""

    name: str
    title: str
    question: str
    source: str
    base_models: tuple[str, ...]
    tables: tuple[PublishedTable, ...]
    claims: tuple[Claim, ...]
    presets: tuple[RecipePreset, ...]
    links: RecipeLinks


class ReportLinks(Value):
    """Where to go from a report; effort and what voids a comparison stand in the comparison."""

    self: str
    study: str
    comparison: str
    recipe: str


class StudyReport(RecipeReport):
    """The report of a study of a recipe.

    `departures` are the members of the study's spec that are not what the recipe asks for now.
    """

    study: StudyName
    departures: tuple[str, ...]
    links: ReportLinks
