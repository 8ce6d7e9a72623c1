"""A detached model has the likelihoods of its base, bit for bit."""

from pathlib import Path
from typing import Any

from tests.engine.making import Remembering
from tests.engine.running import run
from tests.engine.text_jobs import pretraining
from tests.texts import COMPLETION, reviews, stored

from adaptlab.comparisons.retention import BaseScores, OldTask, paired_tasks
from adaptlab.runs.events import CheckpointWritten, Evaluated
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import spec_digest
from adaptlab.specs.spec import AdaptSpec

TASK: dict[str, Any] = {**COMPLETION, "tokens": {"longest": 64, "answer": 6}}
WATCHED = {"tasks": [TASK], "samples": 40, "shown": 0}


def test_losses_of_detached_seeds_are_those_of_the_bases_own_job(tmp_path: Path) -> None:
    """Full fine-tuning changes every weight, and is detached as well."""
    data = stored(tmp_path, reviews(200))
    base = pretraining(
        data, TASK, training={"steps": 10, "batch_size": 16, "precision": "float32"},
        evaluation=WATCHED,
    )  # fmt: skip
    (first := tmp_path / "base").mkdir()
    alone = Remembering()
    run(base, (), first, alone, "cpu", datasets=(data.path,))
    facts = BaseModelFacts(
        name="base", digest=spec_digest(base), family=base.family, task=None, replicates=2
    )
    document: dict[str, Any] = {
        "base_model": "base", "task": TASK, "method": "full_finetuning", "seeds": 2,
        "training": {"steps": 4, "batch_size": 16, "learning_rate": 0.01}, "evaluation": WATCHED,
    }  # fmt: skip
    spec = resolve(AdaptSpec.model_validate(document), facts, data.datasets)
    told = Remembering()
    weights = [one.path for one in alone.of(CheckpointWritten)]
    run(spec, weights, tmp_path, told, "cpu", datasets=(data.path,))
    ((_, pairs),) = paired_tasks([one.evaluation for one in told.of(Evaluated)])
    own = BaseScores([one.evaluation for one in alone.of(Evaluated)], {0: 0, 1: 1})
    assert all(adapted.loss != detached.loss for adapted, detached in pairs)
    assert OldTask(pairs).is_reversible(own)
    assert OldTask(pairs).loss_change(own) == 0
