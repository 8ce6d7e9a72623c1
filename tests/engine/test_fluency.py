"""The fluency of prompts, and its part in searches."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine import library_models, published
from tests.engine.making import base_tensors, bert, trainables
from tests.engine.published import Pair, pair
from tests.engine.searching import TRAINING, at_rates, losses_of, plan_of, searched
from tests.engine.tiny import adapting
from torch import Tensor

from adaptlab.engine.models.library_model import Float64
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.training.fluency import fluency_gradient, log_perplexities
from adaptlab.engine.training.token_search import Vocabulary
from adaptlab.errors import InvalidSpec
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve

MODELS = {
    "gpt2": published.MODELS["gpt2"],  # its head is the embedding
    "llama": published.MODELS["llama-grouped"],  # its head is not
    "qwen3-tied": library_models.MODELS["qwen3-tied"],
    "gemma3": library_models.MODELS["gemma3"],  # it scales the embeddings
    "opt": library_models.MODELS["opt"],  # it has learned positions
}


def found_at(plan: Plan, folder: Path, *rates: float) -> tuple[dict[str, Tensor], Tensor]:
    """The base's weights, and the rows [R, P, C] of a search at these rates."""
    return searched(at_rates(plan, *rates), folder)


def their_losses(both: Pair, rows: Tensor, tokens: Tensor) -> Tensor:
    """The mean losses [R] of prompts in the library's model."""
    module = both.theirs
    embedding = module.get_input_embeddings()
    given = rows / getattr(embedding, "scalar_embed_scale", 1.0)
    with Float64():
        states = module.base_model(inputs_embeds=rows).last_hidden_state
        logits = module.get_output_embeddings()(states)[:, :-1]
    targets, tied = tokens[:, 1:], module.config.tie_word_embeddings
    chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    if tied:
        table = embedding.weight
        at_token = (states[:, :-1] * table[targets]).sum(-1)
        chosen = chosen - at_token + (states[:, :-1] * given[:, 1:]).sum(-1)
    return (logits.logsumexp(-1) - chosen).mean(1)


@pytest.mark.parametrize("name", MODELS)
def test_losses_and_gradients_are_those_of_the_librarys_model(name: str, tmp_path: Path):
    both = pair(MODELS[name], tmp_path, double=True)
    weights = {key: tensor.unsqueeze(0) for key, tensor in both.ours.tensors.items()}
    tokens = both.tokens(samples=3, length=5)
    scale = both.ours.family.shape().embedding_scale
    rows = scale * weights["embed.weight"][0][tokens]
    ours, theirs = (rows.clone().requires_grad_() for _ in range(2))
    found = log_perplexities(both.ours.family, weights, ours, tokens)
    expected = their_losses(both, theirs, tokens)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    (gradient,) = torch.autograd.grad(found.sum(), ours)
    (reference,) = torch.autograd.grad(expected.sum(), theirs)
    largest = float(reference.abs().max())
    torch.testing.assert_close(gradient, reference, rtol=1e-6, atol=1e-6 * largest)
    assert largest > 1e-3


def test_each_prompt_has_the_gradient_of_its_own_base():
    plan = plan_of({"name": "pez", "length": 3})
    base = base_tensors(plan, groups=2)
    vocabulary = Vocabulary.of(plan, base)
    tokens = torch.tensor([[0, 1, 2], [0, 1, 2]])
    rows = vocabulary.embedded(tokens)
    both = fluency_gradient(plan, base, rows, tokens, (0, 1))
    for place in (0, 1):
        own = {name: tensor[place : place + 1] for name, tensor in base.items()}
        alone = fluency_gradient(plan, own, rows[place:][:1], tokens[:1], (0,))
        torch.testing.assert_close(both[place:][:1], alone)
    assert not torch.equal(both[0], both[1])


def test_a_prompt_of_one_token_has_no_fluency():
    plan = plan_of({"name": "fluentprompt", "length": 1})
    base = base_tensors(plan, groups=2)
    tokens = torch.tensor([[1], [2]])
    rows = Vocabulary.of(plan, base).embedded(tokens)
    assert not fluency_gradient(plan, base, rows, tokens, (0, 1)).any()


def test_with_almost_all_weight_on_it_prompts_become_more_fluent(tmp_path: Path):
    training = {**TRAINING, "steps": 40}
    reached = []
    for fluency in (0.0, 0.999):
        method = {"name": "pez", "length": 2, "distance": "euclidean", "fluency": fluency}
        plan = plan_of(method, training=training, seeds=2, tuning={"trials": 4})
        base, rows = found_at(plan, tmp_path, 1.0, 10.0, 100.0, 1000.0)
        tokens = Vocabulary.of(plan, base).nearest(rows.detach(), "euclidean")
        losses = []
        for replicate in range(plan.replicates):
            own = {key: tensor[replicate // 4 :][:1] for key, tensor in base.items()}
            rows_here, tokens_here = rows[replicate:][:1], tokens[replicate:][:1]
            losses.append(float(log_perplexities(plan.family, own, rows_here, tokens_here)))
        reached.append(min(losses[:4]) + min(losses[4:]))
    assert reached[1] < reached[0]


def test_without_noise_and_fluency_it_is_projected_descent(tmp_path: Path):
    plain = {"name": "fluentprompt", "length": 2, "noise": 0.0, "fluency": 0.0}
    _, ours = found_at(plan_of(plain), tmp_path, 5.0, 300.0)
    _, theirs = found_at(plan_of({"name": "autoprompt_sgd", "length": 2}), tmp_path, 5.0, 300.0)
    assert torch.equal(ours, theirs)


def test_its_step_is_the_weighted_sum_of_both_gradients(tmp_path: Path):
    share, rate = 0.4, 500.0
    method = {"name": "fluentprompt", "length": 2, "noise": 0.0, "fluency": share}
    training = {**TRAINING, "steps": 1, "schedule": "constant", "warmup_fraction": 0}
    plan = plan_of(method, training=training)
    base, found = found_at(plan, tmp_path, rate)
    vocabulary = Vocabulary.of(plan, base)
    rows = trainables(plan, base).flat.unflatten(1, (2, -1)).detach()
    tokens = vocabulary.nearest(rows, "euclidean")
    fluent = fluency_gradient(plan, base, rows, tokens, (0, 1))
    at = rows.clone().requires_grad_()
    (task,) = torch.autograd.grad(losses_of(plan, base, at, 0).sum(), at)
    gradient = (1 - share) * task + share * fluent
    norms = gradient.flatten(1).norm(dim=1).view(-1, 1, 1)
    moved = rows - rate * gradient * (1.0 / (norms + 1e-6)).clamp(max=1)
    assert torch.equal(found, vocabulary.embedded(vocabulary.nearest(moved, "euclidean")))


def test_passes_count_both_gradients():
    for fluency, count in ((0.0, 7), (0.1, 14)):
        plan = plan_of({"name": "pez", "length": 2, "fluency": fluency})
        method: Any = plan.method
        assert method.passes(7, plan.shape) == (count, count)


@pytest.mark.parametrize(
    ("method", "pointer", "code"),
    [
        ({"name": "fluentprompt", "length": 40}, "length", "length_out_of_range"),
        ({"name": "pez", "length": 40, "fluency": 0.1}, "length", "length_out_of_range"),
    ],
)
def test_a_prompt_beyond_the_context_has_no_fluency(
    method: dict[str, Any], pointer: str, code: str
):
    with pytest.raises(InvalidSpec) as caught:
        plan_of(method)
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == (f"/method/{pointer}", code)
    plan_of({"name": "fluentprompt", "length": 40, "fluency": 0.0})


def test_a_model_that_fills_in_gives_prompts_no_fluency():
    family = bert(8, 2, 16)
    facts = BaseModelFacts(
        name="bert", digest="0" * 64, family=family, task=None, replicates=1, has_tokeniser=True
    )
    spec = adapting({"name": "fluentprompt", "length": 2}, base_model="bert")
    with pytest.raises(InvalidSpec) as caught:
        resolve(spec, facts)
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == ("/method/fluency", "no_perplexity")
    quiet = adapting({"name": "fluentprompt", "length": 2, "fluency": 0}, base_model="bert")
    resolve(quiet, facts)


def test_older_jobs_of_pez_keep_their_digests():
    method: Any = plan_of({"name": "pez", "length": 2}).method
    assert "fluency" not in method.model_dump(mode="json")
