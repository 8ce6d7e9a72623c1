"""Defaults of a drafted study: budgets that match, fields that fit."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.folders import a_sentence_encoder
from tests.making import base_facts
from tests.texts import reviews, stored

from adaptlab.inspection.file_inspection import measured
from adaptlab.plugins.method import METHODS
from adaptlab.specs.model_shapes import family_shape
from adaptlab.studies.plan_fitting import fitted
from adaptlab.studies.study_drafts import (
    METHODS_OF_HEADS,
    DraftBase,
    NoDraft,
    StudyDraft,
    free_name,
    matched_budget,
    new_base_for_texts,
    task_of_file,
)
from adaptlab.text.fitting import roles_of, roles_with, task_document
from adaptlab.weights.model_folder import check_folder


def a_base() -> DraftBase:
    family = base_facts().family
    return DraftBase(
        "tiny-sort", family_shape(family).parameters, family, {"name": "sort_ascending"}
    )


@pytest.mark.parametrize(
    "methods",
    [("lora", "prefix_tuning"), ("lora", "bitfit", "frozen"), ("ia3", "soft_prompt")],
)
def test_a_proposed_budget_is_nearly_used_up(methods: tuple[str, ...]):
    base = a_base()
    budget, shape = matched_budget(methods, base), base.shape()
    assert budget is not None
    assert shape is not None
    for name in methods:
        method = METHODS.get(name).model_validate({"name": name})
        trained = method.within(shape, budget).trained_scalars(shape)
        assert trained >= 0.95 * budget or name == "frozen"


def test_a_budget_for_an_encoder_includes_the_head(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("encoders") / "sentences"
    family = check_folder(a_sentence_encoder(folder)).family
    base = DraftBase("sentences", family_shape(family).parameters, family)
    file = tmp_path_factory.mktemp("records") / "reviews.csv"
    file.write_text("text,label\n" + "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(400)))
    records = measured(file, "csv")
    roles = records.roles()
    assert roles is not None
    task = task_of_file(records, roles, base).spec["task"]
    assert isinstance(task, dict)
    assert task["score"] == "head"
    headed = base.with_head_for(task, records.facts)
    assert headed.classes == 2
    budget, alone = matched_budget(["lora"], headed), matched_budget(["lora"], base)
    assert budget is not None
    assert alone is not None
    assert budget == alone + 2 * 8 + 2


def test_without_sizes_no_budget_is_proposed():
    assert matched_budget(["lora"], DraftBase("elsewhere")) is None
    assert matched_budget(["frozen", "full_finetuning"], a_base()) is None


def test_any_field_can_be_the_answer(tmp_path_factory: pytest.TempPathFactory):
    facts = stored(tmp_path_factory.mktemp("records"), reviews(200)).facts
    guess = roles_of(facts)
    assert guess is not None
    assert (guess.text, guess.answer) == ("text", "label")
    chosen = roles_with(facts, "thing")
    assert chosen is not None
    assert (chosen.task, chosen.text, chosen.answer) == ("text_classification", "text", "thing")
    backwards = roles_with(facts, "text")
    assert backwards is not None
    assert (backwards.task, backwards.text) == ("text_completion", "thing")
    assert task_document(facts, backwards)["answer"] == {"field": "text"}
    assert roles_with(facts, "nothing") is None


@pytest.mark.parametrize("fields", ["text,label", "subject,body,label", "text,A,B,label"])
def test_a_new_base_reads_whole_items(fields: str, tmp_path: Path):
    names = fields.split(",")
    file = tmp_path / "mine.csv"
    rows = [",".join([*(f"{name} of {n}" for name in names[:-1]), "AB"[n % 2]]) for n in range(300)]
    file.write_text("\n".join([fields, *rows]))
    own = measured(file, "csv")
    roles = own.roles()
    assert roles is not None
    task = task_of_file(own, roles, new_base_for_texts(own.facts, roles, 5)).spec["task"]
    assert isinstance(task, dict)
    assert "if_longer" not in task["tokens"]


@pytest.mark.parametrize(("longest", "shown"), [(40, 8), (900, 4), (10_000, None)])
def test_a_draft_records_the_attention_of_as_many_items_as_are_not_too_large(
    longest: int, shown: int | None
):
    base = a_base()
    task: dict[str, object] = {"name": "text_completion", "tokens": {"longest": longest}}
    document = StudyDraft("own", task, base, ["lora"], [100], 5).document()
    assert document.get("capture") == (shown and {"attention": {"samples": shown}})
    assert "capture" not in StudyDraft("own", task, DraftBase("elsewhere"), [], [], 5).document()


def test_a_name_is_numbered_until_it_is_free():
    taken = {"a", "a-2"}
    assert free_name("a", taken.__contains__) == "a-3"
    assert free_name("b", taken.__contains__) == "b"


@pytest.mark.parametrize(
    ("lines", "metric", "note"),
    [
        (["text,label", *(f"text {n},{'ab'[n % 4 == 0]}" for n in range(300))], "macro_f1",
         "'a' has 225 records, 'b' 75"),
        (["text,label", *(f"text {n},{'ab'[n % 2]}" for n in range(300))], None, ""),
        (["text,label", *(f"text {n},{n % 40}" for n in range(390))], None, ""),
        (["prompt,answer", *(f"text {n},{'a long answer ' * 4}{n}" for n in range(300))],
         "token_f1", "Answers are long"),
        (["prompt,answer", *(f"text {n},{'b' * 196}{n:03}" for n in range(300))],
         "token_f1", "Answers are long"),
        (["prompt,answer", *(f"text {n},{'b' * 197}{n:03}" for n in range(300))],
         "perplexity", "Answers are so long"),
        (["prompt,answer", *(f"text {n},short {n}" for n in range(300))], None, ""),
    ],
    ids=["unbalanced", "balanced", "too many labels", "long answers", "199 bytes", "200 bytes",
         "short answers"],
)  # fmt: skip
def test_a_metric_is_proposed_with_its_reason(
    tmp_path: Path, lines: list[str], metric: str | None, note: str
):
    file = tmp_path / "mine.csv"
    file.write_text("\n".join(lines))
    report = measured(file, "csv").inspection()
    assert report.spec is not None
    task = report.spec["task"]
    assert isinstance(task, dict)
    assert task.get("metric") == metric
    assert report.splits is not None, report.notes
    assert any(note in one for one in report.notes if "metric" in one) == bool(metric)


# Plans that fit a time

LARGE = StudyDraft("tickets", {}, DraftBase("encoder", 22_000_000), METHODS_OF_HEADS, [512], 5)


def cost(draft: StudyDraft) -> float:
    """Seconds in proportion to the work; halving saves two fifths."""
    assert draft.effort is not None
    full = 0.25 * len(draft.methods) * draft.seeds * draft.effort.trials * draft.effort.steps
    return 0.6 * full if draft.effort.halves else full


def plan_of(draft: StudyDraft, minutes: float, *, may_drop: bool = True) -> tuple[int, int, int]:
    plan = fitted(draft, minutes, 1, cost, may_drop=may_drop)
    assert plan.seconds <= 60 * minutes
    assert {*plan.draft.methods, *plan.left_out} == {*draft.methods}
    effort = plan.draft.effort
    assert effort is not None
    return effort.steps, effort.trials, len(plan.draft.methods)


def test_a_plan_has_the_most_effort_that_fits():
    assert plan_of(LARGE, 1000) == (200, 5, 5)
    assert plan_of(LARGE, 40) == (100, 5, 5)
    assert plan_of(LARGE, 18) == (50, 5, 4), "methods are left out before steps get few"
    assert plan_of(LARGE, 9) == (40, 5, 3)
    assert plan_of(LARGE, 16, may_drop=False) == (40, 5, 5)


def test_where_nothing_fits_it_is_said_what_would():
    with pytest.raises(NoDraft, match=r"takes about 9: head_only, lora, ia3, 5 seeds, 5 rates, 40"):
        fitted(LARGE, 2, 1, cost, may_drop=True)
    with pytest.raises(NoDraft, match="3 seeds cannot show which method is better"):
        fitted(replace(LARGE, seeds=3), 1000, 1, cost, may_drop=True)
