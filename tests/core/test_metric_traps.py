"""Traps of metrics: what must not be compared, or not without a warning."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.core.comparable import a_job, pointers
from tests.core.scoring import scores
from tests.texts import COMPLETION, Stored, reviews, stored

from adaptlab.comparisons.comparability import SIGNATURE, ComparedJob
from adaptlab.comparisons.comparison import compare
from adaptlab.plugins.metric import METRICS
from adaptlab.runs.events import Evaluation, Measure, MetricFloor
from adaptlab.runs.item_statistics import as_text, packed
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.job_tasks import task_problems
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import spec_digest, write_resolved
from adaptlab.specs.spec import Choice, PretrainSpec
from adaptlab.statistics.failing import failing_by
from adaptlab.statistics.scores import Scores, nothing_right, scores_of

SHORT, LONG = "it is red", "it is red and blue and green"


def by_bleu(method: str, answers: list[str], right: str = LONG, **changes: Any) -> Scores:
    """The scores of five seeds that give these answers."""
    metric = METRICS.get("bleu")
    table = np.array([metric.of_answer(answer, right) for answer in answers])
    return by("bleu", method, table, **changes)


def by(metric: str, method: str, table: NDArray[np.float64], **changes: Any) -> Scores:
    kept = {
        "metric": metric,
        "measured": (METRICS.get(metric).value(table),) * 5,
        "statistics": (as_text(packed(table)),) * 5,
    }
    plain = scores(np.ones((5, len(table)), dtype=bool), method, budget=8)
    return plain.model_copy(update={**kept, **changes})


def on_text(label: str, **task: Any) -> ComparedJob:
    """A job on a task over texts."""
    job = a_job(label)
    document = {"name": "text_completion", "dataset": {"name": "qa", "digest": "a"}, **task}
    return job.model_copy(update={"spec": job.spec.model_copy(update={"task": document})})


def on_base(job: ComparedJob, digest: str) -> ComparedJob:
    """The job on another base model, with a larger vocabulary."""
    family = {**job.spec.family, "vocabulary": 999}
    spec = job.spec.model_copy(update={"base_digest": digest, "family": family})
    return job.model_copy(update={"spec": spec})


def test_short_right_answers_warn() -> None:
    rows = [by_bleu(name, [SHORT] * 50, SHORT) for name in ("lora", "ia3")]
    assert rows[0].measured[0] == 0
    found = [one for one in compare("qa", rows).warnings if one.kind == "metric"]
    assert [one.methods for one in found] == [("lora at 8", "ia3 at 8")]
    assert "100 % of the right answers have fewer than 4 words" in found[0].text
    plain = compare("qa", [by_bleu("lora", [LONG] * 50)])
    assert not [one for one in plain.warnings if one.kind == "metric"]


def test_what_is_said_of_one_method_names_it() -> None:
    metric = METRICS.get("json")
    tables = [np.array([metric.of_answer(text, "1") for text in (given, "1")]) for given in "{1"]
    rows = [by("json", name, table) for name, table in zip(("lora", "ia3"), tables, strict=True)]
    (found,) = (one for one in compare("qa", rows).warnings if one.kind == "metric")
    assert found.text == "5 of 10 answers are no JSON, and count as wrong."
    assert found.methods == ("lora at 8",)


@pytest.mark.parametrize("second", [("1|lib|2",), ("1", "1|lib|1")])
def test_another_signature_voids_a_comparison(second: tuple[str, ...]) -> None:
    rows = [
        by_bleu("lora", [LONG] * 30, signatures=("1|lib|1",)),
        by_bleu("ia3", [SHORT] * 30, signatures=second),
    ]
    found = compare("qa", rows)
    assert found.voided
    assert [one.pointer for one in found.differences] == [SIGNATURE]
    (warning,) = (one for one in found.warnings if one.kind == "not_comparable")
    assert "the scores are not comparable until the jobs agree on it" in warning.text
    assert '"1|lib|1" in LoRA at 8' in warning.text
    assert not compare("qa", [rows[0], by_bleu("ia3", [SHORT] * 30, signatures=())]).voided


def test_values_without_a_signature_are_of_version_1() -> None:
    """A seed without a score has none."""

    def evaluation(seed: int, signature: str | None) -> Evaluation:
        empty = nothing_right(seed, 8, "chrf")
        measure = Measure(metric="chrf", value=0.5, signature=signature)
        return empty.model_copy(update={"task": {"metric": "chrf"}, "measures": (measure,)})

    rows = scores_of("lora", [evaluation(0, None), evaluation(1, "1")], metric="chrf")
    assert rows.signatures == ("1",)
    assert scores_of("lora", [nothing_right(0, 8, "chrf")], metric="chrf").signatures == ()
    assert "signatures" not in scores([[1]]).model_dump_json()


def test_token_perplexities_of_two_base_models_are_not_compared() -> None:
    job = on_text("one", metric="perplexity")
    found = pointers(job, on_base(job.model_copy(update={"label": "other"}), "b"))
    assert found == {"/base_digest": "voids", "/family/vocabulary": "voids"}


def test_bits_per_byte_of_two_base_models_are() -> None:
    job = on_text("one", metric="bits_per_byte")
    found = pointers(job, on_base(job.model_copy(update={"label": "other"}), "b"))
    assert found == {"/base_digest": "note", "/family/vocabulary": "note"}


def test_changed_data_of_the_same_name_void_a_comparison() -> None:
    changed = {"name": "qa", "digest": "b"}
    jobs = [on_text("one", metric="bleu"), on_text("two", metric="bleu", dataset=changed)]
    assert pointers(*jobs) == {"/task/dataset": "voids"}


def test_bits_per_byte_are_those_of_the_whole_text_and_not_a_mean_of_items() -> None:
    metric = METRICS.get("bits_per_byte")
    table = np.array([[math.log(2), 1.0], [9 * math.log(8), 3.0]])
    assert metric.value(table) == pytest.approx((1 + 27) / 4)
    assert metric.value(table) != pytest.approx((1 / 1 + 27 / 3) / 2)
    assert metric.value(np.array([[1e30, 5.0]])) == metric.worst
    assert metric.difference(0.5, 0.2, 0.7) == "-0.500 (-0.700 to -0.200)"


def test_a_method_that_always_gives_one_answer_is_at_the_floor() -> None:
    floor = MetricFloor(value=0.6, kind="constant_answer")
    constant = by_bleu("lora", [LONG] * 30, measured=(0.6,) * 5)
    assert failing_by(constant, floor, 0.95).failing == 5
    better = constant.model_copy(update={"measured": (0.9,) * 5})
    assert failing_by(better, floor, 0.95).failing == 0


def pretraining(data: Stored, task: dict[str, Any]) -> Any:
    """A resolved pretraining on texts."""
    family = {"name": "minigpt", "layers": 1, "heads": 2, "width": 8}
    spec = {"name": "base", "family": family, "task": task, "training": {"steps": 4}}
    return resolve(PretrainSpec.model_validate(spec), None, data.datasets)


def test_the_primary_metric_is_in_the_resolved_spec(tmp_path: Path) -> None:
    """It is chosen before measuring, and another one is another job."""
    data = stored(tmp_path, reviews(80))
    jobs = {
        metric: pretraining(data, {**COMPLETION, "metric": metric})
        for metric in ("exact_match", "token_f1", "chrf")
    }
    stored_as = {name: (write_resolved(job).task or {})["metric"] for name, job in jobs.items()}
    assert stored_as == {name: name for name in jobs}
    assert len({*map(spec_digest, jobs.values())}) == 3
    assert pointers(on_text("one", metric="chrf"), on_text("two", metric="bleu")) == {
        "/task/metric": "voids"
    }


def test_a_text_beyond_the_context_is_refused_before_the_first_step(tmp_path: Path) -> None:
    """Learned positions take none of it, so the content must fit."""
    data = stored(tmp_path, reviews(80))
    base = pretraining(data, {**COMPLETION})
    longer = resolve_task(
        Choice.model_validate({**COMPLETION, "tokens": {"longest": 57, "answer": 6}}),
        "/task", data.datasets,
    )  # fmt: skip
    found = [*task_problems(longer, (), base.family)]
    assert [(one.pointer, one.code) for one in found] == [("/task", "context_too_small")]
    assert [*task_problems(base.task, (), base.family)] == []
