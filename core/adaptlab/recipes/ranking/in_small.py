"""Methods of one size on a new skill, each with rates of its own."""

from collections.abc import Sequence

from adaptlab.recipes.claim_builders import above, at_floor, at_least, claim
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024 import small
from adaptlab.recipes.studies import SEEDS, Members, method, study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import ClaimRole, NoLarger, PaperClaim, PlainTest
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.studies.study import StudySpec

SOURCE = "PEFT's comparison of methods (2026)"
BASE, SKILL = "pretrained on four skills", "histogram"
BUDGET = 2 * small.ROWS * small.WIDTH
QV: Members = {"sites": ("attn.q", "attn.v")}
POINT = 0.01
NOTE = (
    "The published comparison ranks methods by one seed, most at one rate, on a model of 3B "
    "parameters and mathematics. Here a decoder of two layers and width 64 learns the histogram, "
    "which needs attention that it lacks. Every method has at most 5,120 parameters. C3A and "
    "Prefix-Tuning+ have 4,096, the most below that; OFT would have 1,100 and is left out. At most "
    "4,000 steps at a constant rate; rates are chosen on validation. "
)
LORA, MLP_LORA, PISSA = "LoRA on q, v", paper.MLP_LORA, "PiSSA on q, v"
HIRA, MISS, SHIRA, LOHA, C3A = "HiRA", "MiSS", "SHiRA", "LoHa", "C3A"
PREFIX, PLUS, SOFT = paper.PREFIX, "Prefix-Tuning+", "soft prompt"
METHODS = (
    method(LORA, "lora", **QV),
    method(MLP_LORA, "lora", sites=("mlp",)),
    method(PISSA, "lora", initialisation="pissa", **QV),
    method(HIRA, "hira", **QV),
    method(MISS, "miss", **QV),
    method(SHIRA, "shira", **QV),
    method(LOHA, "loha", **QV),
    method(C3A, "c3a", **QV),
    method(PLUS, "prefix_tuning_plus"),
    method(PREFIX, "prefix_tuning"),
    method(SOFT, "soft_prompt"),
    paper.full(),
)
CENTRES = {
    LORA: 0.01,
    MLP_LORA: 0.01,
    PISSA: 0.01,
    HIRA: 0.01,
    MISS: 0.0033,
    SHIRA: 0.005,
    LOHA: 0.002,
    C3A: 0.16,
    PLUS: 0.033,
    PREFIX: 0.045,
    SOFT: 0.2,
    paper.FULL: 0.0003,
}
"""The best rate of each method in `quick`, the middle of the rates of `small`."""
FRESH_SEEDS = (5, 6, 7, 8, 9)


@RECIPES.register("ranking/in-small")
def in_small() -> Recipe:
    """Return the recipe: equal parameters, equal effort, one new skill."""
    return Recipe(
        name="ranking/in-small",
        title="The field's ranking in small",
        question="Which method learns a new skill at equal size, once each has its own rate?",
        source=f"{SOURCE}, of other models and data",
        versions={"peft": "PEFT's comparison"},
        stand_ins={"quick": small.STAND_IN, "small": small.STAND_IN},
        base_models=("skills",),
        presets={"quick": _quick(), "small": _closer()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": f"{NOTE}Four rates over three decades, five seeds. 54 minutes on two cores.",
            "small": f"{NOTE}Five rates in factors of three around the best of `quick`, and five "
            "other seeds. 76 minutes on two cores.",
        },
    )


def _quick() -> StudySpec:
    return _study("ranking-in-small", METHODS, {"trials": 4})


def _closer() -> StudySpec:
    around = (
        {**one, "tuning": {"learning_rates": _around(CENTRES[str(one["label"])])}}
        for one in METHODS
    )
    return _study("ranking-in-small-closer", tuple(around), {}, FRESH_SEEDS)


def _around(middle: float) -> list[float]:
    """Return five rates in factors of three."""
    return [float(f"{middle * 3**power:.2g}") for power in (-2, -1, 0, 1, 2)]


def _study(
    name: str,
    adapted: Sequence[Members],
    tuning: Members,
    seeds: int | Sequence[int] = SEEDS,
) -> StudySpec:
    return study(
        name,
        bases=[small.base(2)],
        tasks=[small.task(paper.HISTOGRAM)],
        methods=adapted,
        budget=BUDGET,
        seeds=seeds,
        samples=1000,
        training=small.training(4000),
        tuning={**tuning, "validation_samples": 640},
    )


def _table() -> PublishedTable:
    labels = [str(one["label"]) for one in METHODS]
    return PublishedTable(
        title="Right histograms at 5,120 parameters",
        source=f"{SOURCE} has other data",
        columns=columns((SKILL,), (paper.HISTOGRAM,)),
        rows=(row(BASE), *(row(label, of=label) for label in labels)),
    )


def _claims() -> tuple[PaperClaim, ...]:
    return (
        claim(
            "peft",
            "skill-can-be-learned",
            "Full fine-tuning teaches the base a skill that it lacks.",
            at_least(paper.FULL, SKILL, 0.8),
            role="premise",
            given=[at_floor(BASE, SKILL, 0.05)],
        ),
        _ahead("hira-beats-lora", "HiRA beats LoRA.", HIRA, LORA),
        _ahead("miss-beats-lora", "MiSS beats LoRA.", MISS, LORA),
        _ahead("shira-beats-lora", "SHiRA beats LoRA.", SHIRA, LORA),
        _ahead("c3a-beats-lora", "C3A beats LoRA.", C3A, LORA),
        _ahead("lora-beats-loha", "LoRA beats LoHa.", LORA, LOHA),
        _ahead("mlp-beats-attention", "LoRA on the MLP beats LoRA on q, v.", MLP_LORA, LORA),
        _ahead("pissa-beats-lora", "PiSSA's start beats LoRA's.", PISSA, LORA, role="own"),
        claim(
            "peft",
            "plus-learns-what-a-prefix-does-not",
            "A prefix moved out of the softmax learns what a prefix of its size does not.",
            at_floor(PREFIX, SKILL, 0.1),
            above(PLUS, PREFIX, SKILL, 0.1),
            role="own",
            given=_learned(PLUS),
            controls=[at_least(MLP_LORA, SKILL, 0.5), NoLarger(row=MLP_LORA, other=PREFIX)],
        ),
    )


def _ahead(
    name: str, text: str, ahead: str, behind: str, *, role: ClaimRole = "paper"
) -> PaperClaim:
    """Return the claim that a method leads by more than a point."""
    test = above(ahead, behind, SKILL, POINT)
    return claim("peft", name, text, test, role=role, given=_learned(ahead))


def _learned(label: str) -> list[PlainTest]:
    """Return tests that the skill can be learned, and that a method has."""
    return [at_least(paper.FULL, SKILL, 0.8), at_least(label, SKILL, 0.5)]
