"""In-context learning: demonstrations before the question."""

from typing import ClassVar, Literal

from adaptlab.plugins.demonstrations import Demonstrations
from adaptlab.plugins.method import METHODS, AttentionClaim, MethodGroup


@METHODS.register("in_context")
class InContext(Demonstrations):
    """Put training items with answers before the question; train nothing.

    `demonstrations` items are drawn per seed from the training split, in random order. `balanced`
    takes as many of each label as possible, `random` whichever come. `nearest` takes, for every
    question, those whose own questions are the nearest by the base model's states where the answer
    begins; the seed then draws what is chosen from, and the order.

    Demonstrations are written as the task writes its items. On texts, `separator` follows each;
    `longest` is the limit in tokens of one with its separator, and longer ones are not drawn. By
    default, it is the longest item that the task allows.
    """

    title: ClassVar[str] = "In-context learning"
    group: ClassVar[MethodGroup] = "prompts"
    place: ClassVar[int] = 2
    summary: ClassVar[str] = "Demonstrations precede the question; nothing is trained."
    formula: ClassVar[str] = "ŷ = argmax_y p(y | x₁, y₁, …, x_k, y_k, x)"
    reference: ClassVar[str] = "Brown et al. (NeurIPS 2020)"
    first_layer_attention: ClassVar[AttentionClaim] = "can_change"
    restriction: ClassVar[str] = (
        "it trains nothing, and the base must already use demonstrations in its input"
    )

    name: Literal["in_context"] = "in_context"
