"""Decoded answers of a model of 135 million parameters, and `generate`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from adaptlab.engine.kernels.allocator import keep_freed_memory
from adaptlab.engine.kernels.compiled import compile_kernels
from adaptlab.engine.measuring.token_by_token import Ending, token_by_token
from adaptlab.engine.models.attachments import NOTHING_ATTACHED, Attachments
from adaptlab.engine.plugins import ENGINE_BEGINNINGS, ENGINE_METHODS
from adaptlab.families.llama import Llama
from adaptlab.methods.lora import Lora
from adaptlab.specs.scoring_pass import items_at_once
from bench.figures import Figure, Section, alternating, middle_ratio, spread
from bench.stepping import milliseconds

TITLE = "Decoded answers"
VOCABULARY, CONTEXT, END = 49_152, 2048, 2
MODEL = Llama(layers=30, heads=9, key_value_heads=3, width=576, head_size=64, hidden=1536).resolved(
    VOCABULARY, CONTEXT
)
PROMPTS, SHORTEST, LONGEST, ANSWER = 96, 16, 48, 24
BATCH, ROUNDS, SEEDS, RANK = 32, 5, 5, 8
ENDING = 4.0
"""Scale of the row of the end token in the head, with which answers have all lengths."""


def measure() -> Section:
    """Return the rows of one replicate and of five, with and without ends."""
    compile_kernels()  # as a worker's trainer does
    keep_freed_memory()  # as a worker's trainer does; `generate` in this process gains as well
    work = _Work(_weights(), _prompts())
    _check(work)
    return Section(
        TITLE,
        f"Llama of 30 layers and width 576, random weights, {PROMPTS} prompts of {SHORTEST} to "
        f"{LONGEST} tokens sorted by length, at most {ANSWER} new tokens, greedy; `generate` of "
        f"transformers in batches of {BATCH}, one model after the other, with merged adapters; "
        f"medians of {ROUNDS} alternating rounds.",
        [
            _figure(work, 1, END, "one model, answers end", "1.5 times"),
            _figure(work, SEEDS, END, f"LoRA, {SEEDS} replicates, answers end", "3 times"),
            _figure(work, 1, None, "one model, no answer ends", ""),
            _figure(work, SEEDS, None, f"LoRA, {SEEDS} replicates, no answer ends", ""),
        ],
    )


@dataclass(frozen=True)
class _Work:
    """Base weights [1, ...], and prompts from the shortest to the longest."""

    base: Mapping[str, Tensor]
    prompts: tuple[Tensor, ...]


def _weights() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    tensors = MODEL.shape().tensors
    weights = {
        name: torch.ones(1, *tensor.shape)
        if name.endswith("norm.weight")
        else torch.randn(1, *tensor.shape, generator=generator) * 0.04
        for name, tensor in tensors.items()
    }
    weights["unembed.weight"][:, END] *= ENDING
    return weights


def _prompts() -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(4)
    lengths = torch.randint(SHORTEST, LONGEST + 1, (PROMPTS,), generator=generator).sort().values
    return tuple(
        torch.randint(3, VOCABULARY, (length,), generator=generator) for length in lengths.tolist()
    )


def _figure(work: _Work, replicates: int, end: int | None, name: str, target: str) -> Figure:
    theirs = _generate(work, end)
    attached = _lora(replicates) if replicates > 1 else NOTHING_ATTACHED
    mine, others = alternating(
        lambda: milliseconds(lambda: list(_ours(work, attached, end))),
        lambda: milliseconds(theirs) * replicates,
        ROUNDS,
    )
    return Figure(
        name,
        f"generate: {spread(others, 'ms')}",
        f"{spread(mine, 'ms')}: {middle_ratio(others, mine):.2f} ×",
        target,
    )


def _lora(replicates: int) -> Attachments:
    method, shape = Lora(rank=RANK, sites=("q", "v")), MODEL.shape()
    generator = torch.Generator().manual_seed(5)
    tensors = {
        name: torch.randn(replicates, *tensor.shape, generator=generator) * 0.02
        for name, tensor in method.tensors(shape).items()
    }
    attached = ENGINE_METHODS.get(method.name)(method, shape, tensors)
    return Attachments(outputs=attached.outputs, replicates=replicates)


@torch.no_grad()
def _ours(work: _Work, attached: Attachments, end: int | None) -> Iterator[Tensor]:
    """Yield the tokens [R, C, M] of batches of prompts without drafts."""
    replicates = attached.replicates
    at_once = items_at_once(MODEL.shape(), replicates, LONGEST + ANSWER, ANSWER)
    for first in range(0, PROMPTS, at_once):
        some = work.prompts[first : first + at_once]
        lengths = torch.tensor([[len(prompt) for prompt in some]])
        tokens = torch.nn.utils.rnn.pad_sequence(list(some), batch_first=True).unsqueeze(0)
        least = int(lengths.min())
        asked = Attachments(
            outputs=attached.outputs,
            replicates=replicates,
            answer_rows=(lengths - least).unsqueeze(-1),
        )
        rows = slice(least - 1, tokens.shape[-1])
        room = tokens.shape[-1] + ANSWER - 1
        begin = ENGINE_BEGINNINGS.get(MODEL.name)
        begun = begin(MODEL, work.base, tokens, asked, rows, lengths, room)
        assert begun is not None
        predicted = begun.logits.argmax(-1)
        most = torch.full((len(some),), ANSWER)
        is_open = torch.ones(predicted.shape[:2], dtype=torch.bool)
        yield token_by_token(begun, predicted - 1, predicted, most, Ending(end), is_open)


def _generate(work: _Work, end: int | None) -> Callable[[], list[Tensor]]:
    """Return a function that answers all prompts by `generate`."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
        num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=CONTEXT,
        tie_word_embeddings=False, rms_norm_eps=MODEL.norm_epsilon,
        bos_token_id=0, eos_token_id=end, pad_token_id=0,
    )  # fmt: skip
    model: Any = LlamaForCausalLM(config).eval()
    ours = {place.name: name for name, place in MODEL.published_tensors().items()}
    for name, parameter in model.named_parameters():
        parameter.data = work.base[ours[name.removeprefix("model.")]][0]

    def answer() -> list[Tensor]:
        return [_batch(model, work.prompts[at : at + BATCH]) for at in range(0, PROMPTS, BATCH)]

    return answer


def _batch(model: Any, some: tuple[Tensor, ...]) -> Tensor:
    longest = max(map(len, some))
    pads = [longest - len(prompt) for prompt in some]
    pad = torch.nn.functional.pad
    tokens = torch.stack([pad(prompt, (n, 0)) for prompt, n in zip(some, pads, strict=True)])
    mask = torch.stack(
        [pad(torch.ones_like(prompt), (n, 0)) for prompt, n in zip(some, pads, strict=True)]
    )
    with torch.no_grad():
        told: Tensor = model.generate(
            input_ids=tokens, attention_mask=mask, max_new_tokens=ANSWER, do_sample=False
        )
    return told[:, longest:]


def _check(work: _Work) -> None:
    """Check that both give the same answers, but for a few near ties."""
    ours = [row for part in _ours(work, NOTHING_ATTACHED, END) for row in part[0].tolist()]
    theirs = [row for part in _generate(work, END)() for row in part.tolist()]
    pairs = [(_ended(a), _ended(b)) for a, b in zip(ours, theirs, strict=True)]
    same = sum(a == b for a, b in pairs)
    assert same >= 0.95 * PROMPTS, f"{same} of {PROMPTS} answers are the same"
    lengths = {len(a) for a, _ in pairs}
    assert len(lengths) > 3, f"answers of {sorted(lengths)} tokens only"


def _ended(tokens: list[int]) -> list[int]:
    return tokens[: tokens.index(END)] if END in tokens else tokens
