"""Cost of a forward pass and its backward pass, counted site by site."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from adaptlab.plugins.family import Family
from adaptlab.plugins.shapes import ModelShape, Site
from adaptlab.specs.model_shapes import family_shape

MOVED_LOGITS, KEPT_LOGITS, SCORED_LOGITS = 12, 5, 3
"""Copies of the logits: written for a loss and its gradient, in memory then, and while scored."""


@dataclass(frozen=True)
class Batch:
    """Items that pass through the model together, with their lengths.

    Attributes:
        items: items of one replicate.
        replicates: replicates in the pass.
        sharing: replicates that read the same items; values that do not depend on the replicate
            are computed once for all of them.
        tokens: positions of an item.
        answers: positions of an item that predict an answer token.
    """

    items: int
    replicates: int
    sharing: int
    tokens: int
    answers: int


@dataclass(frozen=True)
class Part:
    """One matrix product or attention of a pass, over all replicates.

    Attributes:
        flops: floating-point operations of the forward pass.
        values: scalars that it produces.
        follows: whether its input depends on trained values.
        trained: whether its own weights are trained.
        layer: its layer, None outside the layers.
        kept: scalars that are kept for the backward pass, by default all that it produces.
    """

    flops: int
    values: int
    follows: bool
    trained: bool = False
    layer: int | None = None
    kept: int | None = None


@dataclass(frozen=True)
class PassSums:
    """The sums over the parts of one forward pass.

    Attributes:
        parts: the number of parts.
        returned: the parts that the backward pass goes through.
        flops: operations of the forward pass.
        backward_flops: operations of the backward pass.
        values: scalars that the parts produce.
        kept: scalars kept for the backward pass.
        moved: reads and writes of scalars in both passes.
        held: scalars by layer.
    """

    parts: int
    returned: int
    flops: int
    backward_flops: int
    values: int
    kept: int
    moved: int
    held: Mapping[int | None, int]

    @classmethod
    def of(cls, parts: Iterable[Part]) -> "PassSums":
        """Return the sums over some parts."""
        total = PassSums(0, 0, 0, 0, 0, 0, 0, {})
        for part in parts:
            total = total.with_part(part)
        return total

    def with_part(self, part: Part) -> "PassSums":
        """Return the sums with one more part."""
        returns = part.follows or part.trained
        kept = part.values if part.kept is None else part.kept
        return PassSums(
            parts=self.parts + 1,
            returned=self.returned + returns,
            flops=self.flops + part.flops,
            backward_flops=self.backward_flops + part.flops * (part.follows + part.trained),
            values=self.values + part.values,
            kept=self.kept + kept * returns,
            moved=self.moved + part.values * (2 + 4 * returns),
            held={**self.held, part.layer: self.held.get(part.layer, 0) + part.values},
        )


@dataclass(frozen=True)
class Route:
    """Conditions of a forward pass through the base model, except its batch.

    The fields have the meaning that they have in `adaptlab.specs.trainable.Trainable`.
    """

    family: Family
    classes: int | None
    first: int
    matrices: frozenset[str]
    learned: int


@lru_cache(maxsize=1024)  # shared by jobs of a study that differ only in the method's size
def model_pass(route: Route, batch: Batch) -> PassSums:
    """Return the cost of one forward pass through the base model."""
    return PassSums.of(_model_parts(family_shape(route.family, route.classes), route, batch))


def _model_parts(shape: ModelShape, route: Route, batch: Batch) -> Iterator[Part]:
    """Yield the large parts of a pass, in forward order."""
    last = max((site.layer or 0 for site in shape.sites.values()), default=0)
    for index, site in enumerate(shape.sites.values()):
        follows = index > route.first
        own = _weight(shape, site) in route.matrices
        replicates = batch.replicates if follows or own else batch.replicates // batch.sharing
        rows = replicates * batch.items * _rows(site, last, batch)
        if site.kind == "linear":
            yield _product(site, rows, follows, own)
        elif site.kind == "attention_mix":
            yield _attention(shape, site, rows, batch.tokens + route.learned, follows)
        elif site.kind == "sublayer":  # norm and residual stream
            values, kept = (copies * rows * site.outputs for copies in (4, 2))
            yield Part(2 * values, values, follows, layer=site.layer, kept=kept)


def _product(site: Site, rows: int, follows: bool, own: bool) -> Part:
    flops = 2 * rows * site.inputs * site.outputs
    results = rows * site.outputs
    if site.layer is None:
        return Part(flops, MOVED_LOGITS * results, follows, own, kept=KEPT_LOGITS * results)
    # A bias or an activation writes a second copy of the result; the copies of some are kept.
    return Part(flops, 2 * results, follows, own, site.layer, 3 * results // 2)


def _attention(shape: ModelShape, site: Site, rows: int, keys: int, follows: bool) -> Part:
    """Return the part of attention: `rows` queries over `keys` positions."""
    scores = max(shape.heads, 1) * rows * keys
    values = 3 * scores + rows * site.inputs
    return Part(4 * rows * keys * site.inputs, values, follows, layer=site.layer)


def _weight(shape: ModelShape, site: Site) -> str:
    """Return the name of a linear site's matrix, with ties resolved."""
    weight = f"{site.name}.weight"
    return shape.tied.get(weight, weight)


def _rows(site: Site, last: int, batch: Batch) -> int:
    """Return the positions of an item at which a site computes.

    In the last layer, after the keys and values, these are the answer's positions only.
    """
    sees_all = site.layer is not None and site.layer < last
    makes_keys = site.name.endswith((".k", ".v"))
    return batch.tokens if sees_all or makes_keys else batch.answers
