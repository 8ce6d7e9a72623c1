"""Four-bit matrices of a frozen base model, and the bytes that they take.

QLoRA: Dettmers, Pagnoni, Holtzman, Zettlemoyer (NeurIPS 2023). The arithmetic is in
`adaptlab.engine.models.nf4`.
"""

from collections.abc import Iterator

from adaptlab.errors import Problem
from adaptlab.plugins.method import Method
from adaptlab.plugins.shapes import ModelShape, Site

BLOCK = 64
"""Numbers of a matrix that share a largest magnitude."""
MAGNITUDES = 256
"""Magnitudes that share a scale."""
POINTER = "/training/base_weights"


def quantised_sites(shape: ModelShape) -> tuple[Site, ...]:
    """Return the linear sites whose matrices nf4 stores in four bits.

    They are those of blocks. Embeddings, norms, biases, experts and the head keep their dtype, and
    so do the few matrices with an odd number of inputs.
    """
    return tuple(
        site for site in shape.linear_sites if site.layer is not None and site.inputs % 2 == 0
    )


def quantised_bytes(scalars: int) -> int:
    """Return the bytes of a matrix of so many numbers.

    They are half a byte each, a byte per block, a scale per `MAGNITUDES` blocks, and one offset.
    """
    blocks = -(-scalars // BLOCK)
    return scalars // 2 + blocks + 4 * -(-blocks // MAGNITUDES) + 4


def base_bytes(shape: ModelShape, scalar_bytes: int, *, is_quantised: bool) -> int:
    """Return the bytes of a base model's weights in memory.

    Those that are not quantised take `scalar_bytes` each.
    """
    if not is_quantised:
        return scalar_bytes * shape.parameters
    packed = sum(map(quantised_bytes, _sizes(shape)))
    return scalar_bytes * exact_scalars(shape) + packed


def exact_scalars(shape: ModelShape) -> int:
    """Return the number of a base model's weights that nf4 leaves as they are."""
    return shape.parameters - sum(_sizes(shape))


def largest_matrix(shape: ModelShape) -> int:
    """Return the numbers of the largest matrix that nf4 stores in four bits."""
    return max(_sizes(shape), default=0)


def _sizes(shape: ModelShape) -> list[int]:
    return [site.inputs * site.outputs for site in quantised_sites(shape)]


def quantisation_problems(
    method: Method, shape: ModelShape, *, is_published: bool, is_carried: bool
) -> Iterator[Problem]:
    """Yield the reasons why a method cannot adapt a four-bit base.

    Args:
        method: the resolved method.
        shape: the base model's.
        is_published: whether the base was imported from a folder.
        is_carried: whether the adaptation is evaluated on other base models.
    """
    if not is_published:
        detail = (
            "Only base models that were imported from a folder, and are read there, can be held in "
            "four bits. Use "
            "`base_weights: stored`, or import a published model."
        )
        yield Problem(POINTER, "not_quantised", detail, allowed=("stored",))
        return
    if is_carried:
        detail = (
            "What is found on a four-bit base is not evaluated on other base models. Leave "
            "evaluation.base_models out, or use `base_weights: stored`."
        )
        yield Problem("/evaluation/base_models", "not_carried", detail)
    if names := _needed_exactly(method, shape):
        others = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        detail = (
            f"{method.name} trains or reads {names[0]}{others}, which nf4 stores in four bits. "
            "Four-bit matrices stay frozen. Use `base_weights: stored`, or a method that only adds "
            "to them, such as lora without dora."
        )
        yield Problem(POINTER, "trains_quantised", detail, allowed=("stored",))


def _needed_exactly(method: Method, shape: ModelShape) -> list[str]:
    """Return the quantised matrices that a method replaces or starts from."""
    quantised = {f"{site.name}.weight" for site in quantised_sites(shape)}
    trained = method.trained(shape)
    read = {tensor.initialiser.source for tensor in trained.values()}
    if method.reads_weights():
        read |= {f"{name.rpartition('.')[0]}.weight" for name in trained}
    return sorted(quantised & (trained.keys() | read))
