"""Shared parts of this paper's recipes."""

from collections.abc import Sequence

from adaptlab.recipes.claims import at_least, at_most, claim, holds
from adaptlab.recipes.studies import SEEDS, Members, base, method, study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import Claim, PlainTest
from adaptlab.reproductions.recipe import PublishedTable
from adaptlab.studies.study import StudySpec

SOURCE = "Wang et al. (EMNLP 2023)"
VERSION = "emnlp"
VERSIONS = {VERSION: "EMNLP 2023"}
BASE, IN_CONTEXT = "pretrained on episodes", "in-context, 4 demonstrations"
RIGHT, PERMUTED, QUERY = "right labels", "permuted labels", "query alone"

EPISODES: Members = {"name": "episodes", "labels": "random"}
"""The task that checks have by default."""
CONTROL: Members = {"name": "episodes", "labels": "permuted"}
FIXED: Members = {"name": "episodes", "shots": 0, "labels": "fixed", "map_seed": 2}
"""A query without demonstrations; its labels are drawn once, so no base can know them."""
SCORED = (EPISODES, CONTROL, FIXED)
SAMPLES = 1000
USES_DEMONSTRATIONS: tuple[PlainTest, ...] = (
    at_least(BASE, RIGHT, 0.8),
    at_most(BASE, PERMUTED, 0.6),
)
"""Premises of every claim about label words; two ways have a chance of 50 %."""
QUICK_NOTE = (
    "A decoder of four layers and width 32, pretrained here in five seeds on episodes of two "
    "classes with two demonstrations each, instead of GPT2-XL (48 layers) and GPT-J on SST-2, "
    "TREC, AGNews and EmoC with one. With them, GPT2-XL scores 61.28, 57.56, 73.32 and 15.44 % in "
    "the paper, the last below the 25 % of guessing one of four labels. Here, no claim about label "
    "words counts unless every seed is above chance, and lower with permuted labels. "
)


def episodes_base() -> Members:
    """Return a small decoder that learns from demonstrations."""
    return base(
        "wang2023-episodes-4l-quick",
        {"layers": 4, "heads": 4, "width": 32},
        EPISODES,
        {"steps": 4000, "batch_size": 32, "learning_rate": 3e-3, "validations": 5},
        seeds=SEEDS,
        scored=SCORED,
        samples=SAMPLES,
    )


def wider_base() -> Members:
    """Return another decoder of that kind, to which prompts are carried."""
    return base(
        "wang2023-episodes-4l-wider",
        {"layers": 4, "heads": 4, "width": 48},
        EPISODES,
        {"steps": 4000, "batch_size": 32, "learning_rate": 2e-3, "validations": 5},
        seeds=SEEDS,
        scored=SCORED,
        samples=SAMPLES,
    )


def quick(name: str, check: Members) -> StudySpec:
    """Return the study of in-context learning with one check of the base."""
    return study(
        name,
        bases=[episodes_base()],
        tasks=[FIXED],
        methods=[method(IN_CONTEXT, "in_context", demonstrations=4)],
        budget={"context_tokens": 20},
        samples=SAMPLES,
        checks=({**check, "samples": SAMPLES},),
    )


def accuracies() -> tuple[PublishedTable, ...]:
    """Return the tables of accuracies, to be read next to the check."""
    source = "not in the paper, whose figures are curves without numbers, on other data"
    return (
        PublishedTable(
            title="Accuracy on episodes",
            source=source,
            columns=columns((RIGHT, PERMUTED, QUERY), SCORED),
            rows=(row(BASE),),
        ),
        PublishedTable(
            title="Accuracy of in-context learning on the query alone",
            source=source,
            columns=columns((QUERY,), (FIXED,)),
            rows=(row(IN_CONTEXT, of=IN_CONTEXT, task=FIXED),),
        ),
    )


def on_label_words(
    check: str, report: str, name: str, text: str, *, in_paper: bool = True
) -> Claim:
    """Return a claim that a report of the check decides.

    It counts only if the base uses demonstrations.
    """
    return claim(
        VERSION,
        name,
        text,
        holds(check, f"{check}.{report}"),
        in_paper=in_paper,
        given=[*USES_DEMONSTRATIONS, holds(check, f"{check}.above-chance")],
    )


def in_context_claims() -> Sequence[Claim]:
    """Return claims that the base uses demonstrations, in every recipe."""
    return (
        claim(
            VERSION,
            "demonstrations-are-used",
            "Not claimed, and needed for all else: the model answers by the demonstrations, and "
            "falls to chance if their labels are permuted.",
            *USES_DEMONSTRATIONS,
            in_paper=False,
        ),
        claim(
            VERSION,
            "in-context-learning-works",
            "Not claimed: four demonstrations make the model answer queries whose labels it cannot "
            "know.",
            at_least(IN_CONTEXT, QUERY, 0.8),
            in_paper=False,
            given=[at_most(BASE, QUERY, 0.6)],
        ),
    )
