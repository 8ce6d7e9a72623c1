"""Baseline: random tokens before the input."""

from typing import ClassVar, Literal

from adaptlab.plugins.hard_prompt import HardPrompt
from adaptlab.plugins.method import METHODS, MethodGroup


@METHODS.register("random_prompt")
class RandomPrompt(HardPrompt):
    """Put `length` random tokens before the content.

    Nothing is trained: it shows what a search of the same length gains. `frozen` is the empty
    prompt.
    """

    title: ClassVar[str] = "Random prompt"
    group: ClassVar[MethodGroup] = "controls"
    place: ClassVar[int] = 2
    summary: ClassVar[str] = "Random tokens precede the input, as the baseline of searches."
    formula: ClassVar[str] = "x = [E(t₁) … E(t_p) ; E(x₁) … ], t drawn at random"
    reference: ClassVar[str] = "Wen et al. (NeurIPS 2023), baseline"
    trains: ClassVar[bool] = False
    default_learning_rate: ClassVar[float] = 1e-3
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 1e-3)

    name: Literal["random_prompt"] = "random_prompt"
