"""Warnings of sweeps whose best value is at an end.

They say what to try next.
"""

import pytest

from adaptlab.comparisons.row_names import first_in_sentence
from adaptlab.comparisons.table_comparison import ComparedMethod, TriedTrial, sweeps_at_edge
from adaptlab.plugins.method import METHODS


def trial(
    rate: float, scale: float, loss: float | None, *, diverged: int = 0, right: float = 0.2
) -> TriedTrial:
    return TriedTrial(
        trial=0,
        learning_rate=rate,
        weight_decay=0,
        initial_scale=scale,
        seeds=5,
        chosen=0,
        diverged=diverged,
        eliminated=0,
        validation_accuracy=right,
        final_loss=loss,
    )


def swept(*sweep: TriedTrial, method: str = "lora") -> ComparedMethod:
    return ComparedMethod(
        method=method,
        label=f"{method} at 64",
        budget=64,
        role="method",
        parameters=64,
        jobs=(),
        seeds=(0, 1, 2, 3, 4),
        steps=100,
        batch_size=8,
        trials=len(sweep),
        trained_steps=100,
        sweep=sweep,
    )


RATES = (0.01, 0.1, 1.0)
SCALES = (0.02, 0.2, 2.0)


@pytest.mark.parametrize("method", METHODS.names())
def test_every_method_is_warned_of_a_rate_at_an_end(method: str) -> None:
    one = swept(*(trial(rate, 1, 1 - rate / 2) for rate in RATES), method=method)
    assert list(sweeps_at_edge(one)) == [
        f"{first_in_sentence(method)} at 64 has its lowest training loss at 1, the highest "
        "learning rate whose trials finished, so a better rate may be beyond it. Try "
        "tuning.learning_rate_range [0.01, 10]."
    ]


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ((0.5, 0.3, 0.4), None),
        ((0.5, 0.4, 0.3), "the highest whose trials finished, so a better scale may be beyond it. "
         "Add 20 to tuning.initial_scales."),
        ((0.3, 0.4, 0.5), "the lowest whose trials finished, so a better scale may be beyond it. "
         "Add 0.002 to tuning.initial_scales."),
        ((0.3, 0.3, 0.5), None),
    ],
)  # fmt: skip
def test_a_scale_at_an_end_is_warned_of(losses: tuple[float, ...], expected: str | None) -> None:
    """The rates beside it are as good at each scale, and their best is inside."""
    one = swept(
        *(
            trial(rate, scale, loss + (rate != RATES[1]))
            for scale, loss in zip(SCALES, losses, strict=True)
            for rate in RATES
        )
    )
    found = list(sweeps_at_edge(one))
    assert len(found) == (expected is not None)
    for text in found:
        assert text.startswith("LoRA at 64 has its lowest training loss at an initial scale of ")
        assert expected is not None
        assert text.endswith(expected)


def test_both_can_be_at_an_end() -> None:
    one = swept(*(trial(r, s, 9 - r - s) for r in RATES for s in SCALES))
    rate, scale = sweeps_at_edge(one)
    assert "tuning.learning_rate_range [0.01, 10]" in rate
    assert "Add 20 to tuning.initial_scales" in scale


def test_what_no_spec_can_go_beyond_is_no_end() -> None:
    rates = swept(*(trial(rate, 1, -rate) for rate in (0.1, 1, 10)))
    scales = swept(*(trial(0.1, scale, -scale) for scale in (1, 10, 100)))
    assert not [*sweeps_at_edge(rates), *sweeps_at_edge(scales)]


def test_a_scale_at_which_a_seed_diverged_does_not_count() -> None:
    trials = [trial(0.1, scale, -scale) for scale in (0.02, 0.2, 2)]
    beyond = trial(0.1, 20, None, diverged=1)
    (text,) = sweeps_at_edge(swept(*trials, beyond))
    assert "initial scale of 2, the highest whose trials finished" in text


@pytest.mark.parametrize("scales", [(1.0,), (0.1, 1.0)])
def test_fewer_than_three_are_no_sweep(scales: tuple[float, ...]) -> None:
    assert not list(sweeps_at_edge(swept(*(trial(0.1, scale, -scale) for scale in scales))))


def test_with_nothing_to_gain_there_is_nothing_to_widen() -> None:
    one = swept(*(trial(0.1, scale, -scale, right=0.995) for scale in SCALES))
    assert not list(sweeps_at_edge(one))
