"""Charts as Vega-Lite specifications for pages, notebooks and image files.

A specification is plain JSON without expressions, so a page can render it with Vega's interpreter
instead of `eval`. Names of tasks, methods and tokens only occur as data.
"""

from adaptlab.charts.attention_steps import attention_step
from adaptlab.charts.budgets import score_against_budget
from adaptlab.charts.curves import AxisScale, learning_curves
from adaptlab.charts.differences import better_first, pairwise_differences
from adaptlab.charts.frame import SCHEMA, VEGA_LITE, Chart, Json, Theme
from adaptlab.charts.group_means import GroupMean, group_means
from adaptlab.charts.head_grids import HeadPattern, head_grid
from adaptlab.charts.heat_maps import AttentionPattern, attention_patterns
from adaptlab.charts.pictures import png, svg
from adaptlab.charts.ranks import possible_ranks
from adaptlab.charts.sweeps import SweepPoint, rate_sweeps

__all__ = [
    "SCHEMA",
    "VEGA_LITE",
    "AttentionPattern",
    "AxisScale",
    "Chart",
    "GroupMean",
    "HeadPattern",
    "Json",
    "SweepPoint",
    "Theme",
    "attention_patterns",
    "attention_step",
    "better_first",
    "group_means",
    "head_grid",
    "learning_curves",
    "pairwise_differences",
    "png",
    "possible_ranks",
    "rate_sweeps",
    "score_against_budget",
    "svg",
]
