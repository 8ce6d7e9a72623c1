"""Checks of tensor shapes, and the calls that they refuse.

Only tests pay for the checks.
"""

import inspect
import subprocess
import sys

import pytest
import torch
from jaxtyping import Float, TypeCheckError
from tests.shapes import checked
from torch import Tensor

from adaptlab.engine.items.items import Items
from adaptlab.engine.kernels.grouped import scale
from adaptlab.engine.plugins import ENGINE_FAMILIES

WITHOUT_TESTS = """
import sys, torch
from adaptlab.engine.kernels.grouped import scale
print([*scale(torch.ones(2, 5, 4), torch.ones(2, 1)).shape])
print({"beartype", "jaxtyping"} & sys.modules.keys())
"""


def test_a_wrong_shape_is_refused_where_torch_would_broadcast() -> None:
    x, weight = torch.ones(2, 5, 4), torch.ones(2, 1)

    with pytest.raises(TypeCheckError, match=r"adaptlab\.engine\.kernels\.grouped\.scale"):
        scale(x, weight)

    assert scale(x, torch.ones(2, 4)).shape == (2, 5, 4)
    assert inspect.unwrap(scale)(x, weight).shape == (2, 5, 4)  # without the check


def test_a_wrong_shape_of_a_result_is_refused() -> None:
    @checked
    def every_other(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:  # noqa: F821 - a shape
        return x[::2]

    assert every_other(torch.ones(1)).shape == (1,)
    with pytest.raises(TypeCheckError, match="the return value"):
        every_other(torch.ones(2))


def test_a_wrong_shape_or_dtype_in_a_dataclass_is_refused() -> None:
    tokens, targets = torch.zeros(1, 2, 3).long(), torch.zeros(1, 5, 1).long()

    with pytest.raises(TypeCheckError, match="targets"):
        Items(tokens, targets)
    with pytest.raises(TypeCheckError, match="tokens"):
        Items(tokens.float(), targets[:, :2])


def test_a_shape_that_was_right_does_not_excuse_another() -> None:
    scale(torch.ones(2, 5, 4), torch.ones(2, 4))

    with pytest.raises(TypeCheckError):
        scale(torch.ones(2, 5, 3), torch.ones(2, 4))


def test_registered_functions_are_checked() -> None:
    forward = inspect.getclosurevars(ENGINE_FAMILIES.get("formal")).nonlocals

    assert "strict" in forward


@pytest.mark.long("long trainings")
def test_an_installation_checks_nothing_and_needs_no_checker() -> None:
    command = [sys.executable, "-c", WITHOUT_TESTS]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)

    assert answer.stdout == "[2, 5, 4]\nset()\n"
