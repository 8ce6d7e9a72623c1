"""The sizes next to the one that a budget resolved to."""

from adaptlab.plugins.method import Method
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.sizing import PARAMETERS
from adaptlab.specs.model_shapes import model_shape
from adaptlab.specs.resolved import ResolvedAdapt, read_resolved
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.values import Value


class SizeStep(Value):
    """A value of the size knob, with the number of trainable parameters."""

    size: int
    trainable_parameters: int


class SizeSteps(Value):
    """The size of an adaptation and the next smaller and larger ones, if any."""

    knob: str
    chosen: SizeStep
    smaller: SizeStep | None
    larger: SizeStep | None


def size_steps(document: ResolvedSpec) -> SizeSteps | None:
    """Return the sizes next to an adaptation's; None if no size can be chosen."""
    resolved = read_resolved(document)
    if not isinstance(resolved, ResolvedAdapt) or not resolved.trains:
        return None
    method = resolved.method
    if not method.is_sized_by(PARAMETERS):
        return None
    size = None if method.size_knob is None else getattr(method, method.size_knob)
    if method.size_knob is None or not isinstance(size, int):
        return None
    shape = model_shape(resolved)
    return SizeSteps(
        knob=method.size_knob,
        chosen=_step(method, shape, size),
        smaller=_step(method, shape, size - 1) if size > 1 else None,
        larger=_step(method, shape, size + 1) if size < method.largest_size(shape) else None,
    )


def _step(method: Method, shape: ModelShape, size: int) -> SizeStep:
    return SizeStep(size=size, trainable_parameters=method.with_size(size).trained_scalars(shape))
