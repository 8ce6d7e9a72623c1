"""Appendix C: words of a language that the base model has not learned."""

from collections.abc import Iterable

from adaptlab.recipes.claim_builders import above, at_least, at_most
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024.claim_builders import claim, learned_at_equal_size, never
from adaptlab.recipes.petrov2024.settings import Members
from adaptlab.recipes.petrov2024.words import (
    LANGUAGES,
    QUICK_WORDS,
    ROWS,
    WORDS,
    either,
    german,
    quick_scored,
    quick_translator,
    spanish,
    translator,
)
from adaptlab.recipes.studies import study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import NoLarger, PaperClaim
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.studies.study import StudySpec

STUDY = "petrov2024-translation"
GERMAN, BOTH = "German", "German and Spanish"
SPANISH = "Spanish"
BUDGET = 67_584
SITES = ("attn.q", "attn.v", "attn.o", "mlp", "unembed")
"""The published LoRA on fused Q, K, V is as large as LoRA on two matrices of width × width."""


@RECIPES.register("petrov2024/translation")
def translation() -> Recipe:
    """Return the recipe: Spanish words on a model that knows German."""
    return Recipe(
        name="petrov2024/translation",
        title="Words of a new language",
        question="Can a prefix make a model that translates to German translate to Spanish?",
        source=f"{paper.SOURCE}, appendix C and discussion",
        versions=paper.VERSIONS,
        stand_ins={"quick": paper.QUICK_STAND_IN},
        base_models=(GERMAN, BOTH),
        presets={"quick": _quick(), "faithful": _faithful(), "fair": _fair()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "256 words of at most 8 letters from the generated list, on four layers of "
            "width 64. Prefix and LoRA have the paper's 66 rows and rank 4 (16,896 and 16,864 "
            "parameters), 4 learning rates and equal steps; pretraining had 8 pads. Full "
            "fine-tuning has one rate. In addition, a model that was pretrained on both languages "
            "without a cue, for which Spanish is a known skill. About 18 minutes on two cores with "
            "3 seeds.",
            "faithful": "The paper's sizes, rates and steps; LoRA of rank 4 with the paper's "
            "number of parameters, on q and v instead of the fused q, k and v. The paper's word "
            "list has no licence known to us, so as many words of the generated list are used; to "
            "use a real list, import it and clone the study with it. Every score is of the model "
            "with its prefix attached, unlike the prefix's score in the published code. The model "
            "of both languages is not in the paper. For a GPU.",
            "fair": "Equal steps and 8 learning rates for every method; prefixes with rates from "
            "5e-5, the paper's rate, to 0.5 and from three scales; full fine-tuning and a model "
            "from scratch. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    controls = (paper.FULL, paper.SCRATCH, paper.SMALL_START, paper.STARTS)
    return PublishedTable(
        title="Words remembered",
        source=f"{paper.SOURCE}, discussion with reviewers: no figure for the prefix, which fails",
        columns=columns((GERMAN, SPANISH), LANGUAGES),
        rows=(
            row("pretrained on German"),
            row(paper.PREFIX, of=paper.PREFIX, on=GERMAN),
            row(paper.LORA, None, 94, of=paper.LORA, on=GERMAN),
            *(row(label, of=label, on=GERMAN) for label in controls),
            row("pretrained on both", on=BOTH),
            row(f"{paper.PREFIX}, Spanish known", of=paper.PREFIX, on=BOTH),
        ),
    )


def _claims() -> tuple[PaperClaim, ...]:
    new = [at_most("pretrained on German", SPANISH, 0.1)]
    return (
        claim(
            "base-translates-to-german",
            "The base model remembers almost all German words, and no Spanish ones.",
            at_least("pretrained on German", GERMAN, 0.9),
            at_most("pretrained on German", SPANISH, 0.1),
            role="premise",
        ),
        claim(
            "prefix-fails",
            "A prefix may not be able to teach the words of another language.",
            at_most(paper.PREFIX, SPANISH, 0.1),
            arxiv_v1=never(
                "A prefix cannot teach the words of another language.",
                paper.PREFIX,
                0.1,
                trials=paper.QUICK_RATES,
            ),
            given=new,
            controls=learned_at_equal_size(paper.LORA, paper.PREFIX, SPANISH),
        ),
        claim(
            "lora-learns",
            "LoRA of the same size learns the words of another language.",
            at_least(paper.LORA, SPANISH, 0.8),
            above(paper.LORA, paper.PREFIX, SPANISH, 0.5),
            given=new,
            controls=[NoLarger(row=paper.LORA, other=paper.PREFIX)],
        ),
        claim(
            "prefix-calls-up-a-known-language",
            "If the base model knows Spanish words too, a prefix elicits them.",
            at_least(f"{paper.PREFIX}, Spanish known", SPANISH, 0.8),
            role="own",
            given=[at_most("pretrained on both", SPANISH, 0.7)],
        ),
    )


def _quick() -> StudySpec:
    knows_german = quick_translator("german", german(**QUICK_WORDS))
    knows_both = quick_translator("german-spanish", either(**QUICK_WORDS), steps=3000)
    on_german = (_lora(), paper.full(**paper.one_rate({"steps": 1000, "learning_rate": 2e-3})))
    return study(
        STUDY,
        bases=(knows_german, knows_both),
        tasks=[spanish(**QUICK_WORDS)],
        methods=(paper.prefix(ROWS, tuning=paper.QUICK_RANGE), *_only(knows_german, on_german)),
        budget=4 * ROWS * 64,
        scored=quick_scored(),
        samples=256,
        training=paper.quick_steps(2400),
        tuning={"trials": paper.QUICK_RATES, "validation_samples": 256},
    )


def _faithful() -> StudySpec:
    knows_german, knows_both = _paper_bases()
    lora = _lora(training=paper.constant(50_000, 1e-3, 0.01))
    return study(
        STUDY,
        bases=(knows_german, knows_both),
        tasks=[spanish()],
        methods=(paper.prefix(ROWS), *_only(knows_german, [lora])),
        budget=BUDGET,
        scored=LANGUAGES,
        samples=WORDS,
        resources=paper.GPU,
        training=paper.constant(100_000, 5e-5, 0.01),
    )


def _fair() -> StudySpec:
    knows_german, knows_both = _paper_bases()
    on_german = (_lora(), *paper.other_starts(ROWS), paper.full(), paper.scratch())
    return study(
        STUDY,
        bases=(knows_german, knows_both),
        tasks=[spanish()],
        methods=(paper.prefix(ROWS, tuning=paper.WIDE), *_only(knows_german, on_german)),
        budget=BUDGET,
        scored=LANGUAGES,
        samples=WORDS,
        resources=paper.GPU,
        training=paper.equal_steps(50_000),
        tuning=paper.rates(paper.RATES),
    )


def _only(base: Members, methods: Iterable[Members]) -> tuple[Members, ...]:
    return paper.within(methods, base_models=(base["name"],))


def _lora(**given: object) -> Members:
    return paper.method(paper.LORA, "lora", rank=4, sites=SITES, **given)


def _paper_bases() -> tuple[Members, Members]:
    return translator("german", german()), translator("german-spanish", either())
