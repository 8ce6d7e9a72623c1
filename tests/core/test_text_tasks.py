"""Tasks over records: what a spec may say, and what is refused."""

import math
from pathlib import Path
from typing import Any

import pytest
from tests.folders import a_bert_folder, a_sentence_encoder
from tests.texts import (
    CLASSIFICATION,
    COMPLETION,
    QUIZ,
    Stored,
    quizzes,
    reviews,
    stored,
    without,
)

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.families.minigpt import MiniGPT
from adaptlab.plugins.generated_words import NAME as GENERATED
from adaptlab.records.buckets import bucket_of
from adaptlab.records.content import read_content
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.cost import Work, work
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import AdaptSpec, Choice, PretrainSpec
from adaptlab.studies.study import StudySpec
from adaptlab.studies.study_expansion import expand
from adaptlab.text.splitting import EVERY_SPLIT, SplitsByValue
from adaptlab.text.template import BadTemplate, parsed
from adaptlab.weights.model_folder import check_folder

HEAD = without(CLASSIFICATION, label={"field": "label"}, score="head", tokens={"longest": 36})
MINIGPT = {"name": "minigpt", "layers": 1, "heads": 2, "width": 8}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), reviews(400))


def problems(data: Stored, document: dict[str, Any]) -> dict[str, str]:
    """The codes of a task's problems, by their pointers."""
    with pytest.raises(InvalidSpec) as caught:
        resolve_task(Choice.model_validate(document), "/task", data.datasets)
    return {problem.pointer: problem.code for problem in caught.value.problems}


def label(**words: str) -> dict[str, Any]:
    return {"field": "label", "words": words}


WRONG: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "a brace alone": ({"prompt": "{text} {"}, {"/task/prompt": "bad_template"}),
    "code": ({"prompt": "{text!r}"}, {"/task/prompt": "unknown_field"}),
    "an attribute": ({"prompt": "{text.__class__}"}, {"/task/prompt": "unknown_field"}),
    "empty braces": ({"prompt": "{}"}, {"/task/prompt": "bad_template"}),
    "no field": ({"prompt": "It is"}, {"/task/prompt": "no_field"}),
    "another field": ({"prompt": "{title}"}, {"/task/prompt": "unknown_field"}),
    "the answer": ({"prompt": "{text} {label}"}, {"/task/prompt": "answer_in_prompt"}),
    "no such dataset": ({"dataset": "others"}, {"/task/dataset": "unknown_dataset"}),
    "no such label field": (
        {"label": {"field": "class", "words": {"a": "+", "b": "-"}}},
        {"/task/label/field": "unknown_field"},
    ),
    "not labels": (
        {"prompt": "{thing}", "label": {"field": "text", "words": {"a": "+", "b": "-"}}},
        {"/task/label/field": "too_many_labels"},
    ),
    "a label without word": (
        {"label": {"field": "label", "words": {"pos": "+", "other": "-"}}},
        {"/task/label/words": "no_such_label"},
    ),
    "equal words": ({"label": label(pos="+", neg="+")}, {"/task/label/words": "word_twice"}),
    "a brace in a word": (
        {"label": label(pos=" {thing", neg="-")}, {"/task/label/words/pos": "bad_template"}
    ),
    "an unknown field in a word": (
        {"label": label(pos=" {title}", neg="-")}, {"/task/label/words/pos": "unknown_field"}
    ),
    "code in a word": (
        {"label": label(pos=" {thing.__class__}", neg=" {0}")},
        {"/task/label/words/pos": "unknown_field", "/task/label/words/neg": "unknown_field"},
    ),
    "the answer in a word": (
        {"label": label(pos=" {label}", neg=" {thing}")},
        {"/task/label/words/pos": "answer_in_word"},
    ),
    "the same choice twice": (
        {"label": label(pos=" {thing}", neg=" {thing}")}, {"/task/label/words": "word_twice"}
    ),
    "no room": (
        {"tokens": {"longest": 4, "answer": 4}}, {"/task/tokens/longest": "no_room_for_prompt"}
    ),
    "cut elsewhere": (
        {"tokens": {"answer": 1, "cut": {"field": "thing"}}},
        {"/task/tokens/cut/field": "not_in_prompt"},
    ),
    "split by no field": ({"splits": {"by": "id"}}, {"/task/splits/by": "unknown_field"}),
    "nothing to train": (
        {"splits": {"validation": 0.5, "test": 0.5}}, {"/task/splits/test": "no_training_items"}
    ),
    "a field that names no splits": (
        {"splits": {"field": "thing"}}, {"/task/splits/field": "not_a_split"}
    ),
    "score": ({"score": "generation"}, {"/task/score": "literal_error"}),
    "words of a head": (
        {"score": "head"},
        {"/task/label/words": "words_of_head", "/task/tokens/answer": "answer_of_head"},
    ),
    "no words": ({"label": {"field": "label"}}, {"/task/label/words": "missing"}),
    "classes of words": (
        {"label": {**CLASSIFICATION["label"], "classes": ["neg", "pos"]}},
        {"/task/label/classes": "classes_of_words"},
    ),
    "a label without a class": (
        {**HEAD, "label": {"field": "label", "classes": ["neg", "good"]}},
        {"/task/label/classes": "no_such_label"},
    ),
    "another calibration": (
        {"calibration": "some_input"}, {"/task/calibration": "literal_error"}
    ),
    "the calibration of a head": (
        {**HEAD, "calibration": "empty_input"}, {"/task/calibration": "calibration_of_head"}
    ),
    "a class twice": (
        {**HEAD, "label": {"field": "label", "classes": ["neg", "pos", "pos"]}},
        {"/task/label/classes": "class_twice"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_task_is_refused_at_its_place(data: Stored, name: str):
    change, expected = WRONG[name]
    assert problems(data, without(CLASSIFICATION, **change)) == expected


def test_the_place_of_a_brace_in_a_word_is_reported(data: Stored):
    words = {"pos": "  {", "neg": "{}"}
    document = without(CLASSIFICATION, label={"field": "label", "words": words})
    with pytest.raises(InvalidSpec) as caught:
        resolve_task(Choice.model_validate(document), "/task", data.datasets)
    columns = {problem.pointer: problem.column for problem in caught.value.problems}
    assert columns == {"/task/label/words/pos": 3, "/task/label/words/neg": 1}


def test_a_label_with_a_slash_has_a_pointer_of_its_own(tmp_path: Path):
    records = [{"text": f"t {n}", "label": ("a/b", "~c")[n % 2]} for n in range(40)]
    words = {"a/b": " {x}", "~c": " {y}"}
    document = without(CLASSIFICATION, label={"field": "label", "words": words})
    assert problems(stored(tmp_path, records), document) == {
        "/task/label/words/a~1b": "unknown_field",
        "/task/label/words/~0c": "unknown_field",
    }


def test_a_dataset_of_one_class_is_refused(tmp_path: Path):
    same = stored(tmp_path, [{"text": f"text {n}", "label": "pos"} for n in range(50)])
    assert problems(same, without(CLASSIFICATION, label=label(pos="+", neg="-"))) == {
        "/task/label/field": "one_label",
        "/task/label/words": "no_such_label",
    }


def test_words_and_records_are_not_taken_for_each_other(data: Stored):
    words: Any = data.datasets
    assert problems(data, {"name": "word_translation", "dataset": "reviews"}) == {
        "/task/dataset": "not_words"
    }
    assert problems(data, without(CLASSIFICATION, dataset=GENERATED)) == {
        "/task/dataset": "unknown_dataset"
    }
    assert set(words) == {"reviews"}


def test_empty_answers_are_refused_with_their_number(tmp_path: Path):
    records = [{"text": f"t{n}", "thing": "" if n % 5 == 0 else "x"} for n in range(100)]
    found = stored(tmp_path, records)
    with pytest.raises(InvalidSpec, match=r"20 records of 'reviews' have an empty 'thing'"):
        found.task(COMPLETION)


def test_sizes_of_splits_are_those_of_the_records(data: Stored):
    task = data.task(CLASSIFICATION)
    rule, counts = task.split_rule(), dict.fromkeys(EVERY_SPLIT, 0)
    with data.path.open("rb") as file:
        for record in read_content(file, data.facts.digest):
            counts[rule.split_of(record)] += 1
    assert counts == {split: task.available(split) for split in EVERY_SPLIT}
    assert 0.1 < counts["test"] / 400 < 0.3
    assert 0.03 < counts["validation"] / 400 < 0.2


def test_equal_and_nearly_equal_texts_are_in_one_split():
    rule = SplitsByValue(by="text")
    near = ["A fine film!", "a fine  film", "A FINE FILM...", "a fine film"]
    assert len({rule.split_of({"text": text}) for text in near}) == 1
    assert len({bucket_of(f"text {n}") for n in range(500)}) > 300


def test_a_field_names_the_splits(tmp_path: Path):
    names = ["train"] * 6 + ["dev"] * 2 + ["Test"] * 2
    records = [{**record, "part": names[n % 10]} for n, record in enumerate(reviews(100))]
    task = stored(tmp_path, records).task(without(CLASSIFICATION, splits={"field": "part"}))
    assert [task.available(split) for split in EVERY_SPLIT] == [60, 20, 20]


def test_a_split_without_records_is_refused(tmp_path: Path):
    records = [{**record, "part": "train"} for record in reviews(50)]
    found = stored(tmp_path, records)
    wrong = without(CLASSIFICATION, splits={"field": "part"})
    assert problems(found, wrong) == {"/task/splits": "empty_split"}


def test_chance_is_the_share_of_the_most_common_label(data: Stored):
    positive = sum(record["label"] == "pos" for record in reviews(400)) / 400
    assert data.task(CLASSIFICATION).chance() == positive > 0.5


def test_chance_of_own_choices_is_that_of_guessing(tmp_path: Path):
    quiz = stored(tmp_path, quizzes(200)).task(QUIZ)
    assert quiz.chance() == 1 / 3
    assert quiz.chance_loss() == math.log(3)
    majority = quiz.reference_to_records().majority
    assert majority == sum(record["answer"] == "A" for record in quizzes(200)) / 200 > 0.4
    assert quiz.listed_answers() == {"A": None, "B": None, "C": None}


def test_own_choices_have_as_much_room_as_a_completion(tmp_path: Path):
    data = stored(tmp_path, quizzes(60))
    assert data.task(without(QUIZ, tokens={"longest": 64})).answer_tokens() == 32
    escaped = {"A": " {{a}}", "B": " {{b}}", "C": " {{c}}"}
    task = data.task(without(QUIZ, label={"field": "answer", "words": escaped}, tokens={}))
    assert not task.has_own_choices()
    assert task.answer_tokens() == len(" {a}")
    assert task.listed_answers() == {"A": " {a}", "B": " {b}", "C": " {c}"}


def test_items_to_score_are_no_more_than_there_are(data: Stored):
    spec = {"name": "base", "family": MINIGPT, "task": dict(CLASSIFICATION)}
    resolved = resolve(PretrainSpec.model_validate(spec), None, data.datasets)
    task = data.task(CLASSIFICATION)
    assert resolved.evaluation_samples == task.available("test") < 3200
    assert resolved.validation_samples == task.available("validation") < 640
    assert resolved.family.shape().vocabulary == 257


def pretrained_on_texts(data: Stored) -> BaseModelFacts:
    spec = PretrainSpec.model_validate(
        {"name": "base", "family": MINIGPT, "task": dict(CLASSIFICATION)}
    )
    trained = resolve(spec, None, data.datasets)
    return BaseModelFacts(
        name="base", digest="0" * 64, family=trained.family, task=trained.task, replicates=1
    )


def adaptation(data: Stored, base: dict[str, Any], **changes: Any) -> Problem:
    facts = pretrained_on_texts(data).model_copy(update=base)
    asked = {"base_model": "base", "task": dict(CLASSIFICATION), "method": "bitfit", **changes}
    with pytest.raises(InvalidSpec) as caught:
        resolve(AdaptSpec.model_validate(asked), facts, data.datasets)
    return caught.value.problems[0]


def test_what_cannot_read_texts_is_refused(data: Stored):
    without_tokeniser = adaptation(data, {"has_tokeniser": False})
    assert (without_tokeniser.pointer, without_tokeniser.code) == ("/base_model", "no_tokeniser")
    suffix = adaptation(data, {}, method="suffix_tuning", budget={"trainable_parameters": 64})
    assert (suffix.pointer, suffix.code) == ("/method", "questions_differ_in_length")


@pytest.mark.parametrize(
    ("asked", "pointer", "code"),
    [
        ({"inputs": [[1, 2]]}, "inputs", "inputs_of_texts"),
        ({"samples": 0}, "samples", "no_such_items"),
        ({"samples": 64}, "samples", "no_such_items"),
    ],
)
def test_attention_is_recorded_over_test_items(
    data: Stored, asked: dict[str, object], pointer: str, code: str
):
    task = without(CLASSIFICATION, splits={"validation": 0.1, "test": 0.05})
    problem = adaptation(data, {}, task=task, capture={"attention": asked})
    assert (problem.pointer, problem.code) == (f"/capture/attention/{pointer}", code)


def test_a_base_of_few_tokens_cannot_read_bytes(data: Stored):
    spec = {"name": "base", "family": MINIGPT, "task": "sort_ascending"}
    digits = resolve(PretrainSpec.model_validate(spec), None)
    problem = adaptation(data, {"family": digits.family, "task": digits.task})
    assert (problem.pointer, problem.code) == ("/task", "vocabulary_too_small")


def test_a_template_names_fields_and_nothing_else():
    template = parsed("{a}: {{x}} {b} and {a}")
    assert template.fields == ("a", "b")
    rendered = template.rendered({"a": "{b}", "b": "2"})
    assert rendered.text == "{b}: {x} 2 and {b}"
    assert rendered.text[rendered.spans["b"]] == "2"
    for text, column in (("a } b", 3), ("{", 1), ("{a {b}", 1), ("x{ }", 2)):
        with pytest.raises(BadTemplate) as caught:
            parsed(text)
        assert caught.value.column == column


def test_a_head_answers_only_tasks_with_its_classes(data: Stored):
    backwards = {"field": "label", "classes": ["pos", "neg"]}
    turned = adaptation(data, {}, task=HEAD, evaluation={"tasks": [{**HEAD, "label": backwards}]})
    assert (turned.pointer, turned.code) == ("/evaluation/tasks/0", "no_such_head")
    assert "for the classes 'pos', 'neg', in this order" in turned.detail
    words = adaptation(data, {}, task=HEAD, evaluation={"tasks": [dict(CLASSIFICATION)]})
    assert (words.pointer, words.code) == ("/evaluation/tasks/0", "other_head")
    untrained = adaptation(data, {}, evaluation={"tasks": [HEAD]})
    assert (untrained.pointer, untrained.code) == ("/evaluation/tasks/0", "no_such_head")


def test_a_head_belongs_to_an_adaptation(data: Stored):
    spec = PretrainSpec.model_validate({"name": "base", "family": MINIGPT, "task": HEAD})
    with pytest.raises(InvalidSpec, match="answers with tokens"):
        resolve(spec, None, data.datasets)


def test_a_model_that_would_see_padding_has_no_head(data: Stored):
    family = MiniGPT.model_validate({**MINIGPT, "attention": "bidirectional"}).resolved(257, 40)
    problem = adaptation(data, {"family": family}, task=HEAD)
    assert (problem.pointer, problem.code) == ("/task", "no_heads_in_family")


def test_a_decoder_reads_no_text_after_a_word(data: Stored):
    problem = adaptation(data, {}, task={**CLASSIFICATION, "after": "."})
    assert (problem.pointer, problem.code) == ("/task/after", "nothing_read_after")


def test_encoders_fill_in_label_words_only(data: Stored, tmp_path: Path):
    whole = check_folder(a_bert_folder(tmp_path / "bert", vocabulary=300)).family
    alone = check_folder(a_sentence_encoder(tmp_path / "sentences", vocabulary=300)).family
    bare = {**CLASSIFICATION, "tokens": {"longest": 24, "answer": 1}}
    own = {**bare, "label": {"field": "label", "words": {"neg": " no {thing}", "pos": " {thing}"}}}
    completion = {**COMPLETION, "tokens": {"longest": 24, "answer": 4}}
    refused = [(whole, own), (whole, completion), (alone, bare)]
    problems = [adaptation(data, {"family": f, "task": None}, task=task) for f, task in refused]
    assert [(problem.pointer, problem.code) for problem in problems] == [
        ("/task/label/words", "own_words_from_encoders"),
        ("/task", "no_words_from_encoders"),
        ("/task", "no_token_head"),
    ]
    facts = BaseModelFacts(name="base", digest="0" * 64, family=whole, task=None, replicates=1)
    spec = {"base_model": "base", "method": "bitfit", "task": {**bare, "after": "."}}
    accepted = resolve(AdaptSpec.model_validate(spec), facts, data.datasets)
    assert accepted.task.target_length() == 1
    longer = {**spec, "task": {**bare, "tokens": {"longest": 33, "answer": 1}}}
    with pytest.raises(InvalidSpec, match="needs a context of 33"):
        resolve(AdaptSpec.model_validate(longer), facts, data.datasets)


def test_a_model_that_would_see_padding_has_no_label_words(data: Stored):
    spec = {"name": "base", "family": {**MINIGPT, "attention": "bidirectional"}}
    with pytest.raises(InvalidSpec) as caught:
        resolve(PretrainSpec.model_validate({**spec, "task": CLASSIFICATION}), None, data.datasets)
    assert [problem.code for problem in caught.value.problems] == ["no_words_in_family"]


def test_the_tasks_of_a_study_need_the_same_head(data: Stored):
    facts = pretrained_on_texts(data)
    document = {
        "name": "heads",
        "base_models": ["base"],
        "tasks": [HEAD, dict(CLASSIFICATION)],
        "methods": ["lora"],
        "budgets": [200],
    }
    with pytest.raises(InvalidSpec) as caught:
        expand(StudySpec.model_validate(document), [facts], 100, data.datasets)
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == ("/tasks/1", "other_head")


def test_the_base_s_own_tasks_are_not_scored_with_another_head(data: Stored):
    spec = {"base_model": "base", "task": HEAD, "method": "head_only"}
    resolved = resolve(AdaptSpec.model_validate(spec), pretrained_on_texts(data), data.datasets)
    assert resolved.base_tasks == ()
    assert resolved.budget.tensors == {"unembed.weight": 16, "unembed.bias": 2}


def many_labels(folder: Path, count: int) -> Stored:
    records = [{"text": f"text {n}", "label": f"{n % count:02}"} for n in range(4 * count)]
    return stored(folder, records)


def test_macro_f1_needs_counts_of_labels(tmp_path: Path):
    by_f1 = {**HEAD, "prompt": "{text}", "metric": "macro_f1"}
    few, many = many_labels(tmp_path, 32), many_labels(tmp_path, 33)
    assert few.task(by_f1).other_metric() == "macro_f1"
    assert problems(many, by_f1) == {"/task/metric": "too_many_labels"}
    assert many.task({**by_f1, "metric": "accuracy"}).other_metric() is None


def test_token_f1_is_of_completions_and_takes_passes_of_decoding(data: Stored):
    by_f1 = data.task({**COMPLETION, "metric": "token_f1"})
    assert by_f1.other_metric() == "token_f1"
    assert (by_f1.target_length(), by_f1.passes_of_decoding()) == (6, 1)
    assert data.task(COMPLETION).passes_of_decoding() == 0
    with pytest.raises(InvalidSpec):
        data.task({**CLASSIFICATION, "metric": "token_f1"})


STOPS: dict[str, Any] = {"early_stopping": {"patience": 3}}


def test_decoding_is_part_of_the_estimate(data: Stored):
    family = MiniGPT.model_validate(MINIGPT).resolved(257, 64)
    facts = pretrained_on_texts(data).model_copy(update={"family": family, "task": None})

    def cost(metric: str, **training: Any) -> Work:
        spec = {
            "base_model": "base",
            "task": {**COMPLETION, "metric": metric},
            "method": "lora",
            "budget": {"trainable_parameters": 200},
            "training": training,
        }
        return work(resolve(AdaptSpec.model_validate(spec), facts, data.datasets))

    plain, decoding = cost("exact_match"), cost("token_f1")
    assert decoding.training == plain.training
    assert decoding.evaluation.flops == 2 * plain.evaluation.flops
    unvalidated = cost("exact_match", validations=0)
    validations = plain.training.flops - unvalidated.training.flops
    added = cost("token_f1", **STOPS).training.flops - plain.training.flops
    assert added == validations > 0
    for metric in ("exact_match", "perplexity"):
        assert cost(metric, **STOPS).training == plain.training
