"""Texts whose last sign tells their label, unless it is mistaken."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.engine.text_jobs import pretraining
from tests.texts import Stored, stored

from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import CheckpointWritten, ReplicateResult, ReplicatesDecided
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import Resolved, ResolvedAdapt, spec_digest
from adaptlab.specs.spec import AdaptSpec

LABELS: dict[str, Any] = {
    "name": "text_classification",
    "dataset": "signs",
    "prompt": "{text}",
    "label": {"field": "label", "words": {"neg": "n", "pos": "p"}},
    "tokens": {"longest": 8},
    "splits": {"field": "split"},
}
WORDS: dict[str, Any] = {
    "name": "text_completion",
    "dataset": "signs",
    "prompt": "{text}",
    "answer": {"field": "word"},
    "tokens": {"longest": 8, "answer": 2},
    "splits": {"field": "split"},
}
VALIDATION = 100
Base = tuple[Resolved, Path, Stored]
"""A base model's spec, its file and the records that it was trained on."""


def signs(split: str, count: int, positive: float, mistaken: float) -> Iterator[dict[str, str]]:
    """Yield texts that end in ! or .; the former is positive unless mistaken."""
    letters = np.random.default_rng(len(split)).integers(97, 123, (count, 3))
    for number, row in enumerate(letters.tolist()):
        share = number / count
        is_positive, is_mistaken = share < positive, share >= 1 - mistaken
        sign = "!" if is_positive or is_mistaken else "."
        label = "pos" if is_positive else "neg"
        text = f"{bytes(row).decode()}{sign}"
        yield {"text": text, "label": label, "word": label[0], "split": split}


def skewed_base(
    folder: Path, task: dict[str, Any], records: Sequence[dict[str, str]], steps: int
) -> Base:
    """Train a base model on records of which few are positive."""
    skewed = stored(folder, records, "skewed")
    training = {"steps": steps, "batch_size": 32, "learning_rate": 0.01}
    task, scored = task | {"dataset": "skewed"}, {"samples": 20, "shown": 0}
    spec = pretraining(skewed, task, training=training, seeds=1, evaluation=scored)
    watching = Remembering()
    run(spec, (), folder, watching, "cpu", datasets=(skewed.path,))
    (written,) = watching.of(CheckpointWritten)
    return spec, written.path, skewed


def adapting(
    data: Stored,
    base: Resolved,
    task: dict[str, Any],
    steps: int = 80,
    validations: int = 0,
    **tuning: Any,
) -> ResolvedAdapt:
    """Return two seeds' fine-tuning at two rates; one changes nothing."""
    facts = BaseModelFacts(
        name="base", digest=spec_digest(base), family=base.family, task=base.task, replicates=1
    )
    training = {"precision": "float64", "steps": steps, "batch_size": 32}
    spec = {
        "base_model": "base",
        "task": task,
        "method": "full_finetuning",
        "training": {**training, "validations": validations},
        "tuning": {"learning_rates": [1e-9, 0.01], "validation_samples": VALIDATION, **tuning},
        "seeds": 2,
        "evaluation": {"samples": 8, "shown": 0},
    }
    return resolve(AdaptSpec.model_validate(spec), facts, data.datasets)


def decided(spec: Resolved, base: Path, folder: Path, *data: Stored) -> Remembering:
    """Run a job; its reports are valid."""
    watching = Remembering()
    run(spec, (base,), folder, watching, "cpu", datasets=tuple(one.path for one in data))
    assert Expected.of(spec).problems(watching.events) == ()
    return watching


def results(told: Remembering) -> tuple[ReplicateResult, ...]:
    """Return the results of all replicates."""
    (event,) = told.of(ReplicatesDecided)
    return event.replicates
