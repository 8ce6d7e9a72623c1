"""Recipes and the reports of their studies."""

from collections.abc import Iterator
from dataclasses import dataclass

from adaptlab.reproductions.claim import PaperClaim, Preset, Versions, version_words
from adaptlab.reproductions.preset_needs import Need
from adaptlab.reproductions.recipe import PublishedTable
from adaptlab.reproductions.recipe_report import RecipeReport
from adaptlab.values import Value
from adaptlab_answers.comparisons import StudyName
from adaptlab_answers.documents import JsonObject
from adaptlab_answers.links import Link


class RecipeLinks(Value):
    """Links of a recipe."""

    self: Link


class RecipeSummary(Value):
    """A recipe as listed."""

    name: str
    title: str
    question: str
    source: str
    presets: tuple[Preset, ...]
    links: RecipeLinks


class RecipeList(Value):
    """All recipes, by name."""

    data: tuple[RecipeSummary, ...]


class RecipePreset(Value):
    """A preset: its study, and how and why it differs from the paper.

    `needs` are the base models and datasets that have to exist beforehand.
    """

    preset: Preset
    note: str
    needs: tuple[Need, ...] = ()
    spec: JsonObject


@dataclass(frozen=True)
class Statement:
    """A claim of a recipe in one wording, which `version` of the paper has."""

    claim: str
    version: str
    text: str


class RecipeView(Value):
    """A recipe: the paper's tables and claims, and the study of each preset."""

    name: str
    title: str
    question: str
    source: str
    versions: Versions
    base_models: tuple[str, ...]
    tables: tuple[PublishedTable, ...]
    claims: tuple[PaperClaim, ...]
    presets: tuple[RecipePreset, ...]
    links: RecipeLinks

    def statements(self) -> Iterator[Statement]:
        """Yield every wording of every claim."""
        for claim in self.claims:
            alone = len(claim.wordings) == 1
            for name, wording in claim.wordings.items():
                words = version_words(name, self.versions, alone=alone, role=claim.role)
                yield Statement(claim.id, words, wording.text)


class ReportLinks(Value):
    """Links of a report; the comparison shows effort and what voids it."""

    self: Link
    study: Link
    comparison: Link
    recipe: Link


class StudyReport(RecipeReport):
    """The report of a recipe's study.

    `departures` are the fields of the study's spec that differ from the current recipe.
    """

    study: StudyName
    departures: tuple[str, ...]
    links: ReportLinks
