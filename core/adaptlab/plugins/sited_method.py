"""Methods that change chosen weight matrices."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.method import AttentionClaim, Method
from adaptlab.plugins.shapes import ModelShape, Site, TensorShape
from adaptlab.values import Auto

Sites = Annotated[tuple[str, ...], Field(min_length=1, max_length=64)]
QUERIES_AND_VALUES = ("q", "v")


class SitedMethod(Method):
    """A method that changes the matrices of chosen linear sites.

    Every subclass declares the field `sites`: dotted parts of names, such as `q`, `attn.v`, `mlp`
    or `blocks.0.mlp.up`.
    """

    first_layer_attention: ClassVar[AttentionClaim] = "can_change"

    if TYPE_CHECKING:  # declared where it is to be in the order of fields
        sites: Sites

    def chosen_sites(self, shape: ModelShape) -> tuple[Site, ...]:
        """Return the linear sites that match a pattern, in forward order."""
        chosen = {site.name for pattern in self.sites for site in shape.matching_sites(pattern)}
        return tuple(site for site in shape.linear_sites if site.name in chosen)

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        """Return the patterns that match no site."""
        names = tuple(site.name for site in shape.linear_sites)
        return tuple(
            Problem(
                pointer=f"/method/sites/{index}",
                code="unknown_site",
                detail=f"No linear site of this {shape.family} matches {pattern!r}.",
                allowed=names,
            )
            for index, pattern in enumerate(self.sites)
            if not shape.matching_sites(pattern)
        )


class SizedAtSites(SitedMethod):
    """A method with tensors of its own at each site, and a knob for all.

    A site's tensors are named after it: `blocks.0.attn.q.a`.
    """

    @abstractmethod
    def tensors_at(self, site: Site) -> dict[str, TensorShape]:
        """Return the tensors of a site, by the last part of their names."""

    @abstractmethod
    def largest_at(self, site: Site) -> int:
        """Return the largest sensible size at a site."""

    def flops_at(self, site: Site) -> int:
        """Return the operations that a site takes more, per token."""
        return 2 * sum(tensor.size for tensor in self.tensors_at(site).values())

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        """Return the tensors of all chosen sites."""
        return {
            f"{site.name}.{part}": tensor
            for site in self.chosen_sites(shape)
            for part, tensor in self.tensors_at(site).items()
        }

    def largest_size(self, shape: ModelShape) -> int:
        """Return the largest size that all chosen sites allow."""
        return min(map(self.largest_at, self.chosen_sites(shape)), default=1)

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        """Return the operations that all chosen sites take more."""
        return sum(map(self.flops_at, self.chosen_sites(shape)))

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        """Return unknown patterns, or a size that no site allows."""
        unknown = super().problems(shape)
        assert self.size_knob is not None
        size: int | Auto = getattr(self, self.size_knob)
        least, limit = self.first_size, self.largest_size(shape)
        if unknown or not isinstance(size, int) or least <= size <= limit:
            return unknown
        knob = self.size_knob.replace("_", " ")
        return (
            Problem(
                pointer=f"/method/{self.size_knob}",
                code="size_out_of_range",
                detail=f"The {knob} {size} is outside {least} to {limit} at the chosen sites.",
                nearest=(min(max(size, least), limit),),
            ),
        )
