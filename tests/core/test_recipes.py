"""Recipes as they are declared, with their studies and reports.

The studies are those that the recipes ask for.
"""

import re
from statistics import stdev
from typing import Any

import pytest
from pydantic import ValidationError
from tests.core.measuring import (
    DOWN,
    FAILS,
    UP,
    a_claim_of,
    a_recipe,
    a_recipe_document,
    a_row,
    a_study,
    measured,
    on_descending,
    right,
    trials,
)
from tests.core.planning import planned, pretrained

from adaptlab.errors import InvalidSpec, UnknownName
from adaptlab.reproductions.claim import (
    DeviationAtMost,
    RowSelector,
    ScoreAbove,
    ScoreAtLeast,
    ScoreAtMost,
    plain_tests,
)
from adaptlab.reproductions.recipe import (
    PRESETS,
    RECIPES,
    PublishedTable,
    Recipe,
    TableColumn,
    TableRow,
    chosen,
)
from adaptlab.reproductions.recipe_report import RecipeReport, recipe_report
from adaptlab.reproductions.recipe_results import RecipeMeasurements
from adaptlab.reproductions.recipe_study import (
    RecipeRequest,
    departures,
    recipe_named,
    study_of,
    with_base_names,
)
from adaptlab.reproductions.task_matching import agrees
from adaptlab.specs.spec import ResourcesSpec
from adaptlab.specs.task_floor import task_floor
from adaptlab.studies.study import StudyMethod, StudySpec


@pytest.fixture(params=RECIPES.names())
def recipe(request: pytest.FixtureRequest) -> Recipe:
    return recipe_named(request.param)


def test_a_recipe_has_a_name_that_finds_it_and_presets_with_notes(recipe: Recipe) -> None:
    assert recipe.name in RECIPES.names()
    assert set(recipe.presets) == set(recipe.notes)
    if recipe.name.startswith("petrov2024/"):
        assert set(PRESETS) - set(recipe.presets) <= {"small", "text"}


def test_no_failure_is_claimed_below_what_a_constant_answer_scores(recipe: Recipe) -> None:
    """Always answering 2 has 5.8 % of short histograms right."""
    floors = {}
    for preset in recipe.presets.values():
        for choice in (*preset.tasks, *preset.evaluation.tasks):
            if choice.name in ("double_histogram", "cued", "mixture", "sort_descending"):
                task = choice.model_dump(mode="json")
                floors[choice.name, str(task)] = (task, task_floor(task) or 0.0)
    for test in recipe.tests():
        if not isinstance(test, ScoreAtMost) or test.above_floor:
            continue
        shown = recipe.column(test.row, test.column)
        for task, floor in floors.values():
            assert floor < test.value or not shown.shows(task), (test, task)


def test_every_preset_can_be_made(recipe: Recipe) -> None:
    for preset in recipe.presets:
        spec = recipe.study(preset)
        assert spec.name == f"{recipe.name.replace('/', '-')}-{preset}"
        if len(pretrained(spec)) == len(spec.base_models):
            planned(spec)


def test_every_row_stands_for_something_in_some_preset(recipe: Recipe) -> None:
    """A label with a slip in it would otherwise be absent for ever."""
    methods = {None, *(method for spec in recipe.presets.values() for method in labels(spec))}
    for table in recipe.tables:
        assert {row.of.method for row in table.rows} <= methods


def labels(spec: StudySpec) -> list[str]:
    if spec.methods == "all" or not spec.methods:
        return []
    return [method.label or method.name for method in spec.methods]


def test_a_recipe_measures_with_five_seeds_at_least(recipe: Recipe) -> None:
    for preset in recipe.presets:
        spec = recipe.study(preset)
        if len(pretrained(spec)) == len(spec.base_models):
            assert all(len(job.resolved.seeds) >= 5 for job in planned(spec).jobs)
        else:  # a plan needs the facts of an imported model
            assert isinstance(spec.seeds, int)
            assert spec.seeds >= 5


def test_table_1_is_the_papers() -> None:
    """Table 1 of the paper in per cent, its spread over 10 seeds behind it."""
    (table,) = recipe_named("petrov2024/table-1").tables
    scores = {
        row.label: [(round(100 * one.mean), round(100 * (one.spread or 0))) for one in there]
        for row in table.rows
        if (there := [one for one in row.published if one is not None])
    }
    assert scores == {
        "pretrained on ascending": [(91, 5), (0, 0)],
        "full fine-tuning": [(0, 0), (85, 5)],
        "prefix-tuning": [(0, 0), (0, 0)],
    }
    assert (table.seeds, [column.label for column in table.columns]) == (
        10,
        ["ascending", "descending"],
    )


def test_no_recipe_says_itself_that_its_task_needs_a_new_pattern(recipe: Recipe) -> None:
    texts = [recipe.title, recipe.question, *recipe.notes.values()]
    texts += [one.text for claim in recipe.claims for one in claim.wordings.values()]
    assert [text for text in texts if re.search("needs a new (attention )?pattern", text)] == []


@pytest.mark.parametrize("preset", ["quick", "fair"])
def test_table_1_decides_whether_the_task_needs_a_new_pattern(preset: Any) -> None:
    recipe = recipe_named("petrov2024/table-1")
    (claim,) = [one for one in recipe.claims if one.id == "no-new-pattern-is-needed"]
    learns, stays = plain_tests(claim.wordings["iclr"].test)
    assert isinstance(learns, ScoreAtLeast)
    assert isinstance(stays, DeviationAtMost)
    assert learns.row == stays.row == "fine-tuning, first attention pinned"
    plan = planned(recipe.study(preset))
    (job,) = {cell.digest for cell in plan.cells if cell.method == learns.row}
    (resolved,) = [one.resolved for one in plan.jobs if one.digest == job]
    assert (resolved.method.name, len(resolved.seeds)) == ("pinned_finetuning", 10)


@pytest.mark.parametrize("preset", ["quick", "faithful", "fair"])
def test_the_prefix_of_table_1_has_96_parameters(preset: Any) -> None:
    plan = planned(recipe_named("petrov2024/table-1").study(preset))
    sizes = {cell.trainable_parameters for cell in plan.cells if cell.method == "prefix-tuning"}
    assert sizes == {96}


def test_table_1_is_faithful_to_the_papers_settings() -> None:
    plan = planned(recipe_named("petrov2024/table-1").study("faithful"))
    found = {cell.method: cell.digest for cell in plan.cells}
    jobs = {job.digest: job.resolved for job in plan.jobs}
    full, prefix = (jobs[found[name]].training for name in ("full fine-tuning", "prefix-tuning"))
    assert (full.steps, full.learning_rates) == (10_000, (5e-4,))
    assert (prefix.steps, prefix.learning_rates) == (40_000, (5e-4,))
    assert full.batch_size == prefix.batch_size == 64
    (base,) = pretrained(recipe_named("petrov2024/table-1").study("faithful"))
    assert (base.training.steps, base.training.learning_rate) == (20_000, 5e-4)


def test_table_1_is_fair_to_all_methods() -> None:
    plan = planned(recipe_named("petrov2024/table-1").study("fair"))
    assert {len(job.resolved.training.trials) for job in plan.jobs} == {8}
    assert {job.resolved.training.steps for job in plan.jobs} == {10_000}


def test_an_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        recipe_named("petrov2024/tabel-1")
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == ("/recipe", "unknown_recipe")
    assert problem.nearest[0] == "petrov2024/table-1"


def test_a_preset_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(InvalidSpec) as caught:
        a_recipe().study("fair")
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.allowed) == ("/preset", ("quick",))


def test_seeds_and_resources_are_those_of_base_models_too() -> None:
    request = RecipeRequest(
        recipe="petrov2024/table-1",
        preset="quick",
        seeds=4,
        resources=ResourcesSpec(queue="gpu"),
        labels={"who": "ada"},
    )
    spec = study_of(request)
    (base,) = pretrained(spec)
    assert (spec.seeds, base.seeds) == (4, 4)
    assert spec.resources.queue == base.resources.queue == "gpu"
    assert spec.labels == {"recipe": "petrov2024/table-1", "preset": "quick", "who": "ada"}
    assert {len(job.resolved.seeds) for job in planned(spec).jobs} == {4}
    (unchanged,) = pretrained(recipe_named("petrov2024/table-1").study("quick"))
    assert unchanged.seeds == 10


@pytest.mark.parametrize(
    ("own", "study_seeds", "seeds"), [(1, 10, 1), (10, 10, 4), (3, "auto", 4), (5, 10, 5)]
)
def test_a_base_model_that_all_seeds_share_stays_one(
    own: int, study_seeds: int | str, seeds: int
) -> None:
    base = {"name": "up", "family": "minigpt", "task": "sort_ascending", "seeds": own}
    recipe = a_recipe(presets={"quick": a_study(base_models=[base], seeds=study_seeds)})
    asked = recipe.study("quick", seeds=4)
    assert (asked.seeds, [base.seeds for base in pretrained(asked)]) == (4, [seeds])


def test_theory_alone_has_no_seeds() -> None:
    with pytest.raises(InvalidSpec, match="no seeds"):
        recipe_named("petrov2024/theorems").study("quick", seeds=3)


def test_other_names_of_base_models_reach_methods_and_checks_too() -> None:
    methods = [{"name": "prefix_tuning", "label": "prefix", "base_models": ["up-quick"]}]
    checks = [{"name": "identities", "base_models": ["up-quick"]}]
    renamed = with_base_names(a_study(methods=methods, checks=checks), {"up-quick": "up-quick-2"})
    assert [base.name for base in pretrained(renamed)] == ["up-quick-2"]
    methods = [one for one in renamed.methods if isinstance(one, StudyMethod)]
    assert [one.base_models for one in (*methods, *renamed.checks)] == [("up-quick-2",)] * 2
    planned(renamed)


def test_a_study_departs_from_its_recipe_where_it_was_changed() -> None:
    recipe = recipe_named("petrov2024/table-1")
    spec = recipe.study("fair", name="mine", seeds=3, resources=ResourcesSpec(queue="gpu"))
    again = with_base_names(spec, {"petrov2024-ascending": "elsewhere"})
    stored = StudySpec.model_validate(again.model_dump(mode="json", exclude_unset=True))
    assert departures(recipe, "fair", stored) == ()
    longer = spec.training.model_copy(update={"steps": 7})
    assert departures(recipe, "fair", spec.model_copy(update={"training": longer})) == ("training",)
    (base,) = pretrained(spec)
    other_task = base.model_copy(update={"task": chosen("copy")})
    changed = spec.model_copy(update={"base_models": (other_task,)})
    assert departures(recipe, "fair", changed) == ("base_models",)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"claims": (a_claim_of(ScoreAtMost(row="nobody", column="x", value=0)),)}, "no row"),
        ({"claims": (a_claim_of(ScoreAtMost(row="base", column="x", value=0)),)}, "no column"),
        (
            {"claims": (a_claim_of(ScoreAbove(row="base", column="ascending", other="x")),)},
            "no row",
        ),
        ({"presets": {"fair": a_study()}}, "needs a quick preset"),
        ({"notes": {}}, "a note on every preset"),
        ({"versions": {"arxiv_v1": "arXiv v1"}}, "a wording of iclr"),
        ({"versions": {}}, "at least 1 item"),
        ({"base_models": ("down",)}, "no base model 'up'"),
        ({"base_models": ()}, "give each a word"),
        ({"claims": (a_claim_of(FAILS), a_claim_of(FAILS))}, "claim 'claim' occurs 2 times"),
        ({"name": "without-a-slash"}, "pattern"),
    ],
)
def test_a_recipe_that_does_not_fit_together_is_refused(
    changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Recipe.model_validate(a_recipe_document(**changes))


def test_a_table_has_one_score_a_column() -> None:
    column = TableColumn(label="ascending", task=chosen("sort_ascending"))
    row = TableRow(label="base", of=RowSelector(), published=(None, None))
    with pytest.raises(ValidationError, match="2 published scores and the table 1"):
        PublishedTable(title="", source="", columns=(column,), rows=(row,))


@pytest.mark.parametrize(
    ("asked", "task", "is_meant"),
    [
        (chosen("sort_descending"), DOWN, True),
        (chosen("sort_descending", length=3), DOWN, True),
        (chosen("sort_descending", length=4), DOWN, False),
        (chosen("sort_ascending"), DOWN, False),
        (chosen("add", k=2), {"name": "add", "k": 1}, False),
        (chosen("composition", first="copy"), {"name": "composition", "first": DOWN}, False),
        (
            chosen("composition", first={"name": "sort_descending"}),
            {"name": "composition", "first": DOWN, "then": UP},
            True,
        ),
        (chosen("mixture", parts=["sort_descending"]), {"name": "mixture", "parts": [DOWN]}, True),
        (
            chosen("mixture", parts=["sort_descending"]),
            {"name": "mixture", "parts": [DOWN, UP]},
            False,
        ),
    ],
)
def test_a_task_is_meant_if_it_has_the_knobs_that_are_named(
    asked: Any, task: dict[str, object], is_meant: bool
) -> None:
    assert agrees(asked, task) is is_meant


def reported(*rows: Any) -> RecipeReport:
    return recipe_report(a_recipe(), "quick", measured(*rows))


@pytest.fixture(scope="module")
def report() -> RecipeReport:
    """A base model and a prefix that were measured; the control was not."""
    base = a_row(None, scores=((UP, right(360, 370, 380)), (DOWN, right(0, 0, 0))), parameters=9)
    prefix = on_descending(90, 90, 93, trials=trials([[0, 1], [0, 2], [0, 3]]), steps=40)
    return reported(base, prefix)


def test_a_report_has_measured_beside_published(report: RecipeReport) -> None:
    up, down = report.tables[0].rows[0].cells
    assert up.measured is not None
    assert up.measured.mean == pytest.approx(370 / 400)
    assert up.published is not None
    assert up.published.mean == 0.91
    assert (up.state, up.published_inside, down.published_inside) == ("measured", True, True)
    assert (report.note, report.preset, report.level) == ("Smaller than anything.", "quick", 0.95)


def test_a_cell_has_the_accuracy_of_each_seed_and_their_spread(report: RecipeReport) -> None:
    up = report.tables[0].rows[0].cells[0]
    assert [one.accuracy for one in up.seeds] == [0.9, 0.925, 0.95]
    assert up.spread == pytest.approx(stdev([0.9, 0.925, 0.95]))


def test_a_row_has_its_size_and_effort_and_what_of_it_was_measured(report: RecipeReport) -> None:
    base, prefix, control = report.tables[0].rows
    assert (base.parameters, base.control) == (9, False)
    assert (prefix.trials, prefix.steps) == (2, 40)
    assert [cell.state for cell in prefix.cells] == ["not_measured", "measured"]
    assert prefix.cells[1].published_inside is False
    assert ([cell.state for cell in control.cells], control.control) == (["absent", "absent"], True)


def test_a_study_that_has_begun_has_a_report() -> None:
    said = reported(a_row(None, missing=("job 7 is queued",)))
    base = said.tables[0].rows[0]
    assert [cell.state for cell in base.cells] == ["not_measured", "not_measured"]
    assert base.cells[0].reason == "base has no score on ascending yet: job 7 is queued."
    assert [one.finding for one in said.claims] == ["not_measured"]
    assert recipe_report(a_recipe(), "quick", RecipeMeasurements()).tables[0].rows[0].cells[
        0
    ].state == ("absent")


def test_a_cell_that_lacks_seeds_says_so() -> None:
    said = reported(on_descending(0, 0, seeds=(0, 1, 2), missing=("job 7 is queued",)))
    cell = said.tables[0].rows[1].cells[1]
    assert (cell.state, cell.reason) == (
        "partly_measured",
        "1 of 3 seeds is not measured: job 7 is queued.",
    )


def test_a_report_survives_being_written_down() -> None:
    said = reported(on_descending(0, 0, 0))
    assert RecipeReport.model_validate_json(said.model_dump_json()) == said
