"""Check that a model has the sites that a method needs."""

from adaptlab.errors import Problem
from adaptlab.plugins.decoder import DecoderLayout
from adaptlab.plugins.method import Method
from adaptlab.plugins.shapes import ModelShape


def missing_sites(method: Method, shape: ModelShape) -> tuple[Problem, ...]:
    """Return the problem of a method for which the model has no sites.

    A method that trains nothing on a complete model either, such as a baseline, has no problem.
    """
    smallest = method.smallest().kept()  # tensors that only help training belong to no site
    tensors = smallest.tensors(shape)
    has_sites = all(shape.owns(name) for name in tensors)
    if has_sites and (tensors or not smallest.tensors(_complete(shape.classes))):
        return ()
    kinds = dict.fromkeys(site.kind for site in shape.sites.values())
    roles = dict.fromkeys(tensor.role for tensor in shape.tensors.values())
    return (
        Problem(
            pointer="/method/name",
            code="no_sites",
            detail=(
                f"This {shape.family} has nothing that {method.name} could train. It has sites "
                f"of the kinds {', '.join(kinds)} and tensors of the roles {', '.join(roles)}. "
                "Choose a method that trains one of these."
            ),
        ),
    )


def _complete(classes: int | None) -> ModelShape:
    """Return a model with every kind of site and tensor, and the same head."""
    complete = DecoderLayout(
        family="complete",
        layers=1,
        heads=1,
        width=1,
        query_width=1,
        key_value_width=1,
        hidden=1,
        context=1,
        vocabulary=1,
        gated=True,
    ).shape()
    return complete if classes is None else complete.with_classes(classes)
