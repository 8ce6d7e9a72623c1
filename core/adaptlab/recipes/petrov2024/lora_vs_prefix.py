"""Rank-1 LoRA against a prefix of the same size, on a new task."""

from adaptlab.recipes.claim_builders import above, at_floor, at_least
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024 import small
from adaptlab.recipes.petrov2024.claim_builders import claim, learned_at_equal_size, never
from adaptlab.recipes.studies import study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import NoLarger, PaperClaim
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe
from adaptlab.studies.study import StudySpec

STUDY = "petrov2024-lora-vs-prefix"
BASE = "pretrained on four skills"
COUNT = "histogram"
SHORTER = "prefix-tuning as large as LoRA on the MLP"
RANKS = (2, 4)
"""Ranks of LoRA in the small preset, in addition to the paper's rank 1."""
SITES = ("mlp", "attn.o")
ROWS, FEWER = 12, 10
"""Prefix lengths as large as rank 1 on MLP and attention output, and on the MLP alone."""


@RECIPES.register("petrov2024/lora-vs-prefix")
def lora_vs_prefix() -> Recipe:
    """Return the recipe: the histogram with 12,288 parameters."""
    return Recipe(
        name="petrov2024/lora-vs-prefix",
        title="LoRA against a prefix at equal size, on a new task",
        question="Does a prefix fail because of its number of parameters or their place?",
        source=f"{paper.SOURCE}, section 5.2, and the published notebook 04",
        versions=paper.VERSIONS,
        stand_ins={"quick": paper.QUICK_STAND_IN, "small": small.STAND_IN},
        base_models=("skills",),
        presets={"quick": _quick(), "small": _small(), "faithful": _faithful(), "fair": _fair()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "The base of table 3's quick preset: four layers of width 64 instead of 256, "
            "questions of eight digits below six, and therefore 3,072 parameters for LoRA and "
            "prefix instead of 12,288. Both have 4 learning rates and equal steps; in the paper, "
            "the prefix had ten times the steps at a hundredth of the rate. Full fine-tuning has "
            "two rates and a model from scratch one. About 20 minutes on two cores with 3 seeds.",
            "small": f"{small.NOTE}Two layers, and LoRA of ranks 1, 2 and 4 against prefixes of "
            "exactly their sizes: 1,536, 3,072 and 6,144 parameters. In a trial run, LoRA of rank "
            "1 was still learning after 14,000 steps, and rank 4 had learned the task after "
            "7,000. About 2 hours on two idle cores, by the cost model.",
            "faithful": "The paper's settings, with five seeds instead of one: 10,000 steps at "
            "5e-3 for LoRA, 100,000 at 5e-5 for the prefix. LoRA is on the MLP and, as in the "
            "published code but not in the text, on the attention output. Gradients are clipped by "
            "their norm over all LoRA matrices, not per matrix. For a GPU.",
            "fair": "20,000 steps and 8 learning rates for every method, selected on the "
            "validation split. In addition to the paper's two methods: LoRA on the MLP alone and a "
            "prefix of exactly its 10,240 parameters; prefixes started at 0.02 and at the best of "
            "three scales (with three times the trials); full fine-tuning and a model from "
            "scratch. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    controls = (paper.MLP_LORA, SHORTER, paper.FULL, paper.SCRATCH, paper.SMALL_START, paper.STARTS)
    return PublishedTable(
        title="LoRA and prefix at 12,288 parameters",
        source=f"{paper.SOURCE}, published notebook 04",
        seeds=1,
        columns=columns((COUNT,), (paper.HISTOGRAM,)),
        rows=(
            row(BASE, 0),
            row(paper.LORA, 92.38, of=paper.LORA),
            row(paper.PREFIX, 0.31, of=paper.PREFIX),
            *(row(label, of=label) for label in controls),
            *(row(label, of=label) for rank in RANKS for label in (_lora(rank), _prefix(rank))),
        ),
    )


def _lora(rank: int) -> str:
    return f"LoRA of rank {rank}"


def _prefix(rank: int) -> str:
    return f"prefix-tuning as large as LoRA of rank {rank}"


def _claims() -> tuple[PaperClaim, ...]:
    new = [at_floor(BASE, COUNT)]
    return (
        claim(
            "lora-learns",
            "Rank-1 LoRA learns the new task.",
            at_least(paper.LORA, COUNT, 0.8),
            given=new,
        ),
        claim(
            "prefix-fails",
            "A prefix with as many parameters may not be able to learn the new task.",
            at_floor(paper.PREFIX, COUNT),
            arxiv_v1=never(
                "A prefix with as many parameters cannot learn the new task.",
                paper.PREFIX,
                0.02,
                trials=paper.QUICK_RATES,
                above_floor=True,
            ),
            given=new,
            controls=learned_at_equal_size(paper.LORA, paper.PREFIX, COUNT),
        ),
        claim(
            "size-is-not-the-cause",
            "At equal size, LoRA learns a task that a prefix does not learn.",
            above(paper.LORA, paper.PREFIX, COUNT, 0.5),
            given=new,
            controls=[NoLarger(row=paper.LORA, other=paper.PREFIX)],
        ),
        claim(
            "mlp-alone-suffices",
            "LoRA on the MLP alone, as in the paper's text, learns a task that a prefix of its "
            "size does not learn.",
            above(paper.MLP_LORA, SHORTER, COUNT, 0.5),
            given=new,
            controls=[NoLarger(row=paper.MLP_LORA, other=SHORTER)],
        ),
        *(_at_rank(rank) for rank in RANKS),
    )


def _at_rank(rank: int) -> PaperClaim:
    lora, prefix = _lora(rank), _prefix(rank)
    return claim(
        f"size-is-not-the-cause-at-rank-{rank}",
        f"LoRA of rank {rank} learns a task that a prefix of its size does not learn.",
        at_floor(prefix, COUNT),
        above(lora, prefix, COUNT, 0.5),
        role="own",
        given=[at_floor(BASE, COUNT)],
        controls=learned_at_equal_size(lora, prefix, COUNT),
    )


def _small() -> StudySpec:
    pairs = tuple(
        method
        for rank in RANKS
        for method in (
            small.lora(_lora(rank), rank, SITES),
            small.prefix(ROWS * rank, label=_prefix(rank)),
        )
    )
    return study(
        STUDY,
        bases=[small.base(2)],
        tasks=[small.task(paper.HISTOGRAM)],
        methods=(
            small.lora(paper.LORA, 1, SITES),
            small.prefix(ROWS, label=paper.PREFIX),
            small.lora(paper.MLP_LORA, 1, ("mlp",)),
            small.prefix(FEWER, label=SHORTER),
            *pairs,
            small.full(),
        ),
        budget=max(RANKS) * ROWS * 2 * small.WIDTH,
        seeds=small.SEEDS,
        samples=1000,
        resources=small.RESOURCES,
        training=small.training(),
        tuning={"validation_samples": 640},
    )


def _quick() -> StudySpec:
    tuned = paper.QUICK_RANGE
    return study(
        STUDY,
        bases=[paper.quick_skills_base()],
        tasks=paper.shorter([paper.HISTOGRAM]),
        methods=(
            paper.paper_lora(),
            paper.prefix(ROWS, tuning=tuned),
            paper.mlp_lora(),
            paper.prefix(FEWER, label=SHORTER, tuning=tuned),
            paper.full(**paper.QUICK_FULL),
            paper.scratch(**paper.one_rate({"steps": 2400, "learning_rate": 1e-3})),
        ),
        budget=3072,
        samples=1000,
        training=paper.quick_steps(2400),
        tuning=paper.rates(paper.QUICK_RATES),
    )


def _faithful() -> StudySpec:
    long = paper.constant(100_000, 5e-5, 0.01)
    return study(
        STUDY,
        bases=[paper.skills_base(pads=ROWS)],
        tasks=[paper.HISTOGRAM],
        methods=(paper.paper_lora(), paper.prefix(ROWS, training=long)),
        budget=12_288,
        resources=paper.GPU,
        training=paper.constant(10_000, 5e-3, 0.01),
    )


def _fair() -> StudySpec:
    return study(
        STUDY,
        bases=[paper.skills_base(pads=ROWS)],
        tasks=[paper.HISTOGRAM],
        methods=(
            paper.paper_lora(),
            paper.prefix(ROWS, tuning=paper.WIDE),
            paper.mlp_lora(),
            paper.prefix(FEWER, label=SHORTER, tuning=paper.WIDE),
            *paper.other_starts(ROWS),
            paper.full(),
            paper.scratch(),
        ),
        budget=12_288,
        resources=paper.GPU,
        training=paper.equal_steps(20_000),
        tuning=paper.rates(paper.RATES),
    )
