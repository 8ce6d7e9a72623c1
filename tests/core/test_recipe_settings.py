"""Settings of recipes, against those of the paper.

Sizes are counted from the paper's architecture.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import chain

import pytest
from tests.core.planning import planned, pretrained

from adaptlab.plugins.registry import as_json
from adaptlab.reproductions.claim import (
    CheckAbove,
    CheckHolds,
    EveryTrialAtMost,
    PlainTest,
    plain_tests,
)
from adaptlab.reproductions.recipe import RECIPES, Preset, Recipe
from adaptlab.reproductions.recipe_study import recipe_named
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt, ResolvedPretrain
from adaptlab.specs.spec import BudgetSpec
from adaptlab.studies.study import StudyMethod
from adaptlab.studies.study_plan import StudyPlan

PAPER = "petrov2024"
WIDTH, LAYERS = 256, 4
BLOCK = 12 * WIDTH**2 + 9 * WIDTH
"""Matrices of attention (4) and MLP (8), biases (3 + 1 + 4 + 1), without norms."""
NORMS = 4 * WIDTH
"""Both norms of a block, scale and shift."""
RANK_1_OF_MLP = 2 * (WIDTH + 4 * WIDTH)
RANK_1_OF_OUTPUT = WIDTH + WIDTH


@pytest.fixture(params=RECIPES.names())
def recipe(request: pytest.FixtureRequest) -> Recipe:
    return recipe_named(request.param)


@cache
def plan_of(name: str, preset: Preset) -> StudyPlan:
    """Return the plan of a recipe's study, made once for all tests.

    Hundreds of jobs take seconds to resolve.
    """
    return planned(recipe_named(name).study(preset))


def jobs_of(name: str, preset: Preset, method: str) -> list[ResolvedAdapt]:
    """Return what the jobs of one method of a recipe run.

    The jobs are on whatever base model and task.
    """
    plan = plan_of(f"{PAPER}/{name}", preset)
    known = {job.digest: job.resolved for job in plan.jobs}
    return [known[cell.digest] for cell in plan.cells if cell.method == method]


def base_of(name: str, place: int = 0) -> ResolvedPretrain:
    spec = recipe_named(f"{PAPER}/{name}").study("faithful")
    return resolve(pretrained(spec)[place], None)


@pytest.mark.parametrize(
    ("name", "preset", "method", "size"),
    [
        ("table-1", "faithful", "prefix-tuning", 96),
        ("table-2", "faithful", "prefix-tuning", 256),
        ("table-3", "faithful", "prefix-tuning", LAYERS * 10 * WIDTH),
        ("table-3", "faithful", "prefix-tuning, trained longer", 10_240),
        ("table-3", "fair", "LoRA on the MLP alone", LAYERS * RANK_1_OF_MLP),
        ("lora-vs-prefix", "faithful", "prefix-tuning", LAYERS * 12 * WIDTH),
        ("lora-vs-prefix", "faithful", "LoRA", LAYERS * (RANK_1_OF_MLP + RANK_1_OF_OUTPUT)),
        ("lora-vs-prefix", "fair", "LoRA on the MLP alone", 10_240),
        ("lora-vs-prefix", "fair", "prefix-tuning as large as LoRA on the MLP", 10_240),
        ("translation", "faithful", "prefix-tuning", 67_584),
        ("prefix-attention", "faithful", "prefix-tuning", 12 * 10 * 768),
        ("prefix-plus-lora", "fair", "prefix-tuning", 2 * 10_240),
        ("prefix-plus-lora", "fair", "LoRA on the MLP alone", 2 * 10_240),
        ("prefix-plus-lora", "fair", "prefix and LoRA", 2 * 10_240),
    ],
)
def test_trained_parameters_are_the_papers(
    name: str, preset: Preset, method: str, size: int
) -> None:
    found = {job.budget.trainable_parameters for job in jobs_of(name, preset, method)}
    assert found == {size}


def test_sizes_of_the_paper_are_equal_where_it_says_so() -> None:
    assert LAYERS * (RANK_1_OF_MLP + RANK_1_OF_OUTPUT) == 12_288 == LAYERS * 12 * WIDTH
    assert LAYERS * RANK_1_OF_MLP == 10_240 == LAYERS * 10 * WIDTH


@pytest.mark.parametrize("preset", recipe_named(f"{PAPER}/lora-vs-prefix").presets)
def test_lora_and_prefix_are_equal_in_every_preset(preset: Preset) -> None:
    pairs = [("LoRA", "prefix-tuning")]
    if preset != "faithful":
        pairs.append(("LoRA on the MLP alone", "prefix-tuning as large as LoRA on the MLP"))
    for lora, prefix in pairs:
        (one,), (other,) = (jobs_of("lora-vs-prefix", preset, m) for m in (lora, prefix))
        assert one.budget.trainable_parameters == other.budget.trainable_parameters


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_small_lora_and_prefix_are_equal_at_every_rank(rank: int) -> None:
    """LoRA and prefix-tuning have equal sizes at every rank.

    With two layers of width 64 they have (64 + 64) + 2 * (64 + 256) parameters per layer and rank.
    """
    names = ("LoRA", "prefix-tuning")
    if rank > 1:
        names = (f"LoRA of rank {rank}", f"prefix-tuning as large as LoRA of rank {rank}")
    sizes = {
        job.budget.trainable_parameters
        for name in names
        for job in jobs_of("lora-vs-prefix", "small", name)
    }
    assert sizes == {rank * 2 * (128 + 640)}


@pytest.mark.parametrize("name", ["table-3", "lora-vs-prefix", "one-layer-table-3"])
def test_small_presets_train_at_a_constant_rate_from_two_starts(name: str) -> None:
    plan = plan_of(f"{PAPER}/{name}", "small")
    known = {job.digest: job.resolved for job in plan.jobs}
    for cell in plan.cells:
        job = known[cell.digest]
        assert job.training.schedule == "constant"
        assert job.training.early_stopping is not None
        assert len(set(job.training.learning_rates)) == 4
        assert len(job.seeds) == 5
        if "prefix" in cell.method:
            trials = {(one.learning_rate, one.initial_scale) for one in job.training.trials}
            assert (1.0, 0.02) in trials
            assert (1.0, 1.0) in trials


def test_loras_for_words_has_the_papers_count() -> None:
    """66,780 at its 55 tokens, and 4 more for every further one."""
    (job,) = jobs_of("translation", "faithful", "LoRA")
    tokens = as_json(job.family)["vocabulary"]
    assert isinstance(tokens, int)
    assert job.budget.trainable_parameters == 66_780 + 4 * (tokens - 55)


@pytest.mark.parametrize(
    ("name", "layers", "positions", "norms"),
    [
        ("table-2", 1, 20, WIDTH * 2),  # one norm in the block: that before attention is left out
        ("table-3", LAYERS, 29, LAYERS * NORMS),
        ("lora-vs-prefix", LAYERS, 31, LAYERS * NORMS),
    ],
)
def test_base_models_are_the_papers(name: str, layers: int, positions: int, norms: int) -> None:
    """The base models have the sizes of the paper's.

    They are 3,169,536 for table 3 and so on, with a head, and with a token more for a count of ten.
    """
    base = base_of(name)
    tokens = 10 if name == "table-2" else 11
    rest = WIDTH * (2 * tokens + positions) + 2 * WIDTH
    assert base.budget.trainable_parameters == layers * BLOCK + norms + rest
    assert as_json(base.family)["dropout"] == 0.1
    assert as_json(base.family)["heads"] == 4


@pytest.mark.parametrize(
    ("name", "method", "steps", "rate"),
    [
        ("table-2", "prefix-tuning", 30_000, 5e-5),
        ("table-3", "prefix-tuning", 20_000, 5e-5),
        ("table-3", "prefix-tuning, trained longer", 500_000, 5e-5),
        ("lora-vs-prefix", "prefix-tuning", 100_000, 5e-5),
        ("lora-vs-prefix", "LoRA", 10_000, 5e-3),
        ("translation", "prefix-tuning", 100_000, 5e-5),
        ("translation", "LoRA", 50_000, 1e-3),
        ("one-layer-table-3", "prefix-tuning", 20_000, 5e-5),
        ("one-layer-table-3", "prefix-tuning, trained longer", 500_000, 5e-5),
    ],
)
def test_faithful_training_is_the_papers(name: str, method: str, steps: int, rate: float) -> None:
    for job in jobs_of(name, "faithful", method):
        training = job.training
        (trial,) = training.trials
        assert (training.steps, trial.learning_rate, trial.weight_decay) == (steps, rate, 0.01)
        assert (training.schedule, training.warmup_fraction) == ("constant", 0)
        assert (training.batch_size, training.gradient_clip) == (64, 1)


@pytest.mark.parametrize(
    ("name", "steps"), [("table-2", 20_000), ("table-3", 40_000), ("translation", 50_000)]
)
def test_faithful_pretraining_is_the_papers(name: str, steps: int) -> None:
    training = base_of(name).training
    (trial,) = training.trials
    assert (training.steps, trial.learning_rate, trial.weight_decay) == (steps, 5e-4, 0.1)
    assert (training.schedule, training.batch_size) == ("constant", 64)


@pytest.mark.parametrize("name", ["table-1", "table-2", "table-3", "lora-vs-prefix", "translation"])
def test_pads_hold_the_place_of_the_prefix(name: str) -> None:
    for job in jobs_of(name, "faithful", "prefix-tuning"):
        assert as_json(job.family)["pad_positions"] == as_json(job.method)["length"]
        assert as_json(job.method)["initial_scale"] == 1.0


def test_the_papers_sizes_are_for_a_gpu_and_quick_ones_are_not(recipe: Recipe) -> None:
    for preset in set(recipe.presets) - {"small"}:
        spec = recipe.study(preset)
        known = pretrained(spec)  # a recipe without any checks constructions, in seconds
        expected = "gpu" if known and preset != "quick" else "cpu"
        seconds = 24 * 3600 if expected == "gpu" else 3600
        for asked in (spec.resources, *(base.resources for base in known)):
            assert (asked.queue, asked.max_seconds) == (expected, seconds), preset


def test_fair_effort_is_eight_rates_or_more_and_equal_steps(recipe: Recipe) -> None:
    if "fair" not in recipe.presets:
        assert not recipe.name.startswith(f"{PAPER}/")
        return
    plan = plan_of(recipe.name, "fair")
    steps: dict[tuple[str, str], set[int]] = defaultdict(set)
    known = {job.digest: job.resolved.training for job in plan.jobs}
    for cell in plan.cells:
        training = known[cell.digest]
        assert len(set(training.learning_rates)) == 8
        assert len(training.trials) % 8 == 0
        steps[cell.base_model, cell.task].add(training.steps)
    assert all(len(found) == 1 for found in steps.values())


@pytest.mark.parametrize("name", ["table-3", "lora-vs-prefix", "translation"])
def test_fair_presets_have_the_controls_that_the_paper_lacks(name: str) -> None:
    plan = plan_of(f"{PAPER}/{name}", "fair")
    assert {
        "full fine-tuning",
        "from scratch",
        "prefix-tuning from 0.02",
        "prefix-tuning, 3 initial scales",
    } <= {cell.method for cell in plan.cells}


def test_what_a_claim_reads_is_measured_by_some_preset(recipe: Recipe) -> None:
    for claim in recipe.claims:
        for wording in claim.wordings.values():
            tests = plain_tests(wording.test)
            assert any(all(is_there(recipe, p, one) for one in tests) for p in recipe.presets), (
                claim.id
            )


def is_there(recipe: Recipe, preset: Preset, test: PlainTest) -> bool:
    spec = recipe.study(preset)
    if isinstance(test, CheckHolds):
        return test.check in {check.name for check in spec.checks}
    if isinstance(test, CheckAbove) and test.check not in {check.name for check in spec.checks}:
        return False
    methods = spec.methods if isinstance(spec.methods, tuple) else ()
    labels = {None, *(method.label or method.name for method in methods)}
    if not {recipe.row(label).of.method for label, _ in test.cells()} <= labels:
        return False
    return not isinstance(test, EveryTrialAtMost) or has_trials(recipe, preset, test)


def has_trials(recipe: Recipe, preset: Preset, test: EveryTrialAtMost) -> bool:
    """Whether the row has as many trials a seed as the test asks for."""
    plan = plan_of(recipe.name, preset)
    method = recipe.row(test.row).of.method
    known = {job.digest: job.resolved.training.trials for job in plan.jobs}
    found = [len(known[cell.digest]) for cell in plan.cells if cell.method == method]
    return min(found) >= test.trials


def test_a_name_stands_for_one_base_model() -> None:
    """Recipes that share a base model share its training.

    Only its seeds may differ.
    """
    specs: dict[str, set[str]] = defaultdict(set)
    for name in RECIPES.names():
        for base in chain.from_iterable(bases(recipe_named(name))):
            document = base.model_copy(update={"seeds": 1, "labels": {}, "resources": {}})
            specs[base.name].add(document.model_dump_json(exclude={"resources"}))
    assert [name for name, found in specs.items() if len(found) > 1] == []


def bases(recipe: Recipe) -> Iterator[list]:
    return (pretrained(recipe.study(preset)) for preset in recipe.presets)


@pytest.mark.parametrize("name", ["isolation", "saliency"])
def test_label_words_are_measured_on_the_base_whose_accuracy_is_shown(name: str) -> None:
    recipe = recipe_named(f"wang2023/{name}")
    plan = plan_of(recipe.name, "quick")
    (check,) = plan.checks
    assert check.resolved.base_replicates == (0, 1, 2, 3, 4)
    (measured,) = check.resolved.checks
    (base,) = pretrained(recipe.study("quick"))
    trained = resolve(base, None)
    assert as_json(measured)["task"] == as_json(trained.task)
    right, permuted, _ = trained.evaluation_tasks
    assert right == trained.task
    assert as_json(permuted) == {**as_json(right), "labels": "permuted"}
    (method,) = {one.digest for one in plan.cells}
    assert {job.digest: job.resolved.method.name for job in plan.jobs} == {method: "in_context"}


@pytest.mark.parametrize("name", ["isolation", "saliency"])
def test_nothing_is_claimed_of_label_words_without_the_premises(name: str) -> None:
    for one in recipe_named(f"wang2023/{name}").claims:
        tests = getattr(one.wordings["emnlp"].test, "tests", (one.wordings["emnlp"].test,))
        if one.is_tested_in("quick") and any(isinstance(test, CheckHolds) for test in tests):
            reports = [getattr(test, "report", None) for test in one.premises("text")]
            assert reports == [f"{name}.above-chance", f"{name}.permuted"]
            kinds = {(test.kind, getattr(test, "column", None)) for test in one.given}
            assert kinds == {
                ("score_at_least", "right labels"),
                ("score_at_most", "permuted labels"),
                ("check_holds", None),
            }


def test_hard_prompts_have_equal_tokens_and_steps() -> None:
    plan = plan_of("wen2023/hard-prompts", "quick")
    known = {job.digest: job.resolved for job in plan.jobs}
    jobs = [known[cell.digest] for cell in plan.cells]
    assert {job.budget.extra_context_tokens for job in jobs} == {10}
    assert {job.training.steps for job in jobs if job.method.trains} == {300}
    assert {job.training.schedule for job in jobs} == {"constant"}
    by_gradient = [one for one in jobs if len(set(one.training.learning_rates)) > 1]
    assert {len(job.training.trials) for job in by_gradient} == {4}


def test_visual_prompts_and_lora_have_equal_sizes() -> None:
    """Each has 16 rows of width 64, and the head's 5 · 65 parameters.

    LoRA of rank 1 has 2 · 64 for query and value of each of four layers, which is as many.
    """
    spec = recipe_named("jia2022/visual-prompts").study("quick")
    assert isinstance(spec.methods, tuple)
    methods = {one.label: one for one in spec.methods if isinstance(one, StudyMethod)}
    knobs = {label: one.model_extra or {} for label, one in methods.items()}
    assert 4 * knobs["VPT-deep"]["length"] == knobs["VPT-shallow"]["length"] == 16
    assert (knobs["LoRA"]["rank"], knobs["LoRA"]["sites"]) == (1, ("attn.q", "attn.v"))
    (budget,) = spec.budgets
    assert isinstance(budget, BudgetSpec)
    assert budget.trainable_parameters == 16 * 64 + 5 * 65


def test_ranks_of_biderman2024_are_within_the_budget() -> None:
    """Per rank, LoRA on the MLP is as large as ten rows of a prefix."""
    spec = recipe_named("biderman2024/learns-less-forgets-less").study("quick")
    assert isinstance(spec.methods, tuple)
    methods = [one for one in spec.methods if isinstance(one, StudyMethod)]
    ranks = [(one.model_extra or {}).get("rank") for one in methods]
    assert ranks == [1, 4, 16, None]
    (budget,) = spec.budgets
    assert isinstance(budget, BudgetSpec)
    assert budget.trainable_parameters == 16 * 2 * 10 * 64


def test_shuttleworth2024_measures_intruders_of_every_method() -> None:
    plan = plan_of("shuttleworth2024/intruders", "quick")
    spec = recipe_named("shuttleworth2024/intruders").study("quick")
    sizes = {cell.method: cell.trainable_parameters for cell in plan.cells}
    assert [check.of for check in spec.checks] == [*sizes]
    whole = sizes.pop("full fine-tuning")
    assert sizes["LoRA of rank 1"] * 64 == sizes["LoRA of rank 64"] == 147_456
    assert whole is not None
    assert sizes["LoRA of rank 8"] < whole
    assert len(plan.checks) == 4


def test_methods_of_the_ranking_have_no_more_than_its_budget() -> None:
    plan = plan_of("ranking/in-small", "quick")
    sizes = {cell.method: cell.trainable_parameters for cell in plan.cells}
    whole = sizes.pop("full fine-tuning")
    assert set(sizes.values()) == {4_096, 5_120}
    assert len(sizes) == 11
    assert whole > 100_000


def test_notes_say_how_long_it_takes(recipe: Recipe) -> None:
    for note in recipe.notes.values():
        assert "TIME" not in note
        assert any(
            word in note for word in ("minute", "hours", "Seconds", "GPU", "Nothing", "same")
        )
