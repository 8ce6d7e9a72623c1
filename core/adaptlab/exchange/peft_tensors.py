"""Tensors of PEFT's adapters by the module that they adapt.

They are checked against the base model.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from adaptlab.errors import BadAdapter
from adaptlab.exchange.modules import ConfiguredModel, Module
from adaptlab.exchange.peft_members import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from adaptlab.exchange.peft_targets import Targets
from adaptlab.exchange.plugins import Numbers
from adaptlab.wording import shortened

MODULES = "base_model.model."
LONGEST_NAME = 160


@dataclass(frozen=True, slots=True)
class AdaptedModule:
    """A module of the base model, with the tensors of its adapter by kind."""

    module: Module
    tensors: Mapping[str, Numbers] = field(repr=False)

    def tensor(self, kind: str, *shapes: tuple[int | None, ...]) -> Numbers:
        """Return a tensor of one of the shapes, in which None is any size.

        Raises:
            BadAdapter: it is missing or has another shape.
        """
        name = f"{MODULES}{self.module.name}.{kind}"
        if kind not in self.tensors:
            raise BadAdapter(f"{ADAPTER_WEIGHTS} lacks {name}. Save the adapter again.")
        check_shape(name, self.tensors[kind], *shapes)
        return self.tensors[kind]


def adapted_modules(
    model: ConfiguredModel,
    tensors: Mapping[str, Numbers],
    kinds: Collection[str],
    targets: "Targets",
) -> tuple[AdaptedModule, ...]:
    """Return the modules that have tensors of these kinds, in forward order.

    Raises:
        BadAdapter: a tensor belongs to no module of the model, is of another kind, or belongs to a
            module that is not among the `targets`, for which PEFT would ignore it.
    """
    by_module: dict[str, dict[str, Numbers]] = {}
    for name, tensor in tensors.items():
        module, kind = _parted(name, kinds)
        if module not in model.modules:
            raise BadAdapter(
                f"{ADAPTER_WEIGHTS} adapts {shortened(module, LONGEST_NAME)}, which is no linear "
                "module of this base model. Use the base model that the adapter was trained on."
            )
        by_module.setdefault(module, {})[kind] = tensor
    if not by_module:
        raise BadAdapter(f"{ADAPTER_WEIGHTS} has no tensors. Save the adapter again.")
    check_targeted(by_module, targets)
    return tuple(
        AdaptedModule(module, by_module[name])
        for name, module in model.modules.items()
        if name in by_module
    )


def check_targeted(modules: Iterable[str], targets: "Targets") -> None:
    """Raise `BadAdapter` for a module that is not among the targets.

    PEFT would ignore its tensors.
    """
    for module in modules:
        if (member := targets.member_without(module)) is not None:
            raise BadAdapter(
                f"{ADAPTER_WEIGHTS} adapts {module}, which {member} of {ADAPTER_CONFIG} leaves "
                "out, so that PEFT ignores its tensors. Correct it if they belong to the adapter."
            )


def check_shape(name: str, tensor: Numbers, *shapes: tuple[int | None, ...]) -> None:
    """Raise `BadAdapter` unless a tensor has one of the shapes.

    None in a shape is any size.
    """
    if not any(_fits(tensor.shape, shape) for shape in shapes):
        wanted = " or ".join(map(_shown, shapes))
        raise BadAdapter(
            f"{ADAPTER_WEIGHTS}: {shortened(name, LONGEST_NAME)} has {_shown(tensor.shape)} "
            f"numbers, and this base model needs {wanted}. Use the base model that the adapter was "
            "trained on."
        )


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(
        w in (None, size) for size, w in zip(shape, wanted, strict=True)
    )


def _shown(shape: tuple[int | None, ...]) -> str:
    return " × ".join("any" if size is None else f"{size}" for size in shape) or "1"


def _parted(name: str, kinds: Collection[str]) -> tuple[str, str]:
    """Return the module of a tensor, and its kind."""
    for kind in kinds:
        if name.startswith(MODULES) and name.endswith(f".{kind}"):
            return name[len(MODULES) : -len(kind) - 1], kind
    raise BadAdapter(
        f"{ADAPTER_WEIGHTS} has the tensor {shortened(name, LONGEST_NAME)}, for which adaptlab has "
        f"no form. The tensors of such an adapter end in {' or '.join(kinds)}. Train the adapter "
        "without it."
    )
