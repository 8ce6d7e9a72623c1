"""Shared parts of this paper's recipes."""

from collections.abc import Sequence

from adaptlab.recipes.claim_builders import at_least, at_most, claim, holds
from adaptlab.recipes.studies import SEEDS, Members, base, method, study
from adaptlab.recipes.tables import columns, row
from adaptlab.recipes.texts import DECODER, ON_REVIEWS, REVIEWS, decoder, reviews
from adaptlab.reproductions.claim import ClaimRole, PaperClaim, PlainTest, Preset
from adaptlab.reproductions.preset_needs import Need
from adaptlab.reproductions.recipe import PublishedTable, TableRow
from adaptlab.studies.study import StudySpec

SOURCE = "Wang et al. (EMNLP 2023)"
VERSION = "emnlp"
VERSIONS = {VERSION: "EMNLP 2023"}
BASE, IN_CONTEXT = "pretrained base", "in-context, 4 demonstrations"
IN_CONTEXT_SIX = "in-context, 6 demonstrations"
ALONE = "base alone"
RIGHT, PERMUTED, QUERY = "right labels", "permuted labels", "query alone"

EPISODES: Members = {"name": "episodes", "labels": "random"}
"""The task that checks have by default."""
CONTROL: Members = {"name": "episodes", "labels": "permuted"}
FIXED: Members = {"name": "episodes", "shots": 0, "labels": "fixed", "map_seed": 2}
"""A query without demonstrations; its labels are drawn once, so no base can know them."""
SCORED = (EPISODES, CONTROL, FIXED)
SAMPLES = 1000
SAMPLES_OF_TEXTS = 100
"""Checks compute in float64 on the CPU, where each review takes a second per pass."""
SHOWN: Members = {"demonstrations": 4, "longest": 16, "separator": "\n"}
"""Demonstrations of reviews, two of each label."""
GLOSSES_SHOWN: Members = {**SHOWN, "demonstrations": 6}
"""Demonstrations of glosses, one of each label."""
SETS = 5
"""Sets of demonstrations, which take the place of seeds of the base."""
USES_DEMONSTRATIONS: tuple[PlainTest, ...] = (
    at_least(BASE, RIGHT, 0.8),
    at_most(BASE, PERMUTED, 0.6),
)
"""Premises of every claim about label words; two ways have a chance of 50 %."""
STAND_INS: dict[Preset, str] = {
    "quick": "a four-layer decoder of width 32 trained here on episodes",
    "text": "SmolLM2-135M-Instruct",
}
QUICK_NOTE = (
    "A decoder of four layers and width 32, pretrained here in five seeds on episodes of two "
    "classes with two demonstrations each, instead of GPT2-XL (48 layers) and GPT-J on SST-2, "
    "TREC, AGNews and EmoC with one. With them, GPT2-XL scores 61.28, 57.56, 73.32 and 15.44 % in "
    "the paper, the last below the 25 % of guessing one of four labels. Here, no claim about label "
    "words counts unless every seed is above chance, and lower with permuted labels. "
)


TEXT_MODEL = (
    "SmolLM2-135M-Instruct (30 layers), restored from four bits, instead of GPT2-XL and GPT-J, and "
)
TEXT_PREMISE = (
    "No claim about label words counts unless every set is above chance, and worse with permuted "
    "labels. "
)
TEXT_NOTE = (
    f"{TEXT_MODEL}530 sentences of film reviews of at most about 12 tokens instead of SST-2: 100 "
    "test items, each with two demonstrations of each label, in five sets. There is one base "
    "model, so limits are over sets of demonstrations and items. The formatting is the token "
    "before each label, `was`, and the line break after it. "
    f"{TEXT_PREMISE}Not yet measured. "
)
NEEDS: tuple[Need, ...] = (decoder(), reviews())
"""What the presets on texts take from outside."""


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


def text(
    name: str,
    check: Members,
    *further: Members,
    task: Members = REVIEWS,
    shown: Members = SHOWN,
    ending: str = "",
    training: Members | None = None,
) -> StudySpec:
    """Return the study of in-context learning on texts with one check.

    It has `further` methods. `shown` are the demonstrations, and `ending` ends the labels of the
    other methods.
    """
    measured: Members = {
        "label": check["name"],
        "task": task,
        "in_context": shown,
        "demonstration_sets": SETS,
        "samples": SAMPLES_OF_TEXTS,
    }
    in_context = f"{IN_CONTEXT if shown is SHOWN else IN_CONTEXT_SIX}{ending}"
    context = int(str(shown["demonstrations"])) * int(str(shown["longest"]))
    alone = method(f"{ALONE}{ending}", "frozen")
    return study(
        f"{name}-text",
        bases=[DECODER],
        tasks=[task],
        methods=[alone, method(in_context, "in_context", **shown), *further],
        budget={"context_tokens": context},
        samples=SAMPLES,
        checks=({**check, **measured},),
        training=training or {},
    )


def accuracies(*further: TableRow) -> tuple[PublishedTable, ...]:
    """Return the tables of accuracies, to be read next to the check.

    In-context learning has `further` rows.
    """
    source = "not in the paper, whose figures are curves without numbers, on other data"
    return (
        PublishedTable(
            title="Accuracy of the base alone",
            source=source,
            columns=(
                *columns((RIGHT, PERMUTED), SCORED[:2]),
                *columns((QUERY,), SCORED[2:], instead=(ON_REVIEWS,)),
            ),
            rows=(row(BASE),),
        ),
        PublishedTable(
            title="Accuracy of in-context learning on the query alone",
            source=source,
            columns=columns((QUERY,), (FIXED,), instead=(ON_REVIEWS,)),
            rows=(row(IN_CONTEXT, of=IN_CONTEXT), *further),
        ),
    )


def on_label_words(
    check: str, report: str, name: str, text: str, *, role: ClaimRole = "paper"
) -> PaperClaim:
    """Return a claim that a report of the check decides.

    It counts only if the base uses demonstrations.
    """
    used = used_on_texts(check)
    return claim(
        VERSION,
        name,
        text,
        holds(check, f"{check}.{report}"),
        role=role,
        given=[*USES_DEMONSTRATIONS, used[0]],
        on_texts=used,
    )


def used_on_texts(check: str) -> list[PlainTest]:
    """Return the tests of the check that the base uses demonstrations."""
    return [holds(check, f"{check}.{premise}") for premise in ("above-chance", "permuted")]


def in_context_claims(check: str | None = None) -> Sequence[PaperClaim]:
    """Return claims that the base uses demonstrations, in every recipe.

    On texts, the recipe's check decides it.
    """
    on_texts = () if check is None else (_claim_on_texts(check),)
    return (
        *on_texts,
        claim(
            VERSION,
            "demonstrations-are-used",
            "The model answers by the demonstrations, and falls to chance if their labels are "
            "permuted.",
            *USES_DEMONSTRATIONS,
            role="premise",
            presets=("quick",),
        ),
        claim(
            VERSION,
            "in-context-learning-works",
            "Four demonstrations make the model answer queries whose labels it cannot know.",
            at_least(IN_CONTEXT, QUERY, 0.8),
            role="premise",
            given=[at_most(BASE, QUERY, 0.6)],
            presets=("quick",),
        ),
    )


def _claim_on_texts(check: str) -> PaperClaim:
    return claim(
        VERSION,
        "demonstrations-are-used-on-texts",
        "With demonstrations, the model answers above chance, and worse if their labels are "
        "permuted.",
        *used_on_texts(check),
        role="premise",
        presets=("text",),
    )
