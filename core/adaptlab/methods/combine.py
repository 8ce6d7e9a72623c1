"""Several methods that share one parameter budget."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from statistics import geometric_mean
from typing import Annotated, ClassVar, Literal, Self, cast

from pydantic import Field, SerializeAsAny, WrapValidator

from adaptlab.errors import Problem
from adaptlab.figures import counted
from adaptlab.plugins.method import METHODS, AttentionClaim, Method
from adaptlab.plugins.nested import nested
from adaptlab.plugins.shapes import ModelShape, TensorShape
from adaptlab.plugins.sites import missing_sites
from adaptlab.plugins.sizing import PARAMETERS, BudgetAxis


def _part(value: object, _: object) -> Method:
    """Return a method from its name or configuration."""
    return value if isinstance(value, Method) else nested(METHODS, value)


Part = Annotated[
    SerializeAsAny[Method],
    WrapValidator(_part, json_schema_input_type=str | dict[str, object]),
]
FEWEST = 2
MOST = 4
Share = Annotated[float, Field(gt=0, le=1e6)]


@METHODS.register("combine")
class Combine(Method):
    """Train several methods together on one base.

    `parts` are names or configurations; each method can occur once. The budget that parts of fixed
    size leave over is divided among the other parts in proportion to `shares`, which are equal by
    default. What a part cannot use of it goes to the next one, and finally to every part that can
    still grow. Trials use the geometric mean of the parts' learning rates. The default weight
    decay is 0. At a common site, the parts act in their order.
    """

    title: ClassVar[str] = "Combination"
    place: ClassVar[int] = 7
    summary: ClassVar[str] = "Several methods share one parameter budget and are trained together."
    formula: ClassVar[str] = "the changes of all parts together"
    reference: ClassVar[str] = (
        "He et al. (ICLR 2022), Mix-and-Match; the rule of shares is adaptlab's"
    )
    first_layer_attention: ClassVar[AttentionClaim] = "can_change"
    size_rule: ClassVar[str] = "Its parts share the budget."
    default_learning_rate: ClassVar[float] = 1.4e-2
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 1.7)

    name: Literal["combine"] = "combine"
    parts: tuple[Part, ...] = Field(
        default=cast("tuple[Method, ...]", ("prefix_tuning", "lora")),
        validate_default=True,
        max_length=MOST,
        json_schema_extra={"minItems": FEWEST},  # checked in `_own_problems`, on valid parts
    )
    """methods to train together, one per line, as JSON"""
    shares: tuple[Share, ...] | None = None
    """weight of each part in the budget"""

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        return {
            f"{part.name}.{name}": tensor
            for part in self.parts
            for name, tensor in part.tensors(shape).items()
        }

    def companions(self, shape: ModelShape) -> dict[str, TensorShape]:
        """Return those of all parts, which are named after sites."""
        return {n: tensor for p in self.parts for n, tensor in p.companions(shape).items()}

    def kept(self) -> Method:
        return self._with(part.kept() for part in self.parts)

    def size_is_free(self) -> bool:
        return any(part.size_is_free() for part in self.parts)

    def with_size(self, size: int) -> Self:
        return self._with(p.with_size(size) if p.size_is_free() else p for p in self.parts)

    def smallest(self) -> Self:
        return self._with(part.smallest() for part in self.parts)

    def is_sized_by(self, axis: BudgetAxis) -> bool:
        return all(part.is_sized_by(axis) for part in self.parts if part.size_is_free())

    def within(self, shape: ModelShape, budget: int, axis: BudgetAxis = PARAMETERS) -> Self:
        if axis == PARAMETERS:
            budget -= sum(tensor.size for tensor in shape.class_head.values())
        shape = replace(shape, classes=None)  # the head is no part's own
        parts = list(self.smallest().parts)
        counts = [part.cost(shape, axis) for part in parts]

        def grow(index: int, allowance: int) -> None:
            parts[index] = self.parts[index].within(shape, allowance, axis)
            counts[index] = parts[index].cost(shape, axis)

        unused = 0  # what earlier targets left; negative if a part needed more
        for index, target in self._targets(counts, budget).items():
            most = counts[index] + budget - sum(counts)  # later parts keep their smallest size
            grow(index, min(max(target + unused, counts[index]), most))
            unused += target - counts[index]
        for index in range(len(parts)):
            grow(index, counts[index] + budget - sum(counts))
        return self._with(parts)

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        problems = [*self._own_problems()]
        for index, part in enumerate(self.parts):
            for problem in part.problems(shape) or missing_sites(part, shape):
                below = problem.pointer.removeprefix("/method")
                problems.append(replace(problem, pointer=f"/method/parts/{index}{below}"))
        return tuple(problems or self._overlaps(shape))

    def reads_weights(self) -> bool:
        return any(part.reads_weights() for part in self.parts)

    def starting_texts(self) -> tuple[tuple[str, int], ...]:
        return tuple(text for part in self.parts for text in part.starting_texts())

    def extra_context_tokens(self) -> int:
        return sum(part.extra_context_tokens() for part in self.parts)

    def follows_question(self) -> bool:
        return any(part.follows_question() for part in self.parts)

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        return sum(part.extra_flops_per_token(shape) for part in self.parts)

    def learning_rates(self, trials: int, shape: ModelShape) -> tuple[float, ...]:
        by_trial = zip(*(part.learning_rates(trials, shape) for part in self.parts), strict=True)
        return tuple(geometric_mean(rates) for rates in by_trial)

    def _with(self, parts: Iterable[Method]) -> Self:
        return self.model_copy(update={"parts": tuple(parts)})

    def _targets(self, counts: list[int], budget: int) -> dict[int, int]:
        """Return the target of each part of free size, by its index."""
        free = [index for index, part in enumerate(self.parts) if part.size_is_free()]
        room = budget - sum(count for index, count in enumerate(counts) if index not in free)
        shares = self.shares or (1.0,) * len(self.parts)
        total = sum(shares[index] for index in free)
        return {index: int(room * shares[index] / total) for index in free}

    def _own_problems(self) -> Iterator[Problem]:
        names = [part.name for part in self.parts]
        count = len(names)
        if count < FEWEST:
            detail = f"A combination has {FEWEST} to {MOST} parts, not {count}. Add parts."
            yield Problem("/method/parts", "too_few_parts", detail, nearest=(FEWEST,))
        if self.shares is not None and len(self.shares) != count:
            shares = counted(len(self.shares), "share")
            detail = f"The spec has {shares} for {counted(count, 'part')}. Give one per part."
            yield Problem("/method/shares", "shares_do_not_match", detail, nearest=(count,))
        for index, part in enumerate(self.parts):
            pointer = f"/method/parts/{index}/name"
            if isinstance(part, Combine):
                detail = "A combination cannot contain a combination. Name the inner parts instead."
                yield Problem(pointer, "nested_combination", detail)
            elif part.is_search:
                detail = (
                    f"{part.name} searches for tokens and cannot be trained together with others. "
                    "Use soft_prompt."
                )
                yield Problem(pointer, "search_in_combination", detail)
            elif part.moves_content:
                detail = (
                    f"{part.name} trains nothing and cannot be combined with methods that do. Name "
                    "it alone."
                )
                yield Problem(pointer, "nothing_to_combine", detail)
            elif part.name in names[:index]:
                detail = f"{part.name} is already a part. Name each method only once."
                yield Problem(pointer, "part_twice", detail)

    def _overlaps(self, shape: ModelShape) -> Iterator[Problem]:
        """Yield the problems of parts that replace the same base tensor."""
        seen: dict[str, str] = {}
        for index, part in enumerate(self.smallest().parts):
            replaced = shape.tensors.keys() | shape.tied.keys()
            copies = [name for name in part.tensors(shape) if name in replaced]
            taken = next((name for name in copies if name in seen), None)
            if taken is not None:
                detail = f"{seen[taken]} already trains {taken}. Leave {part.name} out."
                yield Problem(f"/method/parts/{index}/name", "parts_overlap", detail)
            seen |= {name: str(part.name) for name in copies}
