"""What a run does, one phase after the other."""

from typing import Literal

Phase = Literal["training", "evaluating", "answering", "recording_attention", "transferring"]
"""It trains, scores the test items, answers the shown ones, records attention patterns, and
evaluates what it found on other base models."""
