"""PEZ: gradient descent on rows that are projected for every pass."""

from typing import ClassVar, Literal

from adaptlab.plugins.hard_prompt import FluentPromptSearch
from adaptlab.plugins.method import METHODS, MethodGroup


@METHODS.register("pez")
class Pez(FluentPromptSearch):
    """Learn rows whose nearest tokens are the prompt.

    Every step projects the rows on the nearest embeddings, takes the gradient there, and moves the
    rows themselves by AdamW. `distance` is the angle or the Euclidean distance: the paper writes
    the latter, its code uses the former.
    """

    title: ClassVar[str] = "PEZ"
    group: ClassVar[MethodGroup] = "searches"
    place: ClassVar[int] = 1
    summary: ClassVar[str] = "Tokens found by gradient descent through a projection."
    formula: ClassVar[str] = "P ← P - η ∇L(Proj_E(P)), the prompt is Proj_E(P)"
    reference: ClassVar[str] = "Wen et al. (NeurIPS 2023)"
    default_learning_rate: ClassVar[float] = 0.3
    learning_rate_range: ClassVar[tuple[float, float]] = (3e-2, 3.0)

    name: Literal["pez"] = "pez"
    distance: Literal["angle", "euclidean"] = "angle"
    """measure by which a vector is projected to the nearest token"""
