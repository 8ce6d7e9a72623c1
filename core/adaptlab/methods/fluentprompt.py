"""FluentPrompt: Langevin steps on a prompt's embeddings towards fluency."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.hard_prompt import FluentPromptSearch
from adaptlab.plugins.method import METHODS, MethodGroup


@METHODS.register("fluentprompt")
class FluentPrompt(FluentPromptSearch):
    """Take a noisy gradient step and return to the nearest tokens at once.

    The step follows the loss of the task and the log-perplexity of the prompt, weighted by
    `fluency`. The noise has variance 2 η β, where β falls from `noise` to a ten-thousandth of it
    over all steps. Without both, this is `autoprompt_sgd`.
    """

    title: ClassVar[str] = "FluentPrompt"
    group: ClassVar[MethodGroup] = "searches"
    place: ClassVar[int] = 2
    summary: ClassVar[str] = "Fluent tokens found by noisy gradient steps that end on embeddings."
    formula: ClassVar[str] = "P ← Proj_E(P - η ∇[(1-λ) L(P) - λ log p(P)] + √(2ηβ) ε)"
    reference: ClassVar[str] = "Shi et al. (2023)"
    default_learning_rate: ClassVar[float] = 3.0
    learning_rate_range: ClassVar[tuple[float, float]] = (0.3, 10.0)

    name: Literal["fluentprompt"] = "fluentprompt"
    fluency: float = Field(default=0.003, ge=0, lt=1)
    """weight of the base model's own loss on the prompt"""
    noise: float = Field(default=1.0, ge=0, le=1e3)
    """strength of the noise added to each step"""
