"""Appendix C: words of a language that the base model has not learned."""

from adaptlab.claim import Claim, EveryTrialAtMost
from adaptlab.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.recipes.petrov2024.settings import (
    FULL,
    GPU,
    INITIAL_SCALES,
    LORA,
    PREFIX,
    PREFIX_RANGE,
    QUICK_RANGE,
    QUICK_RATES,
    RATES,
    SCRATCH,
    SMALL_START,
    SOURCE,
    STARTS,
    Members,
    above,
    at_least,
    at_most,
    claim,
    columns,
    constant,
    method,
    one_rate,
    prefix,
    row,
    study,
    within,
)
from adaptlab.recipes.petrov2024.words import (
    QUICK_WORDS,
    ROWS,
    either,
    german,
    quick_scored,
    quick_translator,
    spanish,
    translator,
)
from adaptlab.study import StudySpec

GERMAN, BOTH = "German", "German and Spanish"
SPANISH = "Spanish"
SITES = ("attn.q", "attn.v", "attn.o", "mlp", "unembed")
"""The published code's LoRA counts its fused Q, K, V once, as two matrices of width × width do."""


@RECIPES.register("petrov2024/translation")
def translation() -> Recipe:
    """Spanish words by a prefix and by LoRA, on a model that learned German ones."""
    return Recipe(
        name="petrov2024/translation",
        title="Words of a new language",
        question="Can a prefix make a model that translates to German translate to Spanish?",
        source=f"{SOURCE}, appendix C and discussion",
        base_models=(GERMAN, BOTH),
        presets={"quick": _quick(), "faithful": _faithful(), "fair": _fair()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "256 words of at most 8 letters of the generated list, on four layers of "
            "width 64. Prefix and LoRA have the paper's 66 rows and rank 4, of 16,896 and 16,864 "
            "parameters, 4 learning rates and equal steps; in pretraining there were 8 pads. Full "
            "fine-tuning has one rate. Beside it, a model that has seen both languages without a "
            "cue, where Spanish is a known skill. About 18 minutes on two cores.",
            "faithful": "The paper's sizes, rates and steps; LoRA of rank 4 at the paper's number "
            "of parameters, on q and v instead of the fused q, k and v. The paper's word list has "
            "no licence that we know, so the words are those of the generated list, of the same "
            "number; import a real one and clone the study with it. Every score is of the model "
            "with its prefix attached, which the published code's of the prefix is not. The model "
            "of both languages is not in the paper. For a GPU.",
            "fair": "Equal steps and 8 learning rates for every method, prefixes from 5e-5, the "
            "paper's, to 0.5 and from three scales, full fine-tuning and a model from scratch. For "
            "a GPU.",
        },
    )


def _table() -> PublishedTable:
    controls = (FULL, SCRATCH, SMALL_START, STARTS)
    return PublishedTable(
        title="Words remembered",
        source=f"{SOURCE}, discussion with reviewers: no figure for the prefix, which fails",
        columns=columns((GERMAN, SPANISH), (german(), spanish())),
        rows=(
            row("pretrained on German"),
            row(PREFIX, of=PREFIX, on=GERMAN),
            row(LORA, None, 94, of=LORA, on=GERMAN),
            *(row(label, of=label, on=GERMAN) for label in controls),
            row("pretrained on both", on=BOTH),
            row(f"{PREFIX}, Spanish known", of=PREFIX, on=BOTH),
        ),
    )


def _claims() -> tuple[Claim, ...]:
    return (
        claim(
            "base-translates-to-german",
            "The base model remembers almost all German words, and no Spanish ones.",
            at_least("pretrained on German", GERMAN, 0.9),
            at_most("pretrained on German", SPANISH, 0.1),
        ),
        claim(
            "prefix-fails",
            "A prefix may not be able to teach the words of another language.",
            at_most(PREFIX, SPANISH, 0.1),
            arxiv_v1=(
                "A prefix cannot teach the words of another language.",
                (EveryTrialAtMost(row=PREFIX, value=0.1, trials=QUICK_RATES),),
            ),
        ),
        claim(
            "lora-learns",
            "LoRA of the same size learns them.",
            at_least(LORA, SPANISH, 0.8),
            above(LORA, PREFIX, SPANISH, 0.5),
        ),
        claim(
            "prefix-calls-up-a-known-language",
            "Not in the paper for words: where the base model knows Spanish too, a prefix calls it "
            "up.",
            at_least(f"{PREFIX}, Spanish known", SPANISH, 0.8),
        ),
    )


def _quick() -> StudySpec:
    bases = (
        quick_translator("german", german(**QUICK_WORDS)),
        quick_translator("german-spanish", either(**QUICK_WORDS), steps=3000),
    )
    on_german = within(
        (
            _lora(4),
            method(FULL, "full_finetuning", **one_rate({"steps": 1000, "learning_rate": 2e-3})),
        ),
        base_models=(bases[0]["name"],),
    )
    return _study(
        bases,
        spanish(**QUICK_WORDS),
        (prefix(PREFIX, ROWS, tuning=QUICK_RANGE), *on_german),
        budget=4 * ROWS * 64,
        scored=quick_scored(),
        samples=256,
        training={"steps": 2400, "batch_size": 32, "validations": 5},
        tuning={"trials": QUICK_RATES, "validation_samples": 256},
    )


def _faithful() -> StudySpec:
    bases = _paper_bases()
    lora = _lora(4, training=constant(50_000, 1e-3, 0.01), base_models=(bases[0]["name"],))
    return _study(
        bases,
        spanish(),
        (prefix(PREFIX, ROWS), lora),
        resources=GPU,
        training=constant(100_000, 5e-5, 0.01),
    )


def _fair() -> StudySpec:
    wide: Members = {"learning_rate_range": PREFIX_RANGE}
    scales = {**wide, "trials": 3 * RATES, "initial_scales": INITIAL_SCALES}
    bases = _paper_bases()
    on_german = within(
        (
            _lora(4),
            prefix(SMALL_START, ROWS, start=0.02, tuning=wide),
            prefix(STARTS, ROWS, tuning=scales),
            method(FULL, "full_finetuning"),
            method(SCRATCH, "from_scratch"),
        ),
        base_models=(bases[0]["name"],),
    )
    return _study(
        bases,
        spanish(),
        (prefix(PREFIX, ROWS, tuning=wide), *on_german),
        resources=GPU,
        training={"steps": 50_000, "batch_size": 64},
        tuning={"trials": RATES, "validation_samples": 1280},
    )


def _lora(rank: int, **given: object) -> Members:
    return method(LORA, "lora", rank=rank, sites=SITES, **given)


def _paper_bases() -> tuple[Members, ...]:
    return (translator("german", german()), translator("german-spanish", either()))


def _study(
    bases: tuple[Members, ...],
    task: Members,
    methods: tuple[Members, ...],
    *,
    budget: int = 67_584,
    scored: tuple[Members, ...] | None = None,
    samples: int = 4921,
    **members: object,
) -> StudySpec:
    return study(
        "petrov2024-translation",
        bases=bases,
        tasks=[task],
        methods=methods,
        budget=budget,
        seeds=3,
        scored=scored or (german(), spanish()),
        samples=samples,
        **members,
    )
