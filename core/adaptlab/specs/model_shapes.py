"""Shapes of models, from a cache: the largest part of resolving a spec."""

from functools import lru_cache

from adaptlab.plugins.family import Family
from adaptlab.plugins.shapes import ModelShape
from adaptlab.specs.resolved import Resolved


def family_shape(family: Family, classes: int | None = None) -> ModelShape:
    """Return the shape of a resolved family, from a cache.

    With `classes`, a head for classes is in place of the model's own.
    """
    return _shape_of(family, classes)  # pyright: ignore[reportArgumentType] - frozen, and so hashable


@lru_cache(maxsize=32)  # up to 0.5 MB each; many jobs adapt the same base model
def _shape_of(family: Family, classes: int | None) -> ModelShape:
    return family.shape() if classes is None else family.shape_with_classes(classes)


def model_shape(spec: Resolved) -> ModelShape:
    """Return the shape of a job's model, with the head that its task needs."""
    return family_shape(spec.family, None if spec.task is None else spec.task.classes())
