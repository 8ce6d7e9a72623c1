"""Inputs whose attention a job records."""

from dataclasses import replace

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.figures import counted
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.task import Task
from adaptlab.specs.spec import AttentionSpec, CaptureSpec

INPUTS = "/capture/attention/inputs"


def resolve_attention(capture: CaptureSpec, task: Task, shape: ModelShape) -> AttentionSpec | None:
    """Return the checked spec of attention capture.

    Raises:
        InvalidSpec: the model has no attention to record, or the task not these items.
    """
    attention = capture.attention
    if attention is None:
        return None
    if not (shape.layers and shape.heads):
        detail = (
            "Attention maps need attention with the same number of heads in every layer, which "
            f"this {shape.family} lacks. Leave the capture out."
        )
        raise InvalidSpec(Problem("/capture/attention", "no_attention_to_capture", detail))
    if problem := task.input_problem():
        _check_items(attention, task, problem)
    for index, tokens in enumerate(attention.inputs):
        if detail := task.input_error(tokens):
            raise InvalidSpec(Problem(f"{INPUTS}/{index}", "not_an_input", detail))
    return attention


def _check_items(attention: AttentionSpec, task: Task, problem: Problem) -> None:
    """Raise `InvalidSpec` unless the recorded items are test items."""
    if attention.inputs:
        raise InvalidSpec(replace(problem, pointer=INPUTS))
    most = task.available("test") or 0
    if not 1 <= attention.samples <= most:
        detail = f"The test split has {counted(most, 'item')}. Record at least one of them."
        nearest = (min(max(attention.samples, 1), most),)
        pointer = "/capture/attention/samples"
        raise InvalidSpec(Problem(pointer, "no_such_items", detail, nearest=nearest))
