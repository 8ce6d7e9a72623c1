"""Completions from one first token, hard and soft, with known answers."""

from dataclasses import replace

import pytest
import torch
from tests.engine.making import SMALL_OF_EACH, TINY_OF_EACH, adaptation, base_tensors

from adaptlab.engine.models.model import Model
from adaptlab.errors import AdaptlabError
from adaptlab.families.formal import Formal
from adaptlab.families.minigpt import MiniGPT
from adaptlab.theory.capacity import capacity, completions_of_vectors
from adaptlab.theory.constructions.construction import every_table
from adaptlab.theory.constructions.unconditional import unconditional
from adaptlab.theory.generation import GeneratingBase, distinct

FAMILIES = {**SMALL_OF_EACH, "llama with a tied head": TINY_OF_EACH["llama"]}


def base_model(name: str) -> Model:
    plan = adaptation("frozen", family=FAMILIES[name])
    return Model(plan, base_tensors(plan), {})


@pytest.mark.long("every combination", but=1)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_soft_token_that_is_an_embedding_does_what_its_hard_token_does(name: str):
    """Against the engine's own logits, one token and one step at a time."""
    model = base_model(name)
    table = model.base["embed.weight"][0, :8]
    wanted = list[list[int]]()
    for token in range(8):
        told = [token]
        for _ in range(5):
            logits = model.base_logits(torch.tensor([[told]]), slice(-1, None))
            told.append(int(logits.flatten().argmax()))
        wanted.append(told[1:])
    assert completions_of_vectors(model, table, 5).tolist() == wanted
    found = capacity(model, 5, soft_tokens=10, directed_tokens=2, steps=1)
    assert found.hard.distinct == len({tuple(each) for each in wanted})
    assert (found.hard.tried, found.vocabulary) == (8, 8)


@pytest.mark.parametrize("name", ["gpt2", "llama with a tied head"])
def test_soft_tokens_are_no_words_of_the_output_of_a_tied_head(name: str):
    """As outputs, vectors so long would be the likeliest of all."""
    model = base_model(name)
    assert "unembed.weight" not in model.base
    width = model.plan.shape.width
    long = 100 * torch.randn(40, width, generator=torch.Generator().manual_seed(1)).double()
    assert completions_of_vectors(model, long, 3).max() < 8


def test_the_base_of_a_pretraining_is_what_it_trained():
    model = base_model("gpt2")
    pretrained = Model(replace(model.plan, method=None), {}, model.base)
    assert capacity(pretrained, 4, 20, directed_tokens=0) == capacity(model, 4, 20, 0)


def theorem_one_alone(vocabulary: int, length: int) -> tuple[GeneratingBase, torch.Tensor]:
    """Theorem 1's model with its virtual token first, and all its vectors."""
    built = unconditional(vocabulary, length)
    assert isinstance(built.base.family, Formal)
    changed = {"reserved_positions": 0, "context": built.positions}
    family = built.base.family.model_copy(update=changed)
    vectors = built.prompt(every_table(built))[:, 0, :length]
    return replace(built.base, family=family), vectors


def test_in_theorem_one_a_soft_token_starts_every_sequence_and_a_hard_one_only_one():
    base, vectors = theorem_one_alone(3, 4)
    found = completions_of_vectors(base, vectors, 5)
    assert distinct(found) == 3**4
    assert distinct(found[:, 1:]) == 3**4  # what the first position answers goes unread
    assert distinct(completions_of_vectors(base, base.weights["embed.weight"][0], 5)) == 1


def test_the_search_finds_some_of_them_and_counts_the_union():
    base, _ = theorem_one_alone(2, 3)
    found = capacity(base, 4, soft_tokens=200, directed_tokens=20, steps=3)
    random, directed = found.searches
    assert found.hard.distinct == 1
    assert 1 < random.distinct <= 2**4
    assert max(random.distinct, directed.distinct) <= found.soft <= 2**4
    assert (random.tried, directed.tried) == (200, 20)
    assert found.check.verdict == "holds"
    assert found.check.details["random"] == random.distinct


def test_directed_vectors_come_to_more_than_those_they_start_from():
    """Without steps, the search finds no more than random vectors."""
    model = base_model("minigpt")
    searched = capacity(model, 4, soft_tokens=0, directed_tokens=60, steps=60)
    unsearched = capacity(model, 4, soft_tokens=0, directed_tokens=60, steps=0)
    assert searched.soft > unsearched.soft


def test_a_model_that_says_one_thing_whatever_it_reads_has_one_completion():
    model = base_model("minigpt")
    deaf = {**model.base, "unembed.weight": torch.zeros_like(model.base["unembed.weight"])}
    found = capacity(replace(model, base=deaf), 3, 40, directed_tokens=4, steps=2)
    assert (found.hard.distinct, found.soft) == (1, 1)
    assert found.check.verdict == "fails"


def test_numbers_are_the_same_every_time_and_leave_the_model_alone():
    model = base_model("gpt2")
    before = {name: tensor.clone() for name, tensor in model.base.items()}
    first, second = (capacity(model, 4, 50, directed_tokens=6, steps=4) for _ in range(2))
    assert first == second
    assert all(torch.equal(before[name], tensor) for name, tensor in model.base.items())
    assert not any(tensor.requires_grad for tensor in model.base.values())


def test_a_model_that_fills_in_completes_nothing():
    family = MiniGPT(layers=1, heads=1, width=4, attention="bidirectional")
    plan = adaptation("frozen", family=family)
    with pytest.raises(AdaptlabError, match="fills answers in"):
        capacity(Model(plan, base_tensors(plan), {}))


def test_completions_longer_than_the_context_are_refused():
    with pytest.raises(AdaptlabError, match="ask for 9 at most"):
        capacity(base_model("llama"), length=10)
