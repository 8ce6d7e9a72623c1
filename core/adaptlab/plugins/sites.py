"""Whether a model has the sites that a method needs."""

from adaptlab.errors import Problem
from adaptlab.plugins.decoder import DecoderLayout
from adaptlab.plugins.method import Method
from adaptlab.plugins.shapes import ModelShape


def missing_sites(method: Method, shape: ModelShape) -> tuple[Problem, ...]:
    """The fault of a method whose sites the model lacks, so that it would train nothing of it.

    A method that trains nothing on a complete model either is a baseline and has no fault.
    """
    smallest = method.smallest().kept()  # what only helps training stands nowhere
    tensors = smallest.tensors(shape)
    found = all(shape.owns(name) for name in tensors)
    if found and (tensors or not smallest.tensors(_complete())):
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


def _complete() -> ModelShape:
    """A model that has every kind of site and tensor."""
    return DecoderLayout(
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
