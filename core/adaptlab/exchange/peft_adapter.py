"""Adapters that PEFT has saved, in the engine's form.

This is the reverse of `peft_folder`. Nothing here needs torch or PEFT.
"""

from collections.abc import Mapping

from adaptlab.errors import BadAdapter
from adaptlab.exchange.adapter_folder import AdapterFolder
from adaptlab.exchange.peft_folder import published_model
from adaptlab.exchange.peft_members import ADAPTER_CONFIG
from adaptlab.exchange.plugins import PEFT_TYPES, AttachedAdapter, BaseTensors
from adaptlab.plugins.family import Family
from adaptlab.wording import value_excerpt


def imported_adapter(
    family: Family, folder: AdapterFolder, base_tensors: BaseTensors
) -> AttachedAdapter:
    """Return the method and the tensors of an adapter.

    The adapter is one of a base model of `family`. `base_tensors` is called for the few tensors of
    the base model that some forms repeat.

    Raises:
        BadAdapter: the adapter is one of another base model, or has no exact form here.
        NoPeftForm: PEFT has no adapters of such a base model.
    """
    model = published_model(family)
    name = peft_type_of(folder.config)
    adapter = PEFT_TYPES.get(name)(folder.config, model, folder.tensors, base_tensors)
    declared = {n: tensor.shape for n, tensor in adapter.method.tensors(model.shape).items()}
    shapes = {n: tensor.shape for n, tensor in adapter.tensors.items()}
    assert shapes == declared, adapter.method
    return adapter


def peft_type_of(config: Mapping[str, object]) -> str:
    """Return the type of an adapter from its configuration.

    Raises:
        BadAdapter: there is none, or adapters of this type cannot be imported.
    """
    name = config.get("peft_type")
    if not isinstance(name, str) or name not in PEFT_TYPES.names():
        raise BadAdapter(
            f"{ADAPTER_CONFIG} has the peft_type {value_excerpt(name)}. Adapters of these types "
            f"can be imported: {', '.join(PEFT_TYPES.names())}."
        )
    return name
