"""Table 2: a prefix elicits a skill that the base model has."""

from adaptlab.recipes.claim_builders import at_least, at_most, holds
from adaptlab.recipes.petrov2024 import settings as paper
from adaptlab.recipes.petrov2024.claim_builders import claim
from adaptlab.recipes.petrov2024.one_layer import quick_skilled_base, skilled_base
from adaptlab.recipes.petrov2024.settings import Members
from adaptlab.recipes.studies import study
from adaptlab.recipes.tables import columns, row
from adaptlab.reproductions.claim import DeviationAtMost, PaperClaim
from adaptlab.reproductions.recipe import RECIPES, PublishedTable, Recipe, score
from adaptlab.studies.study import StudySpec

STUDY = "petrov2024-table-2"
MIXED = "pretrained on four skills"
CHECKS: tuple[Members, ...] = ({"name": "clusters", "of": paper.PREFIX, "together": True},)
PUBLISHED = (
    (score(95, 2), score(0, 0), score(0, 0), score(0, 0)),
    (score(0, 0), score(90, 3), score(1, 1), score(1, 1)),
    (score(0, 0), score(1, 3), score(95, 6), score(0, 1)),
    (score(0, 0), score(0, 0), score(1, 2), score(98, 5)),
)


@RECIPES.register("petrov2024/table-2")
def table_2() -> Recipe:
    """Return the recipe: one prefix of 256 parameters per skill."""
    return Recipe(
        name="petrov2024/table-2",
        title="Table 2: a prefix elicits a skill of the base model",
        question="Can a prefix make a model, trained on four tasks without a cue, do one of them?",
        source=f"{paper.SOURCE}, table 2",
        versions=paper.VERSIONS,
        stand_ins={"quick": "a one-layer decoder of width 64 trained here"},
        base_models=("skills",),
        presets={"quick": _quick(), "faithful": _faithful(), "fair": _fair()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "The paper's model at width 64 instead of 256, so a prefix of 64 parameters "
            "instead of 256; no dropout; 32 items per step; fewer steps at higher rates on a "
            "cosine schedule. The prefix is tuned over 8 learning rates from 3e-3 to 1. About 9 "
            "minutes on two cores.",
            "faithful": "The paper's settings: no norm before attention, dropout while all weights "
            "are trained, 20,000 steps for the base and 30,000 for a prefix at one constant rate. "
            "The split of the inputs is a stable hash; unlike in the published code, a seed "
            "changes neither the split nor the test items. For a GPU.",
            "fair": "Equal steps and 8 learning rates for every method, selected on the validation "
            "split. Prefixes have rates from 5e-5, the paper's rate, to 0.5, and are started at 1, "
            "at 0.02 and, with three times the trials, at the best of three scales. In addition, "
            "full fine-tuning and LoRA of rank 1. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    pretrained = (score(25, 13), score(25, 12), score(24, 11), score(22, 7))
    prefixes = zip(paper.SKILL_LABELS, paper.SKILLS, PUBLISHED, strict=True)
    controls = (paper.FULL, paper.LORA, paper.SMALL_START, paper.STARTS)
    skills = tuple(zip(paper.SKILL_LABELS, paper.SKILLS, strict=True))
    return PublishedTable(
        title="Table 2",
        source=f"{paper.SOURCE}, table 2",
        seeds=10,
        columns=columns(paper.SKILL_LABELS, paper.SKILLS),
        rows=(
            row(MIXED, *pretrained),
            *(
                row(f"prefix for {name}", *cells, of=paper.PREFIX, task=t)
                for name, t, cells in prefixes
            ),
            *(row(f"{m} for {name}", of=m, task=task) for m in controls for name, task in skills),
        ),
    )


def _claims() -> tuple[PaperClaim, ...]:
    called = [(f"prefix for {name}", name) for name in paper.SKILL_LABELS]
    mixed = [at_most(MIXED, name, 0.6) for name in paper.SKILL_LABELS]
    learned = [at_least(label, name, 0.5) for label, name in called]
    return (
        claim(
            "prefix-calls-up-a-skill",
            "A prefix can make the model do any one of the tasks that it was pretrained on.",
            *(at_least(label, name, 0.8) for label, name in called),
            given=mixed,
        ),
        claim(
            "other-skills-are-silenced",
            "With the prefix of one task, the model does none of the other tasks.",
            *(
                at_most(label, other, 0.05)
                for label, name in called
                for other in paper.SKILL_LABELS
                if other != name
            ),
            given=[*mixed, *learned],
        ),
        claim(
            "base-knows-all",
            "Without a cue, the base model answers about a quarter of the items as each task "
            "requires.",
            *(at_least(MIXED, name, 0.05) for name in paper.SKILL_LABELS),
            *(at_most(MIXED, name, 0.6) for name in paper.SKILL_LABELS),
            role="premise",
        ),
        claim(
            "relative-attention-stays",
            "A prefix leaves relative attention over the content unchanged (equation 6).",
            *(DeviationAtMost(row=label, value=1e-6) for label, _ in called),
            given=[*mixed, *learned],
        ),
        claim(
            "prefixes-make-clusters",
            "Attention outputs, which do not separate the tasks without a prefix, form one cluster "
            "per prefix.",
            holds("clusters", "clusters.before"),
            holds("clusters", "clusters.after"),
            given=[*mixed, *learned, holds("clusters", "clusters.random")],
        ),
    )


def _quick() -> StudySpec:
    return study(
        STUDY,
        bases=[quick_skilled_base(seeds=10)],
        tasks=paper.SKILLS,
        methods=[paper.prefix(1)],
        budget=64,
        seeds=10,
        samples=1000,
        training=paper.quick_steps(800),
        tuning={"trials": paper.RATES, **paper.QUICK_RANGE},
        capture=paper.PATTERNS,
        checks=CHECKS,
    )


def _faithful() -> StudySpec:
    return study(
        STUDY,
        bases=[skilled_base(seeds=10)],
        tasks=paper.SKILLS,
        methods=[paper.prefix(1)],
        budget=256,
        seeds=10,
        resources=paper.GPU,
        training=paper.constant(30_000, 5e-5, 0.01),
        capture=paper.PATTERNS,
        checks=CHECKS,
    )


def _fair() -> StudySpec:
    wide: Members = {"trials": paper.RATES, **paper.WIDE}
    return study(
        STUDY,
        bases=[skilled_base(seeds=10)],
        tasks=paper.SKILLS,
        methods=(
            paper.full(),
            paper.prefix(1, tuning=wide),
            *paper.other_starts(1, wide),
            paper.method(paper.LORA, "lora", rank=1, sites=("q", "v")),
        ),
        budget=1024,
        seeds=10,
        resources=paper.GPU,
        training=paper.equal_steps(30_000),
        tuning={"trials": paper.RATES},
        capture=paper.PATTERNS,
        checks=CHECKS,
    )
