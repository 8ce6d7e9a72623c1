"""Searches for a prompt of tokens, at equal length and steps."""

from adaptlab.recipes.claim_builders import above, at_least, at_most, claim
from adaptlab.recipes.studies import Members, method, study
from adaptlab.recipes.tables import columns, row
from adaptlab.recipes.texts import (
    DECODER,
    FURTHER,
    ON_REVIEWS,
    REVIEWS,
    decoder,
    further_trained,
    reviews,
)
from adaptlab.recipes.wang2023.settings import FIXED, SAMPLES, episodes_base, wider_base
from adaptlab.reproductions.claim import ClaimRole, PaperClaim
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.studies.study import StudySpec

SOURCE = "Wen et al. (NeurIPS 2023)"
VERSION = "neurips"
TOKENS = 10
"""The paper's prompts for texts have ten tokens, too."""
TOKENS_OF_TEXTS = 20
"""Two short sentences as demonstrations need so many."""
COLUMN = "two labels"
EMPTY, RANDOM = "empty prompt", "random tokens"
AUTOPROMPT, SGD, FLUENT = "AutoPrompt", "AutoPrompt by SGD", "FluentPrompt"
PEZ, FLUENT_PEZ = "PEZ", "PEZ with fluency"
SOFT, IN_CONTEXT = "soft prompt", "two demonstrations"
GUESSING = 0.6
"""A score that guessing one of the two labels, 50 %, does not reach."""
SOURCE_BASE, WIDER = "episodes", "wider"
TRANSFERRED = "other model"
FLUENCY = 0.003
"""The weight of fluency in the paper."""


@RECIPES.register("wen2023/hard-prompts")
def hard_prompts() -> Recipe:
    """Return the recipe: ten tokens found by six methods, and carried over."""
    return Recipe(
        name="wen2023/hard-prompts",
        title="Hard prompts",
        question="Which search finds the best short prompt, and which carries over?",
        source=f"{SOURCE}, text classification",
        versions={VERSION: "NeurIPS 2023"},
        stand_ins={"quick": "a four-layer decoder trained here", "text": "SmolLM2-135M-Instruct"},
        base_models=(SOURCE_BASE, WIDER),
        presets={"quick": _quick(), "text": _text()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "The decoder of wang2023/isolation, which learns from demonstrations before a "
            "query, so tokens before a query can tell it what to do. It classifies queries by two "
            "labels that it cannot know (at best 50 % by guessing), instead of GPT-2 large on "
            "SST-2. The published figures are from a secondary source, and means of the best five "
            "prompts; here they are means of five seeds, each with its own base. 300 steps instead "
            "of 5,000, at constant rates: four for every search by gradients, three restarts of "
            "AutoPrompt, chosen on 640 validation items. The vocabulary has 138 tokens. Prompts "
            "are carried to a decoder of the same depth and width 48 that was pretrained on the "
            "same episodes; its published column is GPT2-XL. With the authors' prompts, OPT-6.7B "
            "scores 58.72 % without a prompt, 65.28 with SGD, 61.74 with FluentPrompt, 71.72 with "
            "PEZ and 72.39 with PEZ and fluency. About 8 minutes on two busy cores, and 16 more "
            "for the bases.",
            "text": "SmolLM2-135M-Instruct, restored from four bits, instead of GPT-2 large, and "
            "530 sentences of film reviews of at most about 12 tokens instead of SST-2: 40 % are "
            "test items and half train. Prompts have 20 tokens, room for two short demonstrations, "
            "instead of 10; searches by gradients take 200 steps of 16 sentences instead of 5,000, "
            "at three rates. There is one base model, so intervals are over seeds of the search. "
            "Prompts are carried to the same model after further training on longer sentences, as "
            "no second published decoder installs as a package: far closer to it than GPT2-XL is "
            "to GPT-2 large. For a GPU; not yet measured.",
        },
        needs={"text": (decoder(), further_trained(), reviews())},
    )


def _table() -> PublishedTable:
    return PublishedTable(
        title="Published: SST-2 with GPT-2 large; measured: two labels",
        source=f"{SOURCE}, source model, from a secondary source",
        columns=(
            *columns((COLUMN,), (FIXED,), instead=(ON_REVIEWS,)),
            *columns((TRANSFERRED,), (FIXED,), on=WIDER, instead=(ON_REVIEWS,)),
        ),
        rows=(
            row(EMPTY, 80.84, 73.85),
            row(RANDOM, of=RANDOM),
            row(AUTOPROMPT, of=AUTOPROMPT),
            row(SGD, 87.56, 78.19, of=SGD),
            row(FLUENT, 88.33, 78.53, of=FLUENT),
            row(PEZ, 88.12, 77.80, of=PEZ),
            row(FLUENT_PEZ, 88.05, 79.72, of=FLUENT_PEZ),
            row(IN_CONTEXT, of=IN_CONTEXT),
            row(SOFT, of=SOFT),
        ),
    )


def _claims() -> tuple[PaperClaim, ...]:
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
            "PEZ finds a better prompt than random tokens.",
            PEZ,
            RANDOM,
            role="own",
        ),
        _ahead(
            "pez-beats-autoprompt",
            "PEZ finds a better prompt than AutoPrompt, of which the paper has a variant by SGD.",
            PEZ,
            AUTOPROMPT,
            role="own",
        ),
        _carries("fluent-pez-carries-sgd", "projected SGD", FLUENT_PEZ, SGD),
        _carries("fluent-pez-carries-fluentprompt", "FluentPrompt", FLUENT_PEZ, FLUENT),
        _carries("pez-carries-sgd", "projected SGD", PEZ, SGD, role="own"),
        _carries("pez-carries-autoprompt", "AutoPrompt", PEZ, AUTOPROMPT, role="own"),
        claim(
            VERSION,
            "pez-is-not-lost",
            "Prompts of PEZ do better on another model than no prompt.",
            above(PEZ, EMPTY, TRANSFERRED, 0.0),
            role="premise",
            given=[at_least(PEZ, COLUMN, GUESSING)],
        ),
        claim(
            VERSION,
            "demonstrations-carry",
            "Two demonstrations, which take as many tokens, teach the other model the labels.",
            at_least(IN_CONTEXT, TRANSFERRED, 0.8),
            role="premise",
            given=[at_most(EMPTY, TRANSFERRED, GUESSING)],
        ),
        _ahead(
            "soft-beats-pez",
            "Rows that need not be tokens do better than those of PEZ.",
            SOFT,
            PEZ,
            role="own",
        ),
    )


def _ahead(name: str, text: str, row: str, other: str, *, role: ClaimRole = "paper") -> PaperClaim:
    """Return the claim of an order, of a method that beats guessing."""
    return claim(
        VERSION,
        name,
        text,
        above(row, other, COLUMN, 0.0),
        role=role,
        given=[at_least(row, COLUMN, GUESSING)],
    )


def _carries(
    name: str, than: str, row: str, other: str, *, role: ClaimRole = "paper"
) -> PaperClaim:
    """Return the claim that a method's prompts do better on another model.

    It counts only if both do better than guessing on their own.
    """
    fluent = " with fluency" if row == FLUENT_PEZ else ""
    return claim(
        VERSION,
        name,
        f"On another model, prompts of PEZ{fluent} do better than those of {than}.",
        above(row, other, TRANSFERRED, 0.0),
        role=role,
        given=[at_least(one, COLUMN, GUESSING) for one in (row, other)],
    )


def _searches(base: object, wide: Members, rates: Members) -> tuple[Members, ...]:
    """Return the searches on one base model."""
    only = (base,)
    return (
        method(RANDOM, "random_prompt", base_models=only),
        method(AUTOPROMPT, "autoprompt", base_models=only, tuning={"trials": 3}),
        method(SGD, "autoprompt_sgd", base_models=only, tuning=wide),
        method(FLUENT, "fluentprompt", base_models=only, fluency=FLUENCY, tuning=wide),
        method(PEZ, "pez", base_models=only, tuning=rates),
        method(FLUENT_PEZ, "pez", base_models=only, fluency=FLUENCY, tuning=rates),
    )


def _quick() -> StudySpec:
    source = episodes_base()["name"]
    wide: Members = {"learning_rates": [0.3, 1.0, 3.0, 10.0]}
    rates: Members = {"learning_rates": [0.1, 0.3, 1.0, 3.0]}
    soft: Members = {"learning_rates": [0.03, 0.1, 0.3, 1.0]}
    return study(
        "wen2023-hard-prompts",
        bases=[episodes_base(), wider_base()],
        tasks=[FIXED],
        methods=(
            *_searches(source, wide, rates),
            method(IN_CONTEXT, "in_context", base_models=(source,), demonstrations=2),
            method(SOFT, "soft_prompt", base_models=(source,), tuning=soft),
        ),
        budget={"context_tokens": TOKENS},
        training={"steps": 300, "batch_size": 32, "schedule": "constant"},
        tuning={"validation_samples": 640},
        evaluation={
            "tasks": (FIXED,),
            "samples": SAMPLES,
            "base_models": (wider_base()["name"],),
        },
    )


def _text() -> StudySpec:
    rates: Members = {"learning_rates": [0.3, 1.0, 3.0]}
    return study(
        "wen2023-hard-prompts-text",
        bases=(DECODER, FURTHER),
        tasks=[REVIEWS],
        methods=(
            method(EMPTY, "frozen"),
            *_searches(DECODER, {"learning_rates": [1.0, 3.0, 10.0]}, rates),
            method(
                IN_CONTEXT,
                "in_context",
                base_models=(DECODER,),
                demonstrations=2,
                longest=TOKENS_OF_TEXTS // 2,
                separator="\n",
            ),
            method(
                SOFT,
                "soft_prompt",
                base_models=(DECODER,),
                initialisation="vocabulary",
                tuning={"learning_rates": [3e-3, 1e-2, 3e-2]},
            ),
        ),
        budget={"context_tokens": TOKENS_OF_TEXTS},
        training={"steps": 200, "batch_size": 16, "schedule": "constant"},
        tuning={"validation_samples": 640},
        samples=SAMPLES,
        evaluation={"tasks": (REVIEWS,), "samples": SAMPLES, "base_models": (FURTHER,)},
    )
