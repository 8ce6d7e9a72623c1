"""Projected gradient descent on the embeddings of a prompt."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.hard_prompt import HardPrompt
from adaptlab.plugins.method import METHODS, MethodGroup


@METHODS.register("autoprompt_sgd")
class AutoPromptSGD(HardPrompt):
    """Take a gradient step and return to the nearest tokens at once.

    A step that is too short returns to the same tokens. `noise` adds Langevin noise of variance 2 η
    β, where β falls from `noise` to a ten-thousandth of it over all steps; with it, this is
    `fluentprompt` without its term for fluency.
    """

    title: ClassVar[str] = "AutoPrompt, projected SGD"
    group: ClassVar[MethodGroup] = "searches"
    place: ClassVar[int] = 3
    phrase: ClassVar[str | None] = "AutoPrompt with projected SGD"
    summary: ClassVar[str] = "Tokens found by gradient steps that end on embeddings."
    formula: ClassVar[str] = "P ← Proj_E(P - η ∇L(P) + √(2ηβ) ε)"
    reference: ClassVar[str] = "Wen et al. (NeurIPS 2023), baseline; Shi et al. (2023), noise"
    default_learning_rate: ClassVar[float] = 3.0
    learning_rate_range: ClassVar[tuple[float, float]] = (0.3, 10.0)

    name: Literal["autoprompt_sgd"] = "autoprompt_sgd"
    noise: float = Field(default=0.0, ge=0, le=1e3)
    """strength of the noise added to each step"""
