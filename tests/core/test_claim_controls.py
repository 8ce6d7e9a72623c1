"""Claims of every recipe on invented scores.

What nothing has learned shows nothing.
"""

from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
from pydantic import ValidationError
from tests.core.measuring import (
    CAN_BE_LEARNED,
    DOWN,
    FAILS,
    IS_NEW,
    a_claim_of,
    a_recipe,
    a_recipe_document,
    measured,
    on_descending,
    right,
)
from tests.core.watched import both_ways

from adaptlab.plugins.task import TASKS
from adaptlab.reproductions.claim import (
    CheckAbove,
    CheckHolds,
    DeviationAtLeast,
    EveryTrialAtMost,
    NoLarger,
    PaperClaim,
    PlainTest,
    RetainsMore,
    RowSelector,
    ScoreAbove,
    ScoreAtLeast,
    ScoreAtMost,
    Wording,
    plain_tests,
)
from adaptlab.reproductions.claim_rules import DeclaredRow, is_failure
from adaptlab.reproductions.claim_verdicts import ClaimVerdict, claim_verdicts
from adaptlab.reproductions.recipe import PRESETS, RECIPES, Preset, PublishedTable, Recipe, TableRow
from adaptlab.reproductions.recipe_results import (
    MeasuredCheck,
    RecipeMeasurements,
    RecipeRow,
    SeedLoss,
    TrialScore,
    row_of,
)
from adaptlab.reproductions.recipe_study import recipe_named
from adaptlab.runs.events import Evaluation
from adaptlab.runs.theory_report import Check
from adaptlab.specs.spec import Choice
from adaptlab.statistics import Scores

ITEMS = 400
SEEDS = (0, 1, 2, 3, 4)
Cell = tuple[str, str]
"""Labels of a row and a column."""
QUARTER = 0.25
TRUE_OF_A_QUARTER = {("petrov2024/table-2", "base-knows-all")}
"""Claims of the base model alone that say just this: about a quarter of the items of each task."""
AT_REST = tuple(SeedLoss(seed, 1.0, 1.0) for seed in SEEDS)


@pytest.fixture(params=RECIPES.names())
def recipe(request: pytest.FixtureRequest) -> Recipe:
    return recipe_named(request.param)


def task_of(table: PublishedTable, trained: Collection[str]) -> Choice | None:
    """Return the task of a row of these trained columns.

    None for a base model on its own.
    """
    columns = [column.task for column in table.columns if column.label in trained]
    return columns[0] if columns else None


def invented(
    recipe: Recipe, scores: Mapping[Cell, float], *, labels: Set[str | None] | None = None
) -> RecipeMeasurements:
    """Return every row with these scores, the rest 0.

    The rows are untrained, so that no attention moved. With `labels`, only rows of these methods.
    """
    declared = recipe.declared_rows()
    rows = tuple(
        a_row_of(recipe, table, row, declared[row.label].trained, scores)
        for table in recipe.tables
        for row in table.rows
        if labels is None or row.of.method in labels
    )
    names = {check.name for spec in recipe.presets.values() for check in spec.checks}
    checks = tuple(
        MeasuredCheck(name, name, seeds=3, reports=reports_of(recipe, name))
        for name in sorted(names)
    )
    return RecipeMeasurements(rows=rows, checks=checks if recipe.tables else ())


def reports_of(recipe: Recipe, check: str) -> tuple[Check, ...]:
    """A report that holds, and one for each that the recipe's claims name."""
    tests = [
        test
        for claim in recipe.claims
        for wording in claim.wordings.values()
        for test in (*plain_tests(wording.test), *claim.given, *claim.controls)
    ]
    named = [one.report for one in tests if isinstance(one, CheckHolds) and one.check == check]
    return tuple(
        Check.at_most(name, "It holds.", 0.0, 1.0)
        for name in dict.fromkeys(["invented", *(one for one in named if one is not None)])
    )


def failing(found: RecipeMeasurements, test: CheckHolds) -> RecipeMeasurements:
    """The same, with the report of a check that does not hold."""
    fails = Check.at_most(test.report or "invented", "It fails.", 2.0, 1.0)
    checks = [
        replace(one, reports=(*(r for r in one.reports if r.name != fails.name), fails))
        if one.check == test.check
        else one
        for one in found.checks
    ]
    return replace(found, checks=tuple(checks))


def a_row_of(
    recipe: Recipe,
    table: PublishedTable,
    row: TableRow,
    trained: Collection[str],
    scores: Mapping[Cell, float],
) -> RecipeRow:
    def count(column: str) -> int:
        return round(ITEMS * scores.get((row.label, column), 0.0))

    def scored(on: str | None) -> tuple[tuple[dict[str, object], Scores], ...]:
        return tuple(
            (column.task.model_dump(mode="json"), right(*[count(column.label)] * len(SEEDS)))
            for column in table.columns
            if column.base_model == on
        )

    task = task_of(table, trained)
    best = max((count(column) for column in trained), default=0)
    return RecipeRow(
        base_model=row.of.base_model or recipe.base_models[0],
        method=row.of.method,
        task=None if task is None else task.model_dump(mode="json"),
        seeds=SEEDS,
        parameters=100,
        steps=100,
        scores=scored(None),
        watched=() if row.of.method is None else watched(recipe, table, row, scores),
        carried={c.base_model: scored(c.base_model) for c in table.columns if c.base_model},
        deviations=dict.fromkeys(SEEDS, 0.0),
        trials=tuple(
            TrialScore(seed, 10.0**-place, "completed", best, ITEMS)
            for seed in SEEDS
            for place in range(8)
        ),
        schedule="constant",
        losses=AT_REST,
    )


def watched(
    recipe: Recipe, table: PublishedTable, row: TableRow, scores: Mapping[Cell, float]
) -> tuple[Evaluation, ...]:
    """Return the scores of a row and of its base model, for retention."""
    declared = recipe.declared_rows()
    base = declared[row.label].of.base_model
    of = [one.label for one in table.rows if declared[one.label] == alone(base)]
    return tuple(
        chain.from_iterable(
            both_ways(
                column.task.model_dump(mode="json"),
                *(
                    [round(ITEMS * scores.get((label, column.label), 0.0))] * len(SEEDS)
                    for label in (row.label, *of[:1])
                ),
                items=ITEMS,
            )
            for column in table.columns
            if of and column.base_model is None
        )
    )


def alone(base: str | None) -> DeclaredRow:
    return DeclaredRow(of=RowSelector(base_model=base), trained=frozenset())


def everywhere(recipe: Recipe, value: float) -> dict[Cell, float]:
    return {
        (row.label, column.label): value
        for table in recipe.tables
        for row in table.rows
        for column in table.columns
    }


def by_chance(recipe: Recipe) -> dict[Cell, float]:
    return {
        (row.label, column.label): TASKS.get(column.task.name)
        .model_validate(column.task.model_dump())
        .chance()
        for table in recipe.tables
        for row in table.rows
        for column in table.columns
    }


def reproduced(recipe: Recipe, measured: RecipeMeasurements) -> list[str]:
    found = claim_verdicts(recipe, measured)
    return [f"{one.claim} {one.wording}" for one in found if one.finding == "holds"]


@pytest.mark.long("recipes", but=6)
@pytest.mark.parametrize("invention", ["zero", "one", "chance"])
def test_nothing_is_reproduced_by_invented_scores(recipe: Recipe, invention: str) -> None:
    scores = {
        "zero": everywhere(recipe, 0.0),
        "one": everywhere(recipe, 1.0),
        "chance": by_chance(recipe),
    }[invention]
    for labels in measured_together(recipe):
        found = reproduced(recipe, invented(recipe, scores, labels=labels))
        assert found == [], sorted(map(str, labels))


def measured_together(recipe: Recipe) -> set[frozenset[str | None]]:
    """Return the sets of methods that are measured together.

    They are all methods of the recipe's rows, and those that each preset measures, each set once.
    """
    rows = frozenset(row.of.method for table in recipe.tables for row in table.rows)
    return {rows, *(rows & {None, *methods_of(recipe, preset)} for preset in recipe.presets)}


def methods_of(recipe: Recipe, preset: Preset) -> Iterator[str]:
    methods = recipe.presets[preset].methods
    yield from (one.label or one.name for one in methods if not isinstance(one, str))


def test_nothing_is_reproduced_where_everything_has_a_quarter_right(recipe: Recipe) -> None:
    found = claim_verdicts(recipe, invented(recipe, everywhere(recipe, QUARTER)))
    assert [
        one.claim
        for one in found
        if one.finding == "holds" and (recipe.name, one.claim) not in TRUE_OF_A_QUARTER
    ] == []


def ideal(claim: PaperClaim, wording: Wording, preset: Preset = "quick") -> dict[Cell, float]:
    """Return scores with which a claim is true and its controls are met.

    Where none is named, the score is 0.
    """
    return {
        (test.row, test.column): 1.0
        for test in (*plain_tests(wording.test), *claim.premises(preset), *claim.controls)
        if isinstance(test, ScoreAtLeast | ScoreAbove | RetainsMore)
    }


def verdict_on(
    recipe: Recipe,
    claim: PaperClaim,
    wording: str,
    measured: RecipeMeasurements,
    preset: Preset = "quick",
) -> ClaimVerdict:
    """Return the verdict on one claim in one wording.

    The claim stands alone, so the others are not computed.
    """
    alone = recipe.model_copy(update={"claims": (claim,)})
    (found,) = [one for one in claim_verdicts(alone, measured, preset) if one.wording == wording]
    return found


def presets_of(recipe: Recipe, claim: PaperClaim) -> list[Preset]:
    """The presets that test a claim with different premises."""
    first: Preset = "quick" if claim.presets is None else claim.presets[0]
    others = claim.given_in.keys() & recipe.presets.keys()
    return [preset for preset in PRESETS if preset == first or preset in others]


def moving(found: RecipeMeasurements, claim: PaperClaim, recipe: Recipe) -> RecipeMeasurements:
    """Return the same measurements, with attention that moved.

    It moved in the rows that the claim says it moves in, and checks have figures in its order.
    """
    tests = [test for wording in claim.wordings.values() for test in plain_tests(wording.test)]
    moved = {recipe.row(one.row).of.method for one in tests if isinstance(one, DeviationAtLeast)}
    rows = [
        replace(row, deviations=dict.fromkeys(SEEDS, 0.5)) if row.method in moved else row
        for row in found.rows
    ]
    orders = [one for one in tests if isinstance(one, CheckAbove)]
    counted = [
        counts(found, recipe, order, label, 100 * (label == order.row))
        for order in orders
        for label in (order.row, order.other)
    ]
    return replace(found, rows=tuple(rows), checks=(*found.checks, *counted))


def counts(
    found: RecipeMeasurements, recipe: Recipe, test: CheckAbove, label: str, count: int
) -> MeasuredCheck:
    """Return the check of a row with the same count in every seed."""
    row = row_of(recipe, found, label)
    assert isinstance(row, RecipeRow)
    figure = {test.detail: (count,) * len(SEEDS), "seeds": SEEDS}
    report = Check.at_most("invented", "There are none.", count, 0.0, **figure)
    return MeasuredCheck(test.check, test.check, of=row, reports=(report,))


def without(test: PlainTest, scores: dict[Cell, float]) -> dict[Cell, float]:
    """The scores with which a control is not met."""
    assert isinstance(test, ScoreAtLeast | ScoreAtMost)
    return {**scores, (test.row, test.column): 0.0 if isinstance(test, ScoreAtLeast) else 1.0}


@pytest.mark.long("recipes", but=4)
def test_every_control_is_needed(recipe: Recipe) -> None:
    """A claim is reproduced on ideal scores only with all of its controls.

    It is not reproduced without any one of them.
    """
    wordings: list[tuple[PaperClaim, str, Wording, Preset]] = [
        (claim, name, wording, preset)
        for claim in recipe.claims
        for name, wording in claim.wordings.items()
        for preset in presets_of(recipe, claim)
        if recipe.tables and claim.id != "base-knows-all"
    ]
    for claim, name, wording, preset in wordings:
        scores = ideal(claim, wording, preset)
        found = moving(invented(recipe, scores), claim, recipe)
        assert verdict_on(recipe, claim, name, found, preset).finding == "holds", claim.id
        for control in (*claim.premises(preset), *claim.controls):
            worse = found
            if isinstance(control, NoLarger):
                method = recipe.row(control.row).of.method
                rows = [
                    replace(row, parameters=200) if row.method == method else row
                    for row in found.rows
                ]
                worse = replace(found, rows=tuple(rows))
            elif isinstance(control, CheckHolds):
                worse = failing(found, control)
            else:
                changed = without(control, scores)
                worse = moving(invented(recipe, changed), claim, recipe)
            assert verdict_on(recipe, claim, name, worse, preset).finding != "holds", control


def test_every_failure_has_a_success_beside_it(recipe: Recipe) -> None:
    rows = recipe.declared_rows()
    for claim in recipe.claims:
        for wording in claim.wordings.values():
            for test in plain_tests(wording.test):
                if is_failure(test, rows):
                    controls = [one for one in claim.controls if isinstance(one, ScoreAtLeast)]
                    assert [one for one in controls if one.row != getattr(test, "row")]  # noqa: B009


@pytest.mark.parametrize(
    ("claim", "complaint"),
    [
        (a_claim_of(FAILS, controls=()), "learns what 'prefix' is claimed to fail at"),
        (a_claim_of(FAILS, controls=(IS_NEW,)), "learns what 'prefix' is claimed to fail at"),
        (
            a_claim_of(FAILS, controls=(ScoreAtLeast(row="full", column="descending", value=0.1),)),
            "learns what 'prefix' is claimed to fail at",
        ),
        (
            a_claim_of(FAILS, controls=(ScoreAtLeast(row="full", column="ascending", value=0.8),)),
            "learns what 'prefix' is claimed to fail at",
        ),
        (
            a_claim_of(
                FAILS, controls=(ScoreAtLeast(row="prefix", column="descending", value=0.8),)
            ),
            "learns what 'prefix' is claimed to fail at",
        ),
        (
            a_claim_of(EveryTrialAtMost(row="prefix", value=0.01), controls=()),
            "learns what 'prefix' is claimed to fail at",
        ),
        (
            a_claim_of(ScoreAtLeast(row="full", column="descending", value=0.8), given=()),
            "the base model alone scores less on 'descending' than is claimed of 'full'",
        ),
        (
            a_claim_of(ScoreAtMost(row="full", column="ascending", value=0.1), controls=()),
            "'full' has learned its task, or that its base model had 'ascending'",
        ),
        (
            a_claim_of(ScoreAbove(row="prefix", other="full", column="ascending", by=0.01)),
            "a test in `given` that 'prefix' has learned its task",
        ),
        (
            a_claim_of(ScoreAbove(row="full", other="prefix", column="descending", by=0.01)),
            "a test in `given` that 'full' has learned its task",
        ),
    ],
)
def test_a_claim_without_the_control_that_it_needs_cannot_be_declared(
    claim: PaperClaim, complaint: str
) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Recipe.model_validate(a_recipe_document(claims=(claim,)))


def small(claim: PaperClaim, *rows: RecipeRow) -> ClaimVerdict:
    (found,) = claim_verdicts(a_recipe(claims=(claim,)), measured(*rows))
    return found


def trained(*counts: int, method: str | None, **changes: Any) -> RecipeRow:
    given = {"schedule": "constant", "losses": AT_REST, "steps": 100, "parameters": 96}
    return on_descending(*counts, method=method, **(given | changes))


BASE = replace(on_descending(0, 0, 0, method=None), task=None)
FULL = trained(400, 400, 400, method="full")
PREFIX = trained(0, 0, 0, method="prefix")


def test_a_failure_counts_where_a_control_learned() -> None:
    met = small(a_claim_of(FAILS), BASE, FULL, PREFIX)
    assert met.finding == "holds"
    assert [one.finding for one in met.controls] == ["holds", "holds"]
    assert "full trained 96 parameters for 100 steps in 1 trial per seed, prefix" in (
        met.controls[1].evidence
    )
    unmet = small(a_claim_of(FAILS), BASE, trained(0, 0, 0, method="full"), PREFIX)
    assert unmet.finding == "undecided"
    assert "undecided, because a control is not met: Full scores 0.0 %" in unmet.evidence
    assert small(a_claim_of(FAILS), BASE, PREFIX).finding == "undecided"


@pytest.mark.parametrize(
    "more",
    [
        {"steps": 101},
        {
            "trials": tuple(
                TrialScore(s, r, "completed", 400, 400) for s in SEEDS for r in (0.1, 1.0)
            )
        },
    ],
)
def test_a_control_may_not_have_had_more_effort(more: dict[str, Any]) -> None:
    found = small(a_claim_of(FAILS), BASE, replace(FULL, **more), PREFIX)
    assert found.finding == "undecided"
    assert "so the control had more effort" in found.evidence


def test_what_was_learned_refutes_a_failure_without_a_control() -> None:
    learned = trained(400, 400, 400, method="prefix")
    assert small(a_claim_of(FAILS), BASE, learned).finding == "fails"


LEARNS = ScoreAtLeast(row="prefix", column="descending", value=0.8)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schedule": "cosine"}, "cosine schedule"),
        ({"losses": ()}, "was not kept"),
        ({"losses": tuple(SeedLoss(s, None, 0.5) for s in SEEDS)}, "was not kept"),
        ({"losses": tuple(SeedLoss(s, 1.0, 0.5) for s in SEEDS)}, "still falling"),
        ({"losses": tuple(SeedLoss(s, 1.0, 1.0, at_edge=True) for s in SEEDS)}, "lowest or the"),
    ],
)
def test_what_is_not_at_rest_is_not_said_to_be_unlearnable(
    changes: dict[str, Any], reason: str
) -> None:
    claim = a_claim_of(LEARNS, controls=())
    assert small(claim, BASE, PREFIX).finding == "fails"
    moving = small(claim, BASE, replace(PREFIX, **changes))
    assert moving.finding == "undecided"
    assert reason in moving.evidence


def test_a_lead_is_refuted_only_where_the_first_had_come_to_rest() -> None:
    ahead = ScoreAbove(row="full", other="prefix", column="descending", by=0.5)
    claim = a_claim_of(ahead, controls=())
    prefix = trained(0, 0, 0, 0, 0, method="prefix")
    poor = trained(0, 0, 0, 0, 0, method="full", schedule="cosine")
    assert small(claim, BASE, poor, prefix).finding == "undecided"
    assert small(claim, BASE, replace(poor, schedule="constant"), prefix).finding == ("fails")
    learned = trained(400, 400, 400, 400, 400, method="prefix")
    assert small(claim, BASE, poor, learned).finding == "reversed"  # no room to be ahead


def test_sizes_are_equal_within_a_share() -> None:
    claim = a_claim_of(FAILS, controls=(CAN_BE_LEARNED, NoLarger(row="full", other="prefix")))
    assert small(claim, BASE, FULL, PREFIX).finding == "holds"
    larger = small(claim, BASE, replace(FULL, parameters=98), PREFIX)
    assert larger.finding == "undecided"
    assert "98 trained parameters and prefix has 96; claimed: at most 2.0 % more" in larger.evidence
    assert DOWN["length"] == 3


def test_rest_is_asked_of_the_task_that_was_trained() -> None:
    """What is left of another task is not unlearned by too few steps."""
    up = {"name": "sort_ascending", "length": 3, "alphabet": 4}
    kept = ScoreAbove(row="prefix", other="full", column="ascending", by=0.01)
    learned = tuple(
        ScoreAtLeast(row=label, column="descending", value=0.5) for label in ("prefix", "full")
    )
    rows = [
        replace(row, scores=((DOWN, right(*[400] * 5)), (up, right(*[0] * 5))))
        for row in (replace(PREFIX, schedule="cosine"), FULL)
    ]
    claim = a_claim_of(kept, given=learned, controls=())
    assert small(claim, BASE, *rows).finding == "fails"
