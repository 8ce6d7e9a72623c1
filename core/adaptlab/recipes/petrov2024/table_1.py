"""Table 1: a task that needs another pattern of attention than the base model has learned."""

from adaptlab.claim import (
    AllOf,
    Claim,
    DeviationAtLeast,
    DeviationAtMost,
    EveryTrialAtMost,
    RowSelector,
    ScoreAbove,
    ScoreAtLeast,
    ScoreAtMost,
    Wording,
)
from adaptlab.recipe import (
    RECIPES,
    PublishedTable,
    Recipe,
    TableColumn,
    TableRow,
    chosen,
    score,
)
from adaptlab.recipes.petrov2024.settings import GPU
from adaptlab.study import StudySpec

Members = dict[str, object]

UP, DOWN = "ascending", "descending"
BASE, SCRATCH = "pretrained on ascending", "from scratch"
FULL, PREFIX, SMALL_PREFIX = "full fine-tuning", "prefix-tuning", "prefix-tuning from 0.02"
LORA, SOFT, BIAS = "LoRA", "soft prompt", "attention bias"
RATES = 8
FIGURE_1 = [2, 6, 0, 1, 4, 6, 3, 0, 1, 2]
"""The input whose attention figure 1 shows."""


@RECIPES.register("petrov2024/table-1")
def table_1() -> Recipe:
    """Ascending to descending order with a prefix of one position, 96 parameters."""
    return Recipe(
        name="petrov2024/table-1",
        title="Table 1: a new task that needs a new pattern of attention",
        question="Can a prefix teach a model that sorts upwards to sort downwards?",
        source="Petrov, Torr, Bibi (ICLR 2024), table 1 and figure 1",
        base_models=(UP,),
        presets={"quick": _quick(), "faithful": _faithful(), "fair": _fair()},
        tables=(_table(),),
        claims=_claims(),
        notes={
            "quick": "The paper's model, task and prefix, with shorter training at higher rates "
            "on a cosine schedule and no dropout; steps of base, full fine-tuning and prefix stay "
            "2 to 1 to 4. The prefix is tuned over 8 learning rates from 5e-4, the paper's own, to "
            "0.5. About 5 minutes on two cores with 10 seeds.",
            "faithful": "The paper's settings: its steps, constant rates and initial scale, "
            "dropout while all weights are trained, one rate a method. The split of the inputs is "
            "a stable hash and the test items are the same for every seed, which the published "
            "code's are not. For a GPU.",
            "fair": "Equal steps and 8 learning rates for every method, each in its own range and "
            "chosen on the validation split. Beside the paper's rows: the same model trained "
            "on the new task from scratch, the prefix started at 0.02 instead of 1, and LoRA, a "
            "soft prompt and the relaxed bias at up to 384 parameters, since LoRA on any matrix of "
            "this model takes 192 and more. For a GPU.",
        },
    )


def _table() -> PublishedTable:
    return PublishedTable(
        title="Table 1",
        source="Petrov, Torr, Bibi (ICLR 2024), table 1",
        seeds=10,
        columns=(
            TableColumn(label=UP, task=chosen("sort_ascending")),
            TableColumn(label=DOWN, task=chosen("sort_descending")),
        ),
        rows=(
            TableRow(label=BASE, of=RowSelector(), published=(score(91, 5), score(0, 0))),
            TableRow(
                label=FULL, of=RowSelector(method=FULL), published=(score(0, 0), score(85, 5))
            ),
            TableRow(
                label=PREFIX, of=RowSelector(method=PREFIX), published=(score(0, 0), score(0, 0))
            ),
            *(
                TableRow(label=label, of=RowSelector(method=label))
                for label in (SCRATCH, SMALL_PREFIX, LORA, SOFT, BIAS)
            ),
        ),
    )


def _claims() -> tuple[Claim, ...]:
    return (
        Claim(
            id="prefix-fails",
            arxiv_v1=Wording(
                text="Prefix-tuning cannot learn a task that needs a new pattern of attention.",
                test=EveryTrialAtMost(row=PREFIX, value=0.01, trials=RATES),
            ),
            iclr=Wording(
                text="Prefix-tuning may not be able to learn a task that needs a new pattern of "
                "attention, which full fine-tuning learns.",
                test=AllOf(
                    tests=(
                        ScoreAtMost(row=PREFIX, column=DOWN, value=0.01),
                        ScoreAbove(row=FULL, column=DOWN, other=PREFIX, by=0.5),
                    )
                ),
            ),
        ),
        Claim(
            id="base-sorts-up",
            iclr=Wording(
                text="The base model sorts upwards and does not sort downwards.",
                test=AllOf(
                    tests=(
                        ScoreAtLeast(row=BASE, column=UP, value=0.85),
                        ScoreAtMost(row=BASE, column=DOWN, value=0.01),
                    )
                ),
            ),
        ),
        Claim(
            id="full-fine-tuning-learns",
            iclr=Wording(
                text="Full fine-tuning learns to sort downwards.",
                test=ScoreAtLeast(row=FULL, column=DOWN, value=0.8),
            ),
        ),
        Claim(
            id="old-skill-is-lost",
            iclr=Wording(
                text="Full fine-tuning and the prefix lose the old skill while they are attached.",
                test=AllOf(
                    tests=(
                        ScoreAtMost(row=FULL, column=UP, value=0.01),
                        ScoreAtMost(row=PREFIX, column=UP, value=0.01),
                    )
                ),
            ),
        ),
        Claim(
            id="relative-attention-stays",
            iclr=Wording(
                text="A prefix leaves relative attention over the content as it is (equation 6); "
                "full fine-tuning changes it.",
                test=AllOf(
                    tests=(
                        DeviationAtMost(row=PREFIX, value=1e-6),
                        DeviationAtLeast(row=FULL, value=0.1),
                    )
                ),
            ),
        ),
    )


def _quick() -> StudySpec:
    return _study(
        bases=[
            _base(
                "petrov2024-ascending-quick",
                training={"steps": 800, "batch_size": 32, "learning_rate": 5e-3, "validations": 5},
            )
        ],
        training={"steps": 400, "batch_size": 32, "validations": 5},
        methods=[
            _method(FULL, "full_finetuning", tuning={"learning_rates": [3e-3]}),
            _prefix(
                PREFIX,
                1.0,
                training={"steps": 1600},
                tuning={"trials": RATES, "learning_rate_range": [5e-4, 0.5]},
            ),
        ],
    )


def _faithful() -> StudySpec:
    return _study(
        bases=[_paper_base()],
        training={**_constant(), "steps": 10_000, "learning_rate": 5e-4},
        methods=[
            _method(FULL, "full_finetuning", training={"weight_decay": 0.1}),
            _prefix(PREFIX, 1.0, training={"steps": 40_000, "weight_decay": 0.01}),
        ],
        resources=GPU,
    )


def _fair() -> StudySpec:
    return _study(
        bases=[_paper_base()],
        training={"steps": 10_000, "batch_size": 64},
        tuning={"trials": RATES},
        methods=[
            _method(FULL, "full_finetuning"),
            _method(SCRATCH, "from_scratch"),
            _prefix(PREFIX, 1.0),
            _prefix(SMALL_PREFIX, 0.02),
            _method(LORA, "lora"),
            _method(SOFT, "soft_prompt"),
            _method(BIAS, "attention_bias"),
        ],
        budget=384,
        resources=GPU,
    )


def _constant() -> Members:
    return {"schedule": "constant", "warmup_fraction": 0.0, "batch_size": 64}


def _paper_base() -> Members:
    training = {**_constant(), "steps": 20_000, "learning_rate": 5e-4, "weight_decay": 0.1}
    return _base("petrov2024-ascending", training=training, dropout=0.1, resources=GPU)


def _base(name: str, *, training: Members, dropout: float = 0.0, **members: object) -> Members:
    """One layer, one head, and one visible pad in whose place the prefix comes."""
    sizes: Members = {"layers": 1, "heads": 1, "width": 96, "pad_positions": 1}
    return {
        "name": name,
        "family": {"name": "minigpt", **sizes, "dropout": dropout},
        "task": {"name": "sort_ascending"},
        "training": training,
        "seeds": 10,
        "evaluation": _evaluation(),
        **members,
    }


def _study(*, bases: list[Members], budget: int = 96, **members: object) -> StudySpec:
    return StudySpec.model_validate(
        {
            "name": "petrov2024-table-1",
            "base_models": bases,
            "tasks": [{"name": "sort_descending"}],
            "budgets": [{"trainable_parameters": budget}],
            "seeds": 10,
            "evaluation": _evaluation(),
            "capture": {"attention": {"inputs": [FIGURE_1]}},
            **members,
        }
    )


def _evaluation() -> Members:
    return {"tasks": [{"name": "sort_ascending"}, {"name": "sort_descending"}], "samples": 3200}


def _prefix(label: str, scale: float, **effort: Members) -> Members:
    return {**_method(label, "prefix_tuning", **effort), "length": 1, "initial_scale": scale}


def _method(label: str, name: str, **effort: Members) -> Members:
    return {"name": name, "label": label, **effort}
