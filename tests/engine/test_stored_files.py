"""The bytes of a job's files, as counted and as written."""

from pathlib import Path

import pytest
from tests.engine.imported import placed, resolved
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.folders import a_qwen3_folder

from adaptlab.runs.events import CheckpointWritten, TrainingSaved
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.cost import work
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import spec_digest
from adaptlab.specs.spec import AdaptSpec

HEADERS = 20_000
"""More bytes than the headers of the files of this test have."""


class Measuring(Remembering):
    """Notes the size of the saved state, which is removed later."""

    saved = 0

    def emit(self, event: object) -> None:
        super().emit(event)  # pyright: ignore[reportArgumentType] - any event
        if isinstance(event, TrainingSaved):
            self.saved = event.path.stat().st_size


@pytest.mark.parametrize(
    "training",
    [{}, {"precision": "float64"}, {"validations": 3, "early_stopping": {"patience": 2}}],
    ids=["plain", "float64", "early stopping"],
)
def test_full_fine_tuning_stores_what_the_plan_counts(
    training: dict[str, object], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    a_qwen3_folder(folder, vocabulary=20_000)
    base = resolved(folder)
    facts = BaseModelFacts(
        name="tiny", digest=spec_digest(base), family=base.family, task=None, replicates=1
    )
    document = {
        "base_model": "tiny",
        "task": {"name": "sort_descending", "length": 4, "alphabet": 5},
        "method": "full_finetuning",
        "seeds": 2,
        "training": {"steps": 3, "batch_size": 2, "validations": 0, **training},
        "tuning": {"learning_rates": [1e-5, 1e-4], "validation_samples": 2},
        "evaluation": {"samples": 2},
    }
    spec = resolve(AdaptSpec.model_validate(document), facts)
    counted, observer = work(spec), Measuring(save_after=1)
    run(spec, (), tmp_path, observer, "cpu", folder=placed(base, folder))
    checkpoints = sum(w.path.stat().st_size for w in observer.of(CheckpointWritten))
    assert counted.stored_bytes > 2 * 4 * 2 * 20_000 * 8  # embedding and head of two seeds
    assert 0 <= checkpoints - counted.stored_bytes < HEADERS
    assert 0 <= observer.saved - counted.saved_bytes < HEADERS
