"""From a spec of theory checks to what will run."""

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.families.formal import Formal
from adaptlab.resolve import NO_TRAINING, BaseModelFacts, configured, load_family, whole_model
from adaptlab.spec import ResolvedSpec, TheorySpec
from adaptlab.theory_check import THEORY_CHECKS, TheoryCheck

BUILT = Formal(vocabulary=4, context=4)
"""Stands for the models that checks build by formula, where there is no base model."""


def resolve_theory(spec: TheorySpec, base: BaseModelFacts | None) -> ResolvedSpec:
    """The checks that `spec` asks for, of the base model that `base` describes, if any.

    Raises `InvalidSpec` for a check that there is not, or that cannot be done.
    """
    family = BUILT if base is None else load_family(base.family)
    checks = _all(base) if spec.checks == "all" else _chosen(spec, base)
    return ResolvedSpec(
        kind="theory",
        base_model=None if base is None else base.name,
        base_digest=None if base is None else base.digest,
        checks=tuple(check.model_dump(mode="json") for check in checks),
        family=family.model_dump(mode="json"),
        task=None,
        method=None,
        budget=whole_model(family.shape()).model_copy(
            update={"trainable_parameters": 0, "stored_bytes": 0, "tensors": {}}
        ),
        training=NO_TRAINING,
        validation_samples=0,
        seeds=(spec.seed,),
        base_replicates=() if base is None else (0,),
        evaluation_tasks=(),
        evaluation_samples=0,
        attention=None,
    )


def load_check(check: dict[str, object]) -> TheoryCheck:
    """The configuration of a theory check as it was stored."""
    return THEORY_CHECKS.get(str(check["name"])).model_validate(check)


def _all(base: BaseModelFacts | None) -> tuple[TheoryCheck, ...]:
    """Every check that can be done, with its own defaults."""
    known = [THEORY_CHECKS.get(name)(name=name) for name in THEORY_CHECKS.names()]
    return tuple(check for check in known if not _faults(check, base))


def _chosen(spec: TheorySpec, base: BaseModelFacts | None) -> tuple[TheoryCheck, ...]:
    checks: list[TheoryCheck] = []
    faults: list[Problem] = []
    assert spec.checks != "all"
    for index, choice in enumerate(spec.checks):
        pointer = f"/checks/{index}"
        check = configured(THEORY_CHECKS.get(choice.name, f"{pointer}/name"), choice, pointer)
        checks.append(check)
        faults += _faults(check, base)
    if faults:
        raise InvalidSpec(*faults)
    return tuple(checks)


def _faults(check: TheoryCheck, base: BaseModelFacts | None) -> tuple[Problem, ...]:
    """Why a check cannot be done."""
    if not check.needs_base:
        return ()
    if base is None:
        detail = f"The check {check.name!r} measures a base model; name one in base_model."
        return (Problem("/base_model", "base_model_needed", detail),)
    return check.problems(load_family(base.family))
