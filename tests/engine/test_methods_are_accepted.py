"""Runs with demonstrations, held against what the server accepts."""

from pathlib import Path

import pytest
from tests.engine.making import Remembering, episodes_base
from tests.engine.running import run

from adaptlab.plugins.method import METHODS
from adaptlab.runs.allowed import Expected
from adaptlab.runs.events import ReplicatesDecided
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import AdaptSpec

QUERY = {"name": "episodes", "shots": 0, "labels": "fixed", "map_seed": 1}
DEMONSTRATING = [name for name in METHODS.names() if METHODS.get(name).moves_content]
"""The others are in test_reports.py."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[BaseModelFacts, tuple[Path, ...]]:
    return episodes_base(tmp_path_factory.mktemp("base"))


@pytest.mark.parametrize("name", DEMONSTRATING)
def test_what_a_method_reports_is_accepted(
    name: str, base: tuple[BaseModelFacts, tuple[Path, ...]], tmp_path: Path
) -> None:
    facts, files = base
    method = METHODS.get(name).model_validate({"name": name})
    method = method.smallest() if method.size_is_free() else method
    job = {
        "base_model": "base",
        "task": QUERY,
        "method": method.model_dump(mode="json"),
        "training": {"steps": 2, "batch_size": 4},
        "tuning": {} if name == "in_context" else {"trials": 2, "validation_samples": 16},
        "evaluation": {"samples": 16},
        "seeds": 2,
    }
    spec = resolve(AdaptSpec.model_validate(job), facts)
    seen = Remembering()
    run(spec, files, tmp_path, seen)
    assert Expected.of(spec).problems(seen.events) == ()
    (decided,) = seen.of(ReplicatesDecided)
    assert sum(one.selected for one in decided.replicates) == 2
