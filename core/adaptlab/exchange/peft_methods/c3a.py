"""C3A in PEFT's form."""

from collections.abc import Mapping
from typing import Literal

from pydantic import JsonValue

from adaptlab.errors import BadAdapter, NoPeftForm
from adaptlab.exchange.modules import ConfiguredModel
from adaptlab.exchange.peft_members import ADAPTER_WEIGHTS, TARGETS_ADVICE, TargetedMembers
from adaptlab.exchange.plugins import (
    PEFT_FORMS,
    PEFT_TYPES,
    AttachedAdapter,
    BaseTensors,
    Numbers,
    PeftForm,
)
from adaptlab.exchange.site_forms import SiteForm
from adaptlab.methods.c3a import C3a
from adaptlab.plugins.shapes import Site

KERNEL = "c3a_kernel"
FORM = SiteForm("C3A", {KERNEL: "kernel"}, turns_conv1d=False)


@PEFT_FORMS.register("c3a")
def to_peft(
    method: C3a, model: ConfiguredModel, tensors: Mapping[str, Numbers], base: BaseTensors
) -> PeftForm:
    """Return the kernels by module.

    Raises:
        NoPeftForm: a module is fused, or a block does not divide its sides.
    """
    sizes: dict[str, int] = {}
    for site in method.chosen_sites(model.shape):
        block = method.block_at(site)
        sizes[model.module_of(f"{site.name}.weight")] = block
        if site.inputs % block or site.outputs % block:
            raise NoPeftForm(
                f"C3A in PEFT needs blocks that divide both sides of {site.name}, {site.outputs} × "
                f"{site.inputs}, and these have {block} rows."
            )
    usual = max(sizes.values())
    pattern = model.exceptions(sizes, usual)
    config: dict[str, JsonValue] = {
        "block_size": usual,
        "block_size_pattern": {**pattern},
        "bias": "none",
    }
    return FORM.written(method, model, tensors, config)


class C3aMembers(TargetedMembers):
    """The members of C3A that are read."""

    ignored = frozenset({"block_size", "block_size_pattern", "init_weights"})
    advice = TARGETS_ADVICE

    bias: Literal["none"] = "none"


@PEFT_TYPES.register("C3A")
def from_peft(
    config: Mapping[str, object],
    model: ConfiguredModel,
    tensors: Mapping[str, Numbers],
    base: BaseTensors,
) -> AttachedAdapter:
    """Return the kernels by site.

    Raises:
        BadAdapter: modules have blocks of unequal shares of their sides.
    """
    found = FORM.read(C3aMembers.read(config), model, tensors)
    possible = [
        _parts(one.module.parts[0].site, one.tensors[KERNEL].shape[-1]) for one in found.adapted
    ]
    parts = set[int].intersection(*possible)
    if not parts:
        raise BadAdapter(
            f"{ADAPTER_WEIGHTS} has modules whose blocks are unequal shares of the shorter sides "
            "of their matrices. C3A is imported with one number of blocks."
        )
    method = C3a(parts=min(parts), sites=found.sites)
    return AttachedAdapter(method, found.tensors(method, model))


def _parts(site: Site, block: int) -> set[int]:
    """Return the numbers of parts that give a site blocks of this size."""
    shorter = min(site.inputs, site.outputs)
    return set(range(shorter // (block + 1) + 1, shorter // block + 1)) if block else set()
