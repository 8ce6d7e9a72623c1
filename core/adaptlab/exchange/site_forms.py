"""PEFT's form of methods whose tensors at a site are PEFT's at a module."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from adaptlab.errors import BadAdapter, NoPeftForm
from adaptlab.exchange.modules import ConfiguredModel, Module
from adaptlab.exchange.peft_members import (
    ADAPTER_WEIGHTS,
    TargetedMembers,
    refuse_saved_modules,
)
from adaptlab.exchange.peft_tensors import MODULES, AdaptedModule, adapted_modules
from adaptlab.exchange.plugins import Numbers, PeftForm
from adaptlab.exchange.site_patterns import site_patterns
from adaptlab.plugins.sited_method import SizedAtSites


@dataclass(frozen=True, slots=True)
class SiteForm:
    """How one method is written: our parts of names by PEFT's.

    `turns_conv1d` is True if PEFT's layer also reads the transposed matrices of GPT-2.
    """

    peft_type: str
    kinds: Mapping[str, str]
    turns_conv1d: bool

    def written(
        self,
        method: SizedAtSites,
        model: ConfiguredModel,
        tensors: Mapping[str, Numbers],
        config: Mapping[str, JsonValue],
    ) -> PeftForm:
        """Return a method's tensors and configuration in PEFT's form.

        Raises:
            NoPeftForm: a module is fused, or PEFT's layer does not read it.
        """
        sites = {site.name for site in method.chosen_sites(model.shape)}
        adapted = model.with_sites(sites)
        for module in adapted:
            self._check(method, module)
        return PeftForm(
            {
                "peft_type": self.peft_type,
                "target_modules": [*model.patterns(module.name for module in adapted)],
                **({"fan_in_fan_out": _turned(adapted)} if self.turns_conv1d else {}),
                **config,
            },
            {
                f"{MODULES}{module.name}.{kind}": tensors[f"{module.parts[0].site.name}.{part}"]
                for module in adapted
                for kind, part in self.kinds.items()
            },
        )

    def read(
        self, members: TargetedMembers, model: ConfiguredModel, tensors: Mapping[str, Numbers]
    ) -> "ReadSites":
        """Return the modules of an adapter, each of which is one site.

        Raises:
            BadAdapter: a module is fused, or the tensors belong to no module.
        """
        refuse_saved_modules(members)
        adapted = adapted_modules(model, tensors, [*self.kinds], members.targets())
        for one in adapted:
            if len(one.module.parts) > 1:
                raise BadAdapter(
                    f"{ADAPTER_WEIGHTS} adapts {one.module.name}, which is one module for "
                    f"{len(one.module.parts)} matrices. {self.peft_type} is imported at modules of "
                    "one matrix."
                )
        sites = {one.module.parts[0].site.name for one in adapted}
        return ReadSites(self, tuple(site_patterns(model.shape, sites)), adapted)

    def _check(self, method: SizedAtSites, module: Module) -> None:
        if len(module.parts) > 1:
            parts = ", ".join(part.site.name for part in module.parts)
            raise NoPeftForm(
                f"{module.name} is one module for {parts}, and {method.title} in PEFT adapts it as "
                "a whole. Use sites that are modules of their own, or lora."
            )
        if module.transposed and not self.turns_conv1d:
            raise NoPeftForm(
                f"{method.title} in PEFT does not adapt {module.name}, whose matrix is stored "
                "transposed. Use lora, or a model without such matrices."
            )


@dataclass(frozen=True, slots=True)
class ReadSites:
    """The adapted modules of an adapter, with the patterns of their sites."""

    form: SiteForm
    sites: tuple[str, ...]
    adapted: tuple[AdaptedModule, ...] = field(repr=False)

    def tensors(self, method: SizedAtSites, model: ConfiguredModel) -> dict[str, Numbers]:
        """Return the tensors of a method by our names.

        Raises:
            BadAdapter: a tensor is missing or has another shape.
        """
        own = {site.name: site for site in method.chosen_sites(model.shape)}
        found: dict[str, Numbers] = {}
        for one in self.adapted:
            site = own[one.module.parts[0].site.name]
            shapes = method.tensors_at(site)
            for kind, part in self.form.kinds.items():
                found[f"{site.name}.{part}"] = one.tensor(kind, shapes[part].shape)
        return found

    def sized(self, kind: str, size_of: Callable[[Numbers], int]) -> int:
        """Return the size that the tensors of a kind have.

        Raises:
            BadAdapter: modules differ in it.
        """
        sizes = {size_of(one.tensors[kind]) for one in self.adapted if kind in one.tensors}
        if len(sizes) != 1:
            raise BadAdapter(
                f"{ADAPTER_WEIGHTS} has modules of {len(sizes)} sizes of {kind}. Adapters of "
                f"{self.form.peft_type} are imported with one size."
            )
        return sizes.pop()


def _turned(adapted: tuple[Module, ...]) -> bool:
    return any(module.transposed for module in adapted)
