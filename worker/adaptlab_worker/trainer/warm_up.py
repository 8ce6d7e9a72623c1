"""The tiny job that a fresh trainer runs before it takes a real one."""

from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedPretrain
from adaptlab.specs.spec import (
    AttentionSpec,
    CaptureSpec,
    Choice,
    EvaluationSpec,
    PretrainSpec,
    TrainingSpec,
)


def tiny_run() -> ResolvedPretrain:
    """Return a run of two steps, with an evaluation and an attention pattern."""
    return resolve(
        PretrainSpec(
            name="warm-up",
            family=Choice.model_validate({"name": "minigpt", "width": 8}),
            task=Choice(name="sort_ascending"),
            training=TrainingSpec(steps=2, batch_size=2),
            evaluation=EvaluationSpec(samples=2),
            capture=CaptureSpec(attention=AttentionSpec(samples=1)),
        ),
        None,
    )
