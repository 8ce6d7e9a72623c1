"""Every family from pretraining to the recording of a model.

The recorded model is adapted and evaluated.
"""

from pathlib import Path

import pytest
from tests.engine.making import SMALL_OF_EACH, Remembering
from tests.engine.running import run

from adaptlab.plugins.family import FAMILIES
from adaptlab.runs.events import AttentionCaptured, CheckpointWritten, Evaluated, Metrics
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import spec_digest
from adaptlab.specs.spec import AdaptSpec, PretrainSpec

TASK = {"name": "sort_ascending", "length": 4, "alphabet": 5}


@pytest.mark.long("every combination", but=1)
@pytest.mark.parametrize("name", FAMILIES.names())
def test_a_family_learns_and_is_adapted(name: str, tmp_path: Path):
    family = {k: v for k, v in SMALL_OF_EACH[name].model_dump().items() if v is not None}
    common = {"task": TASK, "seeds": 2, "evaluation": {"samples": 20}}
    training = {"steps": 60, "batch_size": 16, "learning_rate": 1e-2}
    pretrain = PretrainSpec.model_validate(
        {"name": "tiny", "family": family, "training": training, **common}
    )
    resolved, observer = resolve(pretrain, None), Remembering()
    run(resolved, (), tmp_path, observer, "cpu")
    curve = [p.value for m in observer.of(Metrics) for p in m.points if p.replicate == 1]
    first, last = curve[0], curve[-1]
    assert first is not None
    assert last is not None
    assert last < 0.8 * first, "a random model would stay where it began"
    facts = BaseModelFacts(
        name="tiny",
        digest=spec_digest(resolved),
        family=resolved.family,
        task=resolved.task,
        replicates=2,
    )
    adapt = AdaptSpec.model_validate(
        {
            "base_model": "tiny",
            "method": {"name": "prefix_tuning", "length": 2, "side": "key_value"},
            "training": {"steps": 5, "batch_size": 16},
            "capture": {"attention": {"samples": 2}},
            **common,
        }
    )
    bases = tuple(written.path for written in observer.of(CheckpointWritten))
    adapted = Remembering()
    run(resolve(adapt, facts), bases, tmp_path, adapted, "cpu")
    alone = [e.evaluation for e in observer.of(Evaluated)]
    assert [e.evaluation.outcomes for e in adapted.of(Evaluated) if not e.evaluation.attached] == [
        evaluation.outcomes for evaluation in alone
    ]
    assert len(adapted.of(Evaluated)) == 2 * len(alone)
    maps = [c.attention for c in adapted.of(AttentionCaptured) if c.attention.source == "adapted"]
    assert {m.shape for m in maps} == {(2, 2, 2, 7, 9)}
    first_layer = [s for m in maps for s in m.summaries if s.layer == 0]
    assert all(summary.relative_deviation < 1e-12 for summary in first_layer)
