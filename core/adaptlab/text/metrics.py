"""Metrics beside the share of right items, which is always the score."""

from typing import Literal

OtherMetric = Literal["macro_f1", "token_f1"]

MOST_CONFUSED = 32
"""Labels of a task whose confusion is kept, and macro-F1 with it; that of more is left out."""
