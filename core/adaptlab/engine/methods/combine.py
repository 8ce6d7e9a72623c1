"""Combination: the merged attachments of several methods."""

from collections.abc import Iterator, Mapping

from torch import Tensor

from adaptlab.engine.models.attachments import Attachments, merged
from adaptlab.engine.plugins import ENGINE_FOLDS, ENGINE_METHODS
from adaptlab.methods.combine import Combine
from adaptlab.plugins.method import Method
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("combine")
def attach(method: Combine, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Attach all parts, in their order."""
    return merged(
        [
            ENGINE_METHODS.get(part.name)(part, shape, own)
            for part, own in _parts(method, shape, tensors)
        ]
    )


@ENGINE_FOLDS.register("combine")
def fold(method: Combine, shape: ModelShape, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Fold the parts that keep less than they train."""
    kept: dict[str, Tensor] = {}
    for part, own in _parts(method, shape, tensors):
        if part.name in ENGINE_FOLDS.names():
            own = ENGINE_FOLDS.get(part.name)(part, shape, own)
        kept |= {f"{part.name}.{name}": tensor for name, tensor in own.items()}
    return kept


def _parts(
    method: Combine, shape: ModelShape, tensors: Mapping[str, Tensor]
) -> Iterator[tuple[Method, dict[str, Tensor]]]:
    """Every part with its own tensors under their own names."""
    for part in method.parts:
        start = f"{part.name}."
        own = {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}
        yield part, own | {name: tensors[name] for name in part.companions(shape)}
