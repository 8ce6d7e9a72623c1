"""Members of `adapter_config.json`.

Members without a form here are refused by name.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from adaptlab.errors import BadAdapter
from adaptlab.exchange.peft_targets import Targets
from adaptlab.validation import validation_problems
from adaptlab.wording import shortened, value_excerpt

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
LONGEST_NAME = 60
_TRAIN_AGAIN = "Train the adapter without it."


class PeftMembers(BaseModel):
    """The members of a configuration that a form reads.

    Members in `ignored` do not change what a trained adapter computes. Any other member must be
    null, false or empty, because PEFT has members that do. `advice` completes the refusal of a
    member.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", allow_inf_nan=False)

    ignored: ClassVar[frozenset[str]] = frozenset()
    advice: ClassVar[Mapping[str, str]] = {}

    peft_type: str
    task_type: Literal["CAUSAL_LM"] | None = None
    base_model_name_or_path: str | None = None
    modules_to_save: list[str] | None = None
    layers_to_transform: int | list[int] | None = None
    exclude_modules: str | list[str] | None = None

    @classmethod
    def read(cls, config: Mapping[str, object]) -> Self:
        """Return the members of a configuration.

        Raises:
            BadAdapter: a member has a value that cannot be expressed; the message names it.
        """
        try:
            members = cls.model_validate(dict(config))
        except ValidationError as error:
            problem = validation_problems(error.errors(), dict(config))[0]
            name = problem.pointer.split("/")[1] if problem.pointer else ""
            advice = {"task_type": _OTHER_TASK, **cls.advice}.get(name, _TRAIN_AGAIN)
            detail = shortened(problem.detail.rstrip("."), 300)
            raise BadAdapter(
                f"{ADAPTER_CONFIG} cannot be imported: {detail}, not "
                f"{value_excerpt(config.get(name))}. {advice}"
            ) from error
        for name, value in (members.model_extra or {}).items():
            if value and name not in _ALWAYS_IGNORED | cls.ignored:
                raise BadAdapter(
                    f"{ADAPTER_CONFIG} sets {shortened(name, LONGEST_NAME)!r} to "
                    f"{value_excerpt(value)}, for which adaptlab has no form. {_TRAIN_AGAIN}"
                )
        return members


class TargetedMembers(PeftMembers):
    """The members of a configuration that names modules."""

    target_modules: str | list[str]

    def targets(self) -> Targets:
        """Return the modules that the members name."""
        layers = self.layers_to_transform
        numbers = [layers] if isinstance(layers, int) else layers
        return Targets(self.target_modules, numbers or None, self.exclude_modules)


def refuse_saved_modules(members: PeftMembers) -> None:
    """Raise `BadAdapter` if the adapter has whole modules of the base model."""
    if members.modules_to_save:
        raise BadAdapter(
            f"{ADAPTER_CONFIG} has modules_to_save, which are trained copies of modules of the "
            f"base model. adaptlab's adapters have none. {_TRAIN_AGAIN}"
        )


TARGETS_ADVICE = {"target_modules": "List the names of the adapted modules there, such as q_proj."}
_ALWAYS_IGNORED = frozenset({
    "auto_mapping", "ensure_weight_tying", "inference_mode", "layers_pattern", "peft_version",
    "revision",
})  # fmt: skip
_OTHER_TASK = "Only adapters of models that predict the next token can be imported."
