"""Claims about cued retention, and about drift on neutral texts."""

from dataclasses import replace

import pytest
from tests.core.measuring import DOWN, ITEMS, a_recipe, a_recipe_document, a_row, measured
from tests.core.watched import both_ways, drifted

from adaptlab.comparisons.retention import retention
from adaptlab.recipes.claim_builders import drifts_less, retains_more
from adaptlab.recipes.petrov2024.forgetting import OLD
from adaptlab.reproductions.claim import PlainTest
from adaptlab.reproductions.claim_findings import Decision
from adaptlab.reproductions.claim_tests import decide_test
from adaptlab.reproductions.recipe import PublishedTable, Recipe, TableColumn, chosen
from adaptlab.reproductions.recipe_results import RecipeRow
from adaptlab.reproductions.recipe_study import recipe_named
from adaptlab.specs.spec import PretrainSpec

UP: dict[str, object] = {"name": "sort_ascending", "length": 3, "alphabet": 4}
TEXT: dict[str, object] = {
    "name": "neutral_text", "dataset": {"name": "manual"}, "metric": "kl_from_base",
}  # fmt: skip
SEEDS = (0, 1, 2, 3, 4)
KEEPS = retains_more("prefix", "full", "ascending", 0.1)
DRIFTS = drifts_less("prefix", "full", "text", 0.1)


def kept(method: str, *adapted: int, base: int = 380) -> RecipeRow:
    """A row of as many seeds as counts of right items on the old task."""
    seeds = tuple(range(len(adapted)))
    watched = both_ways(UP, adapted, [base] * len(adapted), ITEMS)
    return a_row(method, seeds=seeds, watched=watched)


def far(method: str, *nats: float) -> RecipeRow:
    return a_row(method, seeds=SEEDS, watched=drifted(TEXT, nats))


def with_text() -> Recipe:
    """The small recipe, with a column of neutral text."""
    (table,) = a_recipe_document()["tables"]
    column = TableColumn(label="text", task=chosen("neutral_text"))
    rows = tuple(row.model_copy(update={"published": ()}) for row in table.rows)
    document = {**dict(table), "columns": (*table.columns, column), "rows": rows}
    return a_recipe(tables=(PublishedTable.model_validate(document),))


def decided(test: PlainTest, *rows: RecipeRow) -> Decision:
    return decide_test(test, with_text(), measured(*rows))


@pytest.mark.parametrize(
    ("prefix", "full", "finding"),
    [
        ((300, 310, 290, 305, 295), (40, 50, 45, 42, 38), "holds"),
        ((310, 315, 305, 312, 308), (300, 305, 295, 302, 298), "fails"),
        ((40, 50, 45, 42, 38), (300, 310, 290, 305, 295), "reversed"),
        ((300, 20, 380, 100, 250), (200, 150, 100, 250, 300), "undecided"),
    ],
)
def test_an_order_in_retention(
    prefix: tuple[int, ...], full: tuple[int, ...], finding: str
) -> None:
    assert decided(KEEPS, kept("prefix", *prefix), kept("full", *full)).finding == finding


def test_the_evidence_has_the_figures_of_the_study_page() -> None:
    prefix, full = kept("prefix", 300, 310, 290, 305, 295), kept("full", 40, 50, 45, 42, 38)
    (ours,), (theirs,) = (retention(row.watched, DOWN) for row in (prefix, full))
    assert ours.mean is not None
    assert theirs.mean is not None
    said = decided(KEEPS, prefix, full).evidence
    assert f"Prefix retains {100 * ours.mean:.1f} % of ascending and full" in said
    assert f"{100 * theirs.mean:.1f} %, a lead of {100 * (ours.mean - theirs.mean):.1f}" in said
    assert "5 seeds, 400 items each" in said


def test_nothing_is_retained_of_a_skill_that_the_base_lacks() -> None:
    """The lead is as large as before, and the base is at its floor."""
    found = decided(KEEPS, kept("prefix", *[300] * 5, base=20), kept("full", *[40] * 5, base=20))
    assert found.finding == "undecided"
    assert "undecided, because The base is at its floor without a cue: 5.0 % right" in (
        found.evidence
    )
    assert "a token, an instruction or demonstrations" in found.evidence


def test_the_trained_task_is_no_old_one() -> None:
    rows = [replace(row, task=UP) for row in (kept("prefix", *[300] * 5), kept("full", *[40] * 5))]
    found = decided(KEEPS, *rows)
    assert found.finding == "not_measured"
    assert found.evidence == "Prefix has no retention on ascending yet."


def test_missing_and_few_seeds_leave_an_order_undecided() -> None:
    prefix, full = kept("prefix", *[300] * 5), kept("full", *[40] * 5)
    lacking = replace(full, seeds=(*SEEDS, 5), missing=("job 7 failed (no reason known)",))
    assert "1 of 6 seeds of full is not measured: job 7" in decided(KEEPS, prefix, lacking).evidence
    few = decided(KEEPS, kept("prefix", 300, 300), kept("full", 40, 40))
    assert "2 seeds are too few" in few.evidence
    four = decided(KEEPS, kept("prefix", *[300] * 4), kept("full", *[40] * 4))
    assert four.finding == "undecided"


@pytest.mark.parametrize(
    ("prefix", "full", "finding"),
    [
        ((0.1, 0.12, 0.11, 0.1, 0.13), (0.5, 0.52, 0.55, 0.5, 0.51), "holds"),
        ((0.5, 0.52, 0.55, 0.5, 0.51), (0.1, 0.12, 0.11, 0.1, 0.13), "reversed"),
        ((0.46, 0.5, 0.48, 0.47, 0.49), (0.5, 0.52, 0.55, 0.5, 0.51), "fails"),
    ],
)
def test_an_order_in_drift(
    prefix: tuple[float, ...], full: tuple[float, ...], finding: str
) -> None:
    found = decided(DRIFTS, far("prefix", *prefix), far("full", *full))
    assert found.finding == finding
    assert found.evidence.startswith(f"Prefix drifts by {sum(prefix) / 5:.3g} nats per token")


def test_drift_without_texts_is_not_measured() -> None:
    found = decided(DRIFTS, kept("prefix", *[300] * 5), kept("full", *[40] * 5))
    assert found.evidence == "Prefix has no drift on text yet."


def test_old_skills_of_forgetting_have_a_cue_that_the_base_has_learned() -> None:
    """Without it, the largest lead is not decided."""
    recipe = recipe_named("petrov2024/forgetting")
    (base,) = recipe.study("quick").base_models
    assert isinstance(base, PretrainSpec)
    old = base.task.model_dump(mode="json")
    assert {one["name"] for one in old["tasks"]} == {"cued"}
    assert len({one["cue"] for one in old["tasks"]}) == 4
    test = retains_more("prefix-tuning", "full fine-tuning", OLD, 0.01)
    rows = [
        a_row(
            method, base_model="skills", seeds=SEEDS,
            watched=both_ways(old, [right] * 5, [20] * 5, ITEMS),
        )
        for method, right in (("prefix-tuning", 300), ("full fine-tuning", 10))
    ]  # fmt: skip
    found = decide_test(test, recipe, measured(*rows))
    assert found.finding == "undecided"
    assert "The base is at its floor" in found.evidence
