"""Searches for a prompt of tokens, at equal length and steps."""

from adaptlab.recipes.claims import above, at_least, claim
from adaptlab.recipes.studies import Members, method, study
from adaptlab.recipes.tables import columns, row
from adaptlab.recipes.wang2023.settings import FIXED, SAMPLES, episodes_base
from adaptlab.reproductions.claim import Claim
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.studies.study import StudySpec

SOURCE = "Wen et al. (NeurIPS 2023)"
VERSION = "neurips"
TOKENS = 10
"""The paper's prompts for texts have ten tokens, too."""
COLUMN = "two labels"
EMPTY, RANDOM = "empty prompt", "random tokens"
AUTOPROMPT, SGD, FLUENT = "AutoPrompt", "AutoPrompt by SGD", "FluentPrompt"
PEZ, FLUENT_PEZ = "PEZ", "PEZ with fluency"
SOFT = "soft prompt"
GUESSING = 0.6
"""A score that guessing one of the two labels, 50 %, does not reach."""
FLUENCY = 0.003
"""The weight of fluency in the paper."""


@RECIPES.register("wen2023/hard-prompts")
def hard_prompts() -> Recipe:
    """Return the recipe: ten tokens found by six methods."""
    return Recipe(
        name="wen2023/hard-prompts",
        title="Hard prompts",
        question="Which search finds the best prompt of ten tokens?",
        source=f"{SOURCE}, text classification",
        versions={VERSION: "NeurIPS 2023"},
        base_models=("episodes",),
        presets={"quick": _quick()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "The decoder of wang2023/isolation, which learns from demonstrations before a "
            "query, so tokens before a query can tell it what to do. It classifies queries by two "
            "labels that it cannot know (at best 50 % by guessing), instead of GPT-2 large on "
            "SST-2. The published figures are from a secondary source, and means of the best five "
            "prompts; here they are means of five seeds, each with its own base. 300 steps instead "
            "of 5,000, at constant rates: four for every search by gradients, three restarts of "
            "AutoPrompt, chosen on 640 validation items. The vocabulary has 138 tokens. The "
            "paper's main claim, that prompts of PEZ transfer better to other models, is not "
            "tested: prompts cannot be evaluated on another base here. About 8 minutes on two "
            "busy cores, and 6 more for the base.",
        },
    )


def _table() -> PublishedTable:
    return PublishedTable(
        title="Published: SST-2 with GPT-2 large; measured: two labels on a small decoder",
        source=f"{SOURCE}, source model, from a secondary source",
        columns=columns((COLUMN,), (FIXED,)),
        rows=(
            row(EMPTY, 80.84),
            row(RANDOM, of=RANDOM),
            row(AUTOPROMPT, of=AUTOPROMPT),
            row(SGD, 87.56, of=SGD),
            row(FLUENT, 88.33, of=FLUENT),
            row(PEZ, 88.12, of=PEZ),
            row(FLUENT_PEZ, 88.05, of=FLUENT_PEZ),
            row(SOFT, of=SOFT),
        ),
    )


def _claims() -> tuple[Claim, ...]:
    return (
        _ahead("pez-beats-empty", "PEZ finds a better prompt than none.", PEZ, EMPTY),
        _ahead("pez-beats-sgd", "PEZ finds a better prompt than projected SGD.", PEZ, SGD),
        _ahead(
            "fluent-pez-beats-sgd",
            "PEZ with a term for fluency finds a better prompt than projected SGD.",
            FLUENT_PEZ,
            SGD,
        ),
        _ahead(
            "fluentprompt-beats-sgd",
            "FluentPrompt finds a better prompt than projected SGD.",
            FLUENT,
            SGD,
        ),
        _ahead(
            "pez-beats-random",
            "Not tested in the paper: PEZ finds a better prompt than random tokens.",
            PEZ,
            RANDOM,
            in_paper=False,
        ),
        _ahead(
            "pez-beats-autoprompt",
            "Not tested in the paper, which has only a variant of it by SGD: PEZ finds a better "
            "prompt than AutoPrompt.",
            PEZ,
            AUTOPROMPT,
            in_paper=False,
        ),
        _ahead(
            "soft-beats-pez",
            "Not claimed: rows that need not be tokens do better than those of PEZ.",
            SOFT,
            PEZ,
            in_paper=False,
        ),
    )


def _ahead(name: str, text: str, row: str, other: str, *, in_paper: bool = True) -> Claim:
    """Return the claim of an order, of a method that beats guessing."""
    return claim(
        VERSION,
        name,
        text,
        above(row, other, COLUMN, 0.0),
        in_paper=in_paper,
        given=[at_least(row, COLUMN, GUESSING)],
    )


def _quick() -> StudySpec:
    wide: Members = {"learning_rates": [0.3, 1.0, 3.0, 10.0]}
    rates: Members = {"learning_rates": [0.1, 0.3, 1.0, 3.0]}
    return study(
        "wen2023-hard-prompts",
        bases=[episodes_base()],
        tasks=[FIXED],
        methods=(
            method(RANDOM, "random_prompt"),
            method(AUTOPROMPT, "autoprompt", tuning={"trials": 3}),
            method(SGD, "autoprompt_sgd", tuning=wide),
            method(FLUENT, "fluentprompt", fluency=FLUENCY, tuning=wide),
            method(PEZ, "pez", tuning=rates),
            method(FLUENT_PEZ, "pez", fluency=FLUENCY, tuning=rates),
            method(SOFT, "soft_prompt", tuning={"learning_rates": [0.03, 0.1, 0.3, 1.0]}),
        ),
        budget={"context_tokens": TOKENS},
        samples=SAMPLES,
        training={"steps": 300, "batch_size": 32, "schedule": "constant"},
        tuning={"validation_samples": 640},
    )
