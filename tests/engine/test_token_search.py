"""Searches for tokens against plain implementations and the true optimum."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.making import Remembering, base_tensors, made_base, rounding, trainables
from tests.engine.running import run
from tests.engine.searching import TRAINING, at_rates, losses_of, plan_of, searched
from tests.engine.tiny import pretraining

from adaptlab.engine.measuring.evaluate import judged
from adaptlab.engine.models.checkpoint import read_tensors
from adaptlab.engine.models.model import Model
from adaptlab.engine.training.token_search import Vocabulary
from adaptlab.engine.training.train import Training
from adaptlab.errors import InvalidSpec, TrainingStopped
from adaptlab.plugins.hard_prompt import PROMPT
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import (
    CheckpointWritten,
    FoundPrompt,
    Metrics,
    ReplicatesDecided,
    TrainingSaved,
)
from adaptlab.specs.budget import budget_vector
from adaptlab.specs.cost import work
from adaptlab.specs.resolved import ResolvedAdapt

SEARCHES: dict[str, dict[str, Any]] = {
    "pez": {"name": "pez", "length": 2},
    "pez-euclidean": {"name": "pez", "length": 2, "distance": "euclidean"},
    "autoprompt_sgd": {"name": "autoprompt_sgd", "length": 2},
    "noise": {"name": "autoprompt_sgd", "length": 2, "noise": 0.1},
    "autoprompt": {"name": "autoprompt", "length": 2, "candidates": 4, "accumulation": 2},
    "fluentprompt": {"name": "fluentprompt", "length": 2, "fluency": 0.3, "noise": 0.1},
    "exhaustive": {"name": "exhaustive", "length": 2},
}
every_search = pytest.mark.parametrize("method", SEARCHES.values(), ids=SEARCHES)
LARGE = 1e9


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """The files of a base model, for all tests that run whole jobs."""
    return made_base(pretraining(), tmp_path_factory.mktemp("base"))[1]


@every_search
def test_a_prompt_is_always_made_of_tokens(method: dict[str, Any], tmp_path: Path):
    plan = plan_of(method, tuning={"learning_rates": [0.1, 10.0]})
    base, rows = searched(plan, tmp_path)
    vocabulary = Vocabulary.of(plan, base)
    tokens = vocabulary.nearest(rows, "euclidean")
    assert torch.equal(vocabulary.embedded(tokens), rows)
    assert tokens.max() < plan.shape.vocabulary


def test_exhaustive_search_finds_the_optimum(tmp_path: Path):
    plan = plan_of(SEARCHES["exhaustive"])
    base, rows = searched(plan, tmp_path)
    vocabulary = Vocabulary.of(plan, base)
    size = plan.shape.vocabulary
    every = torch.cartesian_prod(torch.arange(size), torch.arange(size))
    losses = torch.stack(
        [
            losses_of(plan, base, vocabulary.embedded(pair.expand(plan.replicates, -1)), 0)
            for pair in every
        ]
    )
    assert torch.equal(vocabulary.nearest(rows, "euclidean"), every[losses.argmin(0)])
    assert losses.min(0).values.lt(losses.median(0).values).all()


@pytest.mark.long("long trainings", but=1)
@pytest.mark.parametrize("name", ["pez", "autoprompt_sgd", "autoprompt"])
def test_no_search_beats_the_optimum_and_most_come_near(name: str, tmp_path: Path):
    method = {**SEARCHES[name], **({"candidates": 7} if name == "autoprompt" else {})}
    steps = {**TRAINING, "steps": 90, "schedule": "constant"}
    best = plan_of(SEARCHES["exhaustive"])
    base, optimum = searched(best, tmp_path)
    lowest = losses_of(best, base, optimum, 0)
    drawn = trainables(best, base).flat.unflatten(1, (2, -1))
    start = losses_of(best, base, drawn, 0)
    rate = 300.0 if name == "autoprompt_sgd" else 0.3
    _, rows = searched(at_rates(plan_of(method, training=steps), rate), tmp_path)
    regret, at_start = (losses - lowest for losses in (losses_of(best, base, rows, 0), start))
    assert regret.min() > -1e-12
    assert regret.mean() < at_start.mean()


def test_pez_moves_rows_with_the_gradient_at_their_tokens(tmp_path: Path):
    rate, steps = 0.3, 6
    training = {**TRAINING, "steps": steps, "schedule": "constant", "warmup_fraction": 0}
    plan = plan_of(SEARCHES["pez"], training=training, tuning={"learning_rates": [rate]})
    base, found = searched(plan, tmp_path)
    vocabulary = Vocabulary.of(plan, base)
    rows = trainables(plan, base).flat.unflatten(1, (2, -1)).clone().requires_grad_()
    # A replicate alone has moments of its own anyhow, and the clip is wide.
    plain = torch.optim.AdamW([rows], lr=rate, betas=(0.9, 0.95), weight_decay=0)
    for step in range(steps):
        tokens = vocabulary.nearest(rows.detach(), "angle")
        at = vocabulary.embedded(tokens).clone().requires_grad_()
        (gradient,) = torch.autograd.grad(losses_of(plan, base, at, step).sum(), at)
        norms = gradient.flatten(1).norm(dim=1).view(-1, 1, 1)
        rows.grad = gradient * (1.0 / (norms + 1e-6)).clamp(max=1)
        plain.step()
    expected = vocabulary.embedded(vocabulary.nearest(rows.detach(), "angle"))
    assert torch.equal(found, expected)


def test_projected_descent_returns_to_the_nearest_tokens(tmp_path: Path):
    rate, steps = 300.0, 5
    training = {**TRAINING, "steps": steps, "schedule": "constant", "warmup_fraction": 0}
    method = SEARCHES["autoprompt_sgd"]
    plan = at_rates(plan_of(method, training=training), rate)
    base, found = searched(plan, tmp_path)
    table = Vocabulary.of(plan, base).tables
    rows = trainables(plan, base).flat.unflatten(1, (2, -1)).detach()
    start = rows
    for step in range(steps):
        at = rows.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(losses_of(plan, base, at, step).sum(), at)
        norms = gradient.flatten(1).norm(dim=1).view(-1, 1, 1)
        moved = at.detach() - rate * gradient * (1.0 / (norms + 1e-6)).clamp(max=1)
        tokens = torch.cdist(moved, table).argmin(-1)
        rows = torch.stack([table[base][own] for base, own in enumerate(tokens)])
    assert torch.equal(found, rows)
    assert not torch.equal(found, start)


def test_noise_is_drawn_for_every_seed_and_trial(tmp_path: Path):
    _, quiet = searched(at_rates(plan_of(SEARCHES["autoprompt_sgd"]), 5.0), tmp_path)
    loud = at_rates(plan_of(SEARCHES["noise"]), 5.0)
    (_, one), (_, again) = searched(loud, tmp_path), searched(loud, tmp_path)
    assert torch.equal(one, again)
    assert not torch.equal(one, quiet)


def test_autoprompt_exchanges_one_token_for_the_best_candidate(tmp_path: Path):
    method = {"name": "autoprompt", "length": 2, "candidates": 3, "accumulation": 2}
    plan = plan_of(method, training={**TRAINING, "steps": 3})
    base, found = searched(plan, tmp_path)
    vocabulary = Vocabulary.of(plan, base)
    rows = trainables(plan, base).flat.unflatten(1, (2, -1)).detach()
    tokens, ends = (vocabulary.nearest(each, "euclidean") for each in (rows, found))
    at = rows.clone().requires_grad_()
    both = losses_of(plan, base, at, 0) + losses_of(plan, base, at, 1)
    (gradient,) = torch.autograd.grad(both.sum(), at)
    for replicate in range(plan.replicates):
        expected = []
        for slot in range(2):  # the one that was drawn is one of them
            scores = -(vocabulary.tables[replicate] @ gradient[replicate, slot])
            tried = [tokens]
            for candidate in scores.topk(3).indices.tolist():
                changed = tokens.clone()
                changed[replicate, slot] = candidate
                tried.append(changed)
            losses = [
                float(losses_of(plan, base, vocabulary.embedded(each), 2)[replicate])
                for each in tried
            ]
            expected.append(tried[losses.index(min(losses))][replicate].tolist())
        assert ends[replicate].tolist() in expected


@pytest.mark.long("long trainings", but=1)
@every_search
def test_a_break_leaves_no_trace(method: dict[str, Any], bases: tuple[Path, ...], tmp_path: Path):
    spec = plan_of(method, training={**TRAINING, "precision": "float32"}).spec
    whole, broken = (tmp_path / name for name in ("whole", "broken"))
    for folder in (whole, broken):
        folder.mkdir()
    once, first, then = Remembering(), Remembering(4, save_after=4), Remembering()
    run(spec, bases, whole, once, "cpu")
    with pytest.raises(TrainingStopped):
        run(spec, bases, broken, first, "cpu")
    (saved,) = first.of(TrainingSaved)
    run(spec, bases, broken, then, "cpu", saved.path)
    assert prompts(once) == prompts(then)
    assert once.of(ReplicatesDecided)[0].replicates[0].steps == 9


def prompts(told: Remembering) -> list[FoundPrompt | None]:
    return [result.prompt for result in told.of(ReplicatesDecided)[0].replicates]


@every_search
def test_a_seed_finds_what_it_would_alone(method: dict[str, Any], tmp_path: Path):
    rates = (0.3, 300.0)
    base, both = searched(at_rates(plan_of(method), *rates), tmp_path)
    plan = at_rates(plan_of(method, seeds=[1], base_replicates=[1]), *rates)
    own = {name: tensor[1:] for name, tensor in base.items()}
    found = trainables(plan, own)
    Training(plan, Model(plan, own, found.tensors), found, Remembering()).run(tmp_path)
    alone = found.flat.unflatten(1, (2, -1))
    assert (alone - both[2:]).abs().max() < rounding(both)


@every_search
def test_what_is_found_is_reported_and_stored(
    method: dict[str, Any], bases: tuple[Path, ...], tmp_path: Path
):
    training = {**TRAINING, "precision": "float32", "validations": 3}
    plan, told = plan_of(method, training=training), Remembering()
    run(plan.spec, bases, tmp_path, told, "cpu")
    assert Expected.of(plan.spec).problems(told.events) == ()
    written = told.of(CheckpointWritten)
    shapes = {name: tensor.shape for name, tensor in plan.trained_shapes.items()}
    base = read_tensors(bases[0], {n: t.shape for n, t in plan.shape.tensors.items()})
    for prompt, event in zip(prompts(told), written, strict=True):
        assert prompt is not None
        assert prompt.words == tuple(map(str, prompt.tokens))
        assert prompt.forward_passes >= prompt.backward_passes == (18 if "fluency" in method else 9)
        assert prompt.log_perplexity is not None
        if event.checkpoint.replicate == 0:
            rows = read_tensors(event.path, shapes)[PROMPT]
            embedded = base["embed.weight"][list(prompt.tokens)]
            assert torch.equal(rows[:, : embedded.shape[1]], embedded)


def test_the_log_perplexity_is_that_of_the_tokens_as_an_input(
    bases: tuple[Path, ...], tmp_path: Path
):
    plan, told = plan_of({"name": "random_prompt", "length": 3}), Remembering()
    run(plan.spec, bases, tmp_path, told, "cpu")
    shapes = {name: tensor.shape for name, tensor in plan.shape.tensors.items()}
    for path, prompt in zip(bases, prompts(told), strict=True):
        base = {name: t[None].double() for name, t in read_tensors(path, shapes).items()}
        assert prompt is not None
        tokens = torch.tensor([[prompt.tokens]])
        logits = Model(plan, base, {}).base_logits(tokens, slice(None))[0, 0]
        chances = logits.log_softmax(-1)
        expected = -sum(float(chances[n, prompt.tokens[n + 1]]) for n in range(2)) / 2
        assert prompt.log_perplexity == pytest.approx(expected, abs=1e-6)


def test_a_prompt_beyond_the_context_has_no_perplexity(bases: tuple[Path, ...], tmp_path: Path):
    plan, told = plan_of({"name": "random_prompt", "length": 20}), Remembering()
    assert plan.shape.context < 20
    run(plan.spec, bases, tmp_path, told, "cpu")
    for prompt in prompts(told):
        assert prompt is not None
        assert (len(prompt.tokens), prompt.log_perplexity) == (20, None)
    assert Expected.of(plan.spec).problems(told.events) == ()


def test_a_random_prompt_is_drawn_and_stays(bases: tuple[Path, ...], tmp_path: Path):
    plan, told = plan_of({"name": "random_prompt", "length": 2}), Remembering()
    run(plan.spec, bases, tmp_path, told, "cpu")
    results = told.of(ReplicatesDecided)[0].replicates
    assert [(r.steps, r.final_loss, r.selected) for r in results] == [(0, None, True)] * 2
    first, second = prompts(told)
    assert first is not None
    assert second is not None
    assert (first.forward_passes, first.backward_passes) == (0, 0)
    assert first.tokens != second.tokens
    assert Expected.of(plan.spec).problems(told.events) == ()


def test_reports_that_do_not_fit_are_refused(bases: tuple[Path, ...], tmp_path: Path):
    plan, told = plan_of(SEARCHES["pez"]), Remembering()
    run(plan.spec, bases, tmp_path, told, "cpu")
    (event,) = told.of(ReplicatesDecided)
    first, *others = event.replicates
    assert first.prompt is not None

    def code(**changes: Any) -> str:
        prompt = None if "none" in changes else first.prompt.model_copy(update=changes)  # type: ignore[union-attr]
        results = (first.model_copy(update={"prompt": prompt}), *others)
        changed = event.model_copy(update={"replicates": results})
        (problem,) = Expected.of(plan.spec).problems([changed])
        return problem.code

    assert code(none=True) == "other_than_resolved"
    assert code(tokens=(0, 99)) == "out_of_range"
    assert code(words=("0",)) == "other_than_resolved"
    assert code(words=("0", "x" * 101)) == "bad_word"
    assert code(forward_passes=8) == "other_than_resolved"
    assert code(log_perplexity=-1.0) == "out_of_range"


def test_candidates_are_part_of_the_estimated_work():
    steps = {**TRAINING, "steps": 90}
    loads = {
        name: work(plan_of(SEARCHES[name], training=steps).spec).training.flops
        for name in ("pez", "autoprompt", "exhaustive")
    }
    # 30 rounds of 4 candidates; 49 prompts. A backward pass costs about as much as a forward pass.
    assert 1.3 < loads["autoprompt"] / loads["pez"] < 2
    assert 1.1 < loads["exhaustive"] / loads["pez"] < 1.5


def test_a_search_ends_with_the_prompt_of_its_best_validation(tmp_path: Path):
    training = {**TRAINING, "steps": 12, "validations": 12, "schedule": "constant"}
    plan = at_rates(plan_of(SEARCHES["noise"], training=training), 300.0)
    base, told = base_tensors(plan, groups=2), Remembering()
    found = trainables(plan, base)
    Training(plan, Model(plan, base, found.tensors), found, told).run(tmp_path)
    points = [point for event in told.of(Metrics) for point in event.points]
    kept = Model(plan, base, {PROMPT: found.flat.unflatten(1, (2, -1))})
    losses = judged(kept, plan.task, "validation", 256, plan.replicates).loss
    assert losses is not None
    for replicate, loss in enumerate(losses.tolist()):
        seen = [
            point.value
            for point in points
            if (point.replicate, point.name) == (replicate, "validation_loss")
        ]
        assert len(seen) == 12
        assert loss == pytest.approx(min(value for value in seen if value), rel=1e-9)
        assert max(value for value in seen if value) > loss


def test_the_best_of_all_validations_is_kept():
    training = {**TRAINING, "validations": 3}
    plan = plan_of(SEARCHES["pez"], training=training)
    assert plan.early_stopping is not None
    assert plan.early_stopping.patience == 3, "the first validation improves, so none ends it"
    assert plan.training.early_stopping is None, "so its settings are those of other methods"
    assert plan_of(SEARCHES["pez"]).early_stopping is None, "nothing is validated"
    assert plan_of(SEARCHES["exhaustive"], training=training).early_stopping is None


@pytest.mark.parametrize(
    ("method", "pointer", "code"),
    [
        ({"name": "combine", "parts": ["lora", "pez"]}, "parts/1/name", "search_in_combination"),
        ({"name": "exhaustive", "length": 9}, "length", "length_out_of_range"),
        ({"name": "pez", "length": 0}, "length", "length_out_of_range"),
    ],
)
def test_what_cannot_be_searched_is_refused(method: dict[str, Any], pointer: str, code: str):
    with pytest.raises(InvalidSpec) as caught:
        plan_of(method, budget={"trainable_parameters": 500})
    problem = caught.value.problems[0]
    assert (problem.pointer, problem.code) == (f"/method/{pointer}", code)


def test_a_prompt_stores_few_bits():
    plan = plan_of(SEARCHES["pez"])
    assert plan.method is not None
    vector = budget_vector(plan.method, plan.shape, None)
    assert vector.trainable_parameters == 2 * plan.shape.width
    assert vector.extra_context_tokens == 2
    assert vector.stored_bits == math.ceil(2 * math.log2(plan.shape.vocabulary))
    lora = plan_of({"name": "lora", "rank": 1}).spec
    assert isinstance(lora, ResolvedAdapt)
    assert lora.budget.stored_bits == 8 * lora.budget.stored_bytes
