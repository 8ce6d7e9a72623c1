"""Forward and backward passes of methods, counted by hand."""

import pytest

from adaptlab.families.minigpt import MiniGPT
from adaptlab.plugins.method import METHODS

SHAPE = MiniGPT(layers=2, heads=2, width=8).resolved(20, 30).shape()
STEPS = 9


@pytest.mark.parametrize(
    ("name", "knobs", "passes"),
    [
        ("frozen", {}, (0, 0)),
        ("random_prompt", {"length": 2}, (0, 0)),
        ("in_context", {"demonstrations": 2, "longest": 4}, (0, 0)),
        ("lora", {"rank": 1}, (9, 9)),
        ("soft_prompt", {"length": 2}, (9, 9)),
        ("autoprompt_sgd", {"length": 2}, (9, 9)),
        ("pez", {"length": 2}, (9, 9)),
        ("pez", {"length": 2, "fluency": 0.1}, (18, 18)),
        ("autoprompt", {"length": 2, "candidates": 5, "accumulation": 2}, (9 + 3 * 5, 9)),
        ("autoprompt", {"length": 2, "candidates": 64}, (9 + 4 * 20, 9)),
        ("exhaustive", {"length": 1}, (9 + 20, 9)),
    ],
)
def test_passes_are_those_of_steps_and_of_what_is_tried(
    name: str, knobs: dict[str, object], passes: tuple[int, int]
) -> None:
    assert METHODS.get(name).model_validate({"name": name, **knobs}).passes(STEPS, SHAPE) == passes
