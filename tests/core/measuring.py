"""A small recipe, and what a study of it is made up to have measured."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.core.scoring import scores

from adaptlab.reproductions.claim import (
    ClaimTest,
    PaperClaim,
    RowSelector,
    ScoreAtLeast,
    ScoreAtMost,
    Wording,
)
from adaptlab.reproductions.recipe import (
    PublishedTable,
    Recipe,
    TableColumn,
    TableRow,
    chosen,
    score,
)
from adaptlab.reproductions.recipe_results import (
    RecipeMeasurements,
    RecipeRow,
    SeedLoss,
    TrialScore,
)
from adaptlab.runs.events import ReplicateStatus
from adaptlab.statistics import Scores
from adaptlab.studies.study import StudySpec

ITEMS = 400
UP = {"name": "sort_ascending", "length": 3, "alphabet": 4, "few_distinct": True}
DOWN = {"name": "sort_descending", "length": 3, "alphabet": 4, "few_distinct": True}
IS_NEW = ScoreAtMost(row="base", column="descending", value=0.1)
CAN_BE_LEARNED = ScoreAtLeast(row="full", column="descending", value=0.8)
FAILS = ScoreAtMost(row="prefix", column="descending", value=0.01)


AT_REST: dict[str, Any] = {
    "schedule": "constant",
    "losses": tuple(SeedLoss(seed, 1.0, 1.0) for seed in range(5)),
}
"""Of a row that had trained until nothing changed."""


def a_recipe_document(**changes: Any) -> dict[str, Any]:
    """Return a recipe of one table.

    The table has a base model on its own, a prefix, and a control that is new.
    """
    columns = [TableColumn(label=way, task=chosen(f"sort_{way}")) for way in ("ascending",)]
    columns += [TableColumn(label="descending", task=chosen("sort_descending", length=3))]
    rows = [
        TableRow(label="base", of=RowSelector(), published=(score(91, 5), score(0, 0))),
        TableRow(label="prefix", of=RowSelector(method="prefix"), published=(None, score(0, 0))),
        TableRow(label="full", of=RowSelector(base_model="up", method="full")),
    ]
    table = PublishedTable(
        title="Table 0", source="nowhere", seeds=10, columns=tuple(columns), rows=tuple(rows)
    )
    return {
        "name": "tests/small",
        "title": "A small recipe",
        "question": "Does it?",
        "source": "nowhere",
        "versions": {"arxiv_v1": "arXiv v1", "iclr": "ICLR"},
        "base_models": ("up",),
        "presets": {"quick": a_study()},
        "tables": (table,),
        "claims": (a_claim_of(FAILS),),
        "notes": {"quick": "Smaller than anything."},
    } | changes


def a_recipe(*tests: ClaimTest, **changes: Any) -> Recipe:
    """The small recipe, with a claim for each of the tests."""
    given = (IS_NEW, CAN_BE_LEARNED)
    claims = tuple(
        a_claim_of(test, f"claim-{place}", given=given) for place, test in enumerate(tests)
    )
    return Recipe.model_validate(
        a_recipe_document(**({"claims": claims} if claims else {}) | changes)
    )


def a_claim_of(test: ClaimTest, name: str = "claim", **changes: Any) -> PaperClaim:
    """Return a claim that a test decides.

    It has the controls that a success and a failure need.
    """
    given = {"given": (IS_NEW,), "controls": (CAN_BE_LEARNED,)}
    wordings = {"iclr": Wording(text="It does.", test=test)}
    return PaperClaim(id=name, wordings=wordings, **(given | changes))


def a_study(**changes: Any) -> StudySpec:
    """The study of the small recipe."""
    return StudySpec.model_validate(
        {
            "name": "small",
            "base_models": [{"name": "up-quick", "family": "minigpt", "task": "sort_ascending"}],
            "tasks": ["sort_descending"],
            "methods": [{"name": "prefix_tuning", "label": "prefix"}],
            "budgets": [96],
        }
        | changes
    )


def right(*counts: int, items: int = ITEMS) -> Scores:
    """Return scores of as many seeds as there are counts.

    Each seed has its first so many items right.
    """
    return scores([[item < count for item in range(items)] for count in counts])


def a_row(method: str | None = "prefix", **changes: Any) -> RecipeRow:
    """A row of three seeds that were asked for; nothing of it is measured yet."""
    row = RecipeRow(
        base_model="up", method=method, task=None if method is None else DOWN, seeds=(0, 1, 2)
    )
    return replace(row, **changes)


def on_descending(*counts: int, method: str | None = "prefix", **changes: Any) -> RecipeRow:
    """Return a row that was scored on descending order alone.

    There is one count of right items per seed.
    """
    seeds = tuple(range(len(counts)))
    return a_row(method, **{"seeds": seeds, "scores": ((DOWN, right(*counts)),), **changes})


def trials(
    counts: Sequence[Sequence[int | None]],
    total: int = 640,
    status: ReplicateStatus = "completed",
) -> tuple[TrialScore, ...]:
    """Trials by seed and rate; None has no score."""
    return tuple(
        TrialScore(seed, 10.0 ** (place - 4), status, count, total)
        for seed, of_seed in enumerate(counts)
        for place, count in enumerate(of_seed)
    )


def measured(*rows: RecipeRow) -> RecipeMeasurements:
    """What a study has measured."""
    return RecipeMeasurements(rows=rows)
