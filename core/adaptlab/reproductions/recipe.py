"""A recipe: a study that repeats a table of a paper."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Self, get_args

from pydantic import Field, model_validator

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.registry import Registry
from adaptlab.reproductions.claim import (
    CheckHolds,
    ColumnLabel,
    PaperClaim,
    PlainTest,
    Preset,
    RowLabel,
    RowSelector,
    Share,
    Versions,
    plain_tests,
)
from adaptlab.reproductions.claim_rules import DeclaredRow, missing_controls, trained_columns
from adaptlab.reproductions.preset_needs import Need, datasets_of
from adaptlab.reproductions.task_matching import TaskConfiguration, agrees
from adaptlab.specs.spec import (
    BaseSpec,
    Choice,
    Label,
    LabelName,
    Labels,
    NamedChoice,
    PretrainSpec,
    ResourcesSpec,
    Seeds,
)
from adaptlab.studies.study import StudySpec
from adaptlab.values import AUTO, Name, Value

PRESETS: tuple[Preset, ...] = get_args(Preset)
"""Minutes on two cores; hours, to a verdict; the paper's settings; equal effort; real texts.

`text` runs on a published model and public data, which have to be provided. A recipe has the
`quick` preset and may lack others, such as `faithful` where the paper's model and data cannot be
included.
"""


class RecipeRef(Value):
    """The recipe and preset that a study was created from."""

    name: Annotated[str, Field(max_length=120)]
    preset: Preset


class PublishedScore(Value):
    """A score of the paper: mean accuracy and deviation over seeds."""

    mean: Share
    spread: Share | None = None


class TableColumn(Value):
    """A task that every row is scored on; missing knobs match any value.

    `instead` are tasks that presets with other data have in its place. With `base_model`, the
    recipe's word for another base model, it is scored on that one: a method with what it has found
    on its own, and a base model alone as itself.
    """

    label: ColumnLabel
    task: NamedChoice
    instead: tuple[NamedChoice, ...] = ()
    base_model: str | None = None

    def shows(self, task: TaskConfiguration) -> bool:
        """Return True if the column shows scores on a task."""
        return any(agrees(wanted, task) for wanted in (self.task, *self.instead))


class TableRow(Value):
    """A row: the result that it shows, and the published scores.

    There is one score per column. A row without `published` is not in the paper; it is a control.
    """

    label: RowLabel
    of: RowSelector
    published: tuple[PublishedScore | None, ...] = ()


class PublishedTable(Value):
    """A table of the paper.

    `seeds` is the number behind its figures, None if it is not given.
    """

    title: str
    source: str
    seeds: int | None = None
    columns: Annotated[tuple[TableColumn, ...], Field(min_length=1)]
    rows: Annotated[tuple[TableRow, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for row in self.rows:
            if row.published and len(row.published) != len(self.columns):
                raise ValueError(
                    f"Row {row.label!r} has {len(row.published)} published scores and the table "
                    f"{len(self.columns)} columns; give one per column, or none."
                )
        _refuse_twice("column", (column.label for column in self.columns))
        return self


class Recipe(Value):
    """A study in presets of rising effort, with tables and claims.

    `versions` are those of the paper, by the names in the claims. `base_models` are short words for
    the base models, in the order in which every preset lists them; a preset may leave out the last
    ones. Row selectors use these words, because every preset has its own base models. Row labels
    are unique over all tables, because claims refer to them. `notes` state for each preset what
    differs from the paper and why, and how long it takes. `stand_ins` name the model
    that stands in for the paper's in some presets, where a claim can hold but not be reproduced.
    `needs` are the base models and datasets that a preset takes from outside.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*/[a-z0-9][a-z0-9-]*$", max_length=120)]
    title: str
    question: str
    source: str
    versions: Versions
    base_models: tuple[str, ...] = ()
    presets: Mapping[Preset, StudySpec]
    tables: tuple[PublishedTable, ...] = ()
    claims: Annotated[tuple[PaperClaim, ...], Field(min_length=1)]
    notes: Mapping[Preset, str]
    stand_ins: Mapping[Preset, str] = Field(default_factory=dict[Preset, str])
    needs: Mapping[Preset, tuple[Need, ...]] = Field(default_factory=dict[Preset, tuple[Need, ...]])

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _refuse_twice("row", (row.label for table in self.tables for row in table.rows))
        _refuse_twice("claim", (claim.id for claim in self.claims))
        if "quick" not in self.presets or set(self.presets) != set(self.notes):
            raise ValueError(f"{self.name} needs a quick preset, and a note on every preset.")
        for preset, spec in self.presets.items():
            self._check_bases(preset, spec)
        columns = (column for table in self.tables for column in table.columns)
        for base in (one.base_model for one in (*self._selectors(), *columns)):
            if base not in (None, *self.base_models):
                raise ValueError(
                    f"{self.name} has no base model {base!r}, only "
                    f"{', '.join(self.base_models) or 'none'}."
                )
        for claim in self.claims:
            if unknown := set(claim.wordings) - set(self.versions):
                raise ValueError(
                    f"Claim {claim.id!r} has a wording of {', '.join(sorted(unknown))}, and the "
                    f"versions of the paper are {', '.join(self.versions)}."
                )
        for test in self.tests():
            self._check_cells(test)
        rows = self.declared_rows()
        missing = [one for claim in self.claims for one in missing_controls(claim, rows)]
        if missing:
            raise ValueError(f"{self.name}: {' '.join(dict.fromkeys(missing))}")
        return self

    def tests(self) -> Iterator[PlainTest]:
        """Yield every test of every claim, controls included."""
        for claim in self.claims:
            for wording in claim.wordings.values():
                yield from plain_tests(wording.test)
            yield from (*claim.given, *claim.controls)
            for premises in claim.given_in.values():
                yield from premises

    def declared_rows(self) -> dict[str, DeclaredRow]:
        """Return the rows of all tables, with the columns that they train."""
        tasks = [task for spec in self.presets.values() for task in spec.tasks]
        first = next(iter(self.base_models), None)
        return {
            row.label: DeclaredRow(
                of=row.of.model_copy(update={"base_model": row.of.base_model or first}),
                trained=trained_columns(
                    row.of,
                    {c.label: (c.task, *c.instead) for c in table.columns if c.base_model is None},
                    tasks,
                ),
            )
            for table in self.tables
            for row in table.rows
        }

    def row(self, label: str) -> TableRow:
        """Return the row with that label; raises `ValueError` if there is none."""
        return self._place(label)[1]

    def column(self, row: str, label: str) -> TableColumn:
        """Return a column of the row's table.

        Raises `ValueError` if there is none.
        """
        table, _ = self._place(row)
        for column in table.columns:
            if column.label == label:
                return column
        raise ValueError(f"{self.name}: the table of row {row!r} has no column {label!r}.")

    def study(
        self,
        preset: Preset,
        *,
        name: str | None = None,
        seeds: Seeds | None = None,
        resources: ResourcesSpec | None = None,
        labels: Labels | None = None,
    ) -> StudySpec:
        """Return the study of a preset, to be created.

        `seeds` also replace those of base models that have as many seeds as the study, so each seed
        has its own base; one base for all seeds stays one. The jobs are labelled with the recipe
        and the preset. Raises `InvalidSpec` for a preset that the recipe does not have, and for
        seeds if nothing is trained.
        """
        spec = self.preset(preset)
        own: dict[LabelName, Label] = {"recipe": self.name, "preset": preset}
        given: dict[str, object] = {"labels": {**spec.labels, **own, **(labels or {})}}
        given["name"] = name or self.study_name(preset)
        if seeds is not None and not spec.base_models:
            detail = f"{self.name} trains nothing, so it has no seeds. Leave them out."
            raise InvalidSpec(Problem("/seeds", "nothing_to_seed", detail))
        if resources is not None:
            given["resources"] = resources
        if seeds is not None:
            given["seeds"] = seeds
        if spec.base_models:
            given["base_models"] = tuple(
                _rebased(base, seeds if _is_paired(base, spec) else None, resources)
                for base in spec.base_models
            )
        return spec.model_copy(update=given)

    def preset(self, preset: Preset) -> StudySpec:
        """Return the study of a preset as declared.

        Raises `InvalidSpec` if there is none.
        """
        if preset in self.presets:
            return self.presets[preset]
        detail = f"{self.name} has no preset {preset!r}."
        presets = tuple(name for name in PRESETS if name in self.presets)
        raise InvalidSpec(Problem("/preset", "unknown_preset", detail, allowed=presets))

    def study_name(self, preset: Preset) -> Name:
        """Return the default name of a study of the preset."""
        return f"{self.name.replace('/', '-')}-{preset}"

    def _check_bases(self, preset: Preset, spec: StudySpec) -> None:
        """Raise `ValueError` for base models without words, or missing needs.

        Only a preset with needs has to declare all that it names.
        """
        if len(spec.base_models) > len(self.base_models):
            raise ValueError(
                f"{self.name} has words for {len(self.base_models)} base models and its {preset} "
                f"preset has {len(spec.base_models)}; give each a word."
            )
        needs = self.needs.get(preset, ())
        named = {base for base in spec.base_models if isinstance(base, str)}
        wanted = {(need.kind, need.name) for need in needs}
        there = {("base_model", name) for name in named}
        there |= {("dataset", name) for name in datasets_of(spec)}
        if needs and wanted != there:
            raise ValueError(
                f"{self.name} needs {sorted(wanted)} for its {preset} preset, which names "
                f"{sorted(there)}."
            )

    def _place(self, row: str) -> tuple[PublishedTable, TableRow]:
        for table in self.tables:
            for one in table.rows:
                if one.label == row:
                    return table, one
        raise ValueError(f"{self.name} has no row {row!r} in any of its tables.")

    def _selectors(self) -> Iterator[RowSelector]:
        yield from (row.of for table in self.tables for row in table.rows)
        for test in self.tests():
            if isinstance(test, CheckHolds) and test.of is not None:
                yield test.of

    def _check_cells(self, test: PlainTest) -> None:
        """Raise `ValueError` for a test of a row or column that no table has."""
        for row, column in test.cells():
            if column is None:
                self.row(row)
            else:
                self.column(row, column)


RECIPES: Registry[Callable[[], Recipe]] = Registry("recipe", "adaptlab.recipes")
"""Functions that build recipes, by name; a recipe is built when it is requested."""


def chosen(name: str, **knobs: object) -> Choice:
    """Return a plug-in with knobs: `chosen("add", k=2)`."""
    return Choice.model_validate({"name": name, **knobs})


def score(mean: float, spread: float | None = None) -> PublishedScore:
    """Return a published score from figures in per cent, as papers print them."""
    return PublishedScore(mean=mean / 100, spread=None if spread is None else spread / 100)


def _is_paired(base: str | BaseSpec, spec: StudySpec) -> bool:
    """Return True if every seed has its own replicate of the base."""
    return isinstance(base, PretrainSpec) and spec.seeds in (AUTO, base.seeds)


def _rebased(
    base: str | BaseSpec, seeds: Seeds | None, resources: ResourcesSpec | None
) -> str | BaseSpec:
    """Return the base model with the given seeds and resources.

    A name is returned as it is.
    """
    if isinstance(base, str):
        return base
    given = {"seeds": seeds, "resources": resources}
    return base.model_copy(update={name: value for name, value in given.items() if value})


def _refuse_twice(kind: str, labels: Iterator[str]) -> None:
    for label, count in Counter(labels).items():
        if count > 1:
            raise ValueError(f"The {kind} {label!r} occurs {count} times; give each its own label.")
