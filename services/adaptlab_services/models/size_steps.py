"""The sizes beside the one that a budget came to: what one step less and one more would train."""

from adaptlab.plugins.method import Method
from adaptlab.plugins.shapes import ModelShape
from adaptlab.specs.resolve import family_shape
from adaptlab.specs.resolved import ResolvedAdapt, read_resolved
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.values import Value


class SizeStep(Value):
    """A value of the size knob, and the number of scalars that is trained with it."""

    size: int
    trainable_parameters: int


class SizeSteps(Value):
    """The size of an adaptation, by the knob that has it, and its neighbours that the model has."""

    knob: str
    chosen: SizeStep
    smaller: SizeStep | None
    larger: SizeStep | None


def size_steps(document: ResolvedSpec) -> SizeSteps | None:
    """The sizes beside that of a resolved adaptation; None for a method without such a knob."""
    resolved = read_resolved(document)
    if not isinstance(resolved, ResolvedAdapt):
        return None
    method = resolved.method
    size = None if method.size_knob is None else getattr(method, method.size_knob)
    if method.size_knob is None or not isinstance(size, int):
        return None
    shape = family_shape(resolved.family)
    return SizeSteps(
        knob=method.size_knob,
        chosen=_step(method, shape, size),
        smaller=_step(method, shape, size - 1) if size > 1 else None,
        larger=_step(method, shape, size + 1) if size < method.largest_size(shape) else None,
    )


def _step(method: Method, shape: ModelShape, size: int) -> SizeStep:
    return SizeStep(size=size, trainable_parameters=method.with_size(size).trained_scalars(shape))
