"""Evaluation of a found prompt on other base models."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.items.datasets import read_datasets
from adaptlab.engine.measuring.phase_progress import Advance, PhaseProgress
from adaptlab.engine.measuring.scoring import answers_to_score, score
from adaptlab.engine.models.base_weights import BaseWeights
from adaptlab.engine.models.context import Context
from adaptlab.engine.models.demonstrating import demonstrations
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.nearest import NearestContext
from adaptlab.engine.models.plan import Plan, make_plan
from adaptlab.engine.observer import Observer
from adaptlab.engine.tensors import Float, Int
from adaptlab.engine.training.token_search import Vocabulary
from adaptlab.errors import BadCheckpoint
from adaptlab.plugins.hard_prompt import PROMPT
from adaptlab.runs.bounds import LONGEST_TEXT, storable
from adaptlab.runs.events import Evaluated, NotCarried, ReplicateResult
from adaptlab.runs.inputs import PlacedInputs
from adaptlab.specs.resolved import OtherBase, ResolvedAdapt
from adaptlab.text.mapping import NotText, mapped


def carried(
    plan: Plan,
    chosen: Sequence[ReplicateResult],
    inputs: PlacedInputs,
    memory_bytes: int | None,
    observer: Observer,
) -> Iterator[Evaluated | NotCarried]:
    """Yield the scores of what the replicates have found on other bases.

    Each base is scored with what was found and alone, on the job's evaluation tasks.

    Raises:
        BadCheckpoint: the weights of a base are not there.
    """
    spec = plan.spec
    assert isinstance(spec, ResolvedAdapt)
    where = {base.name: base for base in inputs.others}
    each = answers_to_score(plan, chosen)
    pace = PhaseProgress(observer, "transferring", each * len(spec.evaluation_bases))
    for place, other in enumerate(spec.evaluation_bases, start=1):
        if (base := where.get(other.name)) is None:
            raise BadCheckpoint(
                f"The worker did not report where the base model {other.name} is. Update the "
                "worker."
            )
        source = BaseWeights(base.bases, base.folder, memory_bytes)
        moved = spec.on(other)
        contents = read_datasets(moved, inputs.datasets, base.folder)
        there = make_plan(moved, str(plan.device), contents.lists, contents.texts)
        yield from _on(other, _Carrier(plan, there, chosen), source, pace.advance)
        source.check_unchanged()
        pace.reach(place * each)


@dataclass(frozen=True)
class _Carrier:
    """What the replicates of `own` have found, for the base of `there`."""

    own: Plan
    there: Plan
    chosen: Sequence[ReplicateResult]

    def models(
        self, source: BaseWeights
    ) -> Iterator[tuple[Model, tuple[ReplicateResult, ...]] | tuple[str, ReplicateResult]]:
        """Yield models with their replicates, or why one is left out."""
        if self.there.method is not None and self.there.method.is_search:
            yield from self._with_prompts(source)
            return
        context = demonstrations(self.there, self.own)
        if context is not None and (room := self._room()) < context.longest:
            reason = (
                f"its {context.longest} tokens and an item do not fit into the context "
                f"of {self.there.shape.context} tokens; there is room for {room}"
            )
            for result in self.chosen:
                yield reason, result
            return
        yield self._model(source, self.chosen, {}, context), tuple(self.chosen)

    def _room(self) -> int:
        """Return the tokens that fit before the longest item."""
        return self.there.shape.context - self.there.task.content_length(self.there.family)

    def _with_prompts(
        self, source: BaseWeights
    ) -> Iterator[tuple[Model, tuple[ReplicateResult, ...]] | tuple[str, ReplicateResult]]:
        """Yield the replicates whose prompts are equally long together."""
        prompts = defaultdict[int, list[tuple[ReplicateResult, tuple[int, ...]]]](list)
        for result in self.chosen:
            assert result.prompt is not None
            try:
                tokens = self._mapped(result.prompt.tokens)
            except NotText as reason:
                yield str(reason), result
            else:
                prompts[len(tokens)].append((result, tokens))
        for group in prompts.values():
            results = tuple(result for result, _ in group)
            model = self._model(source, results, {})
            rows = _embedded(model, torch.tensor([tokens for _, tokens in group]))
            yield Model(model.plan, model.base, {PROMPT: rows}), results

    def _mapped(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        here, there = self.own.task.tokeniser(), self.there.task.tokeniser()
        if here is not None and there is not None:
            tokens = mapped(tokens, here, there)
        for token in tokens:
            if token >= (most := self.there.shape.vocabulary):
                raise NotText(f"it has {most} tokens and lacks token {token}")
        return tokens

    def _model(
        self,
        source: BaseWeights,
        results: Sequence[ReplicateResult],
        trained: Mapping[str, Tensor],
        context: Context | NearestContext | None = None,
    ) -> Model:
        plan = self.there
        seeds = [result.replicate // plan.trials for result in results]
        replicates = [plan.trained.base_replicates[seed] for seed in seeds]
        base = source.read(plan, replicates, plan.dtype)
        return Model(plan, base, trained, None if context is None else context.rows(seeds))


def _embedded(model: Model, tokens: Int[Tensor, "R P"]) -> Float[Tensor, "R P C"]:
    """Return the embeddings of prompts as the blocks of their bases read them."""
    vocabulary = Vocabulary.of(model.plan, model.base)
    groups = len(vocabulary.tables)
    base_of = tuple(row if groups > 1 else 0 for row in range(len(tokens)))
    device = model.plan.device
    return Vocabulary(vocabulary.tables, base_of).embedded(tokens.to(device))


def _on(
    other: OtherBase, carrier: _Carrier, source: BaseWeights, advance: Advance
) -> Iterator[Evaluated | NotCarried]:
    for found, rest in carrier.models(source):
        if isinstance(found, Model) and isinstance(rest, tuple):
            for evaluation in score(found, rest, advance):
                named = evaluation.model_copy(update={"base_model": other.name})
                yield Evaluated(evaluation=named)
        elif isinstance(found, str) and isinstance(rest, ReplicateResult):
            yield NotCarried(
                base_model=other.name,
                replicate=rest.replicate,
                seed=rest.seed,
                reason=storable(found[:LONGEST_TEXT]),
            )
