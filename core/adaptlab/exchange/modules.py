"""Linear modules of a published model, as `transformers` names them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from adaptlab.plugins.shapes import ModelShape, Site
from adaptlab.weights.huggingface import PublishedFamily, PublishedTensor
from adaptlab.weights.library_tensors import HEAD

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class SitePart:
    """A linear site in a module: its outputs begin at `start` of the module's."""

    site: Site
    start: int

    @property
    def rows(self) -> slice:
        """The site's outputs among those of the module."""
        return slice(self.start, self.start + self.site.outputs)


@dataclass(frozen=True, slots=True)
class Module:
    """A linear module, which can be a fused one.

    The sites of a fused module are `parts`, side by side along its outputs.
    """

    name: str
    transposed: bool
    parts: tuple[SitePart, ...]

    @property
    def outputs(self) -> int:
        """The number of output features."""
        return sum(part.site.outputs for part in self.parts)


class ConfiguredModel:
    """A configured published model with its linear modules.

    With `classes`, it has a head for as many in place of its own.
    """

    def __init__(self, family: PublishedFamily, classes: int | None = None) -> None:
        self.family, self._classes = family, classes

    @cached_property
    def shape(self) -> ModelShape:
        """The model's sites and tensors."""
        if self._classes is None:
            return self.family.shape()
        return self.family.shape_with_classes(self._classes)

    @cached_property
    def places(self) -> Mapping[str, PublishedTensor]:
        """The places of our tensors in the model's files."""
        return self.family.published_tensors()

    @cached_property
    def modules(self) -> Mapping[str, Module]:
        """The linear modules by name, in forward order."""
        parts: dict[str, list[SitePart]] = {}
        transposed: set[str] = set()
        for site in self.shape.linear_sites:
            weight = f"{site.name}.weight"
            if weight not in self.places:  # a head for classes, where there was none
                continue
            place, module = self.places[weight], self.module_of(weight)
            parts.setdefault(module, []).append(SitePart(site, place.start))
            if place.transposed:
                transposed.add(module)
        return {
            name: Module(name, name in transposed, tuple(sorted(p, key=lambda part: part.start)))
            for name, p in parts.items()
        }

    def module_of(self, tensor: str) -> str:
        """Return the name of the module that has one of our tensors.

        Every head is called `lm_head` since transformers 5, also where files have another name.
        """
        if tensor == HEAD:
            return "lm_head"
        prefix = self.family.prefix if self._classes is None else self.family.classifier_prefix()
        return prefix + self.places[tensor].name.rpartition(".")[0]

    def with_sites(self, sites: Collection[str]) -> tuple[Module, ...]:
        """Return the modules that have at least one of the sites."""
        return tuple(
            module
            for module in self.modules.values()
            if any(part.site.name in sites for part in module.parts)
        )

    def patterns(self, chosen: Iterable[str]) -> list[str]:
        """Return the shortest ends of names that match these modules and no other."""
        wanted = set(chosen)
        others = {end for name in self.modules.keys() - wanted for end in name_ends(name)}
        return sorted({next(e for e in name_ends(name) if e not in others) for name in wanted})

    def exceptions(self, values: Mapping[str, N], usual: N) -> dict[str, N]:
        """Return the values other than the usual one, by ends of names.

        `values` are by the names of modules.
        """
        by_value: dict[N, list[str]] = {}
        for name, value in values.items():
            if value != usual:
                by_value.setdefault(value, []).append(name)
        return {end: value for value, names in by_value.items() for end in self.patterns(names)}


def name_ends(name: str) -> Iterator[str]:
    """Yield the ends of a dotted name from the shortest to the whole."""
    parts = name.split(".")
    return (".".join(parts[-count:]) for count in range(1, len(parts) + 1))
