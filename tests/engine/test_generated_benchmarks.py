"""Standard tasks that generate: texts and scores are those of the harness."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.engine.peft_adapters import (
    METHODS,
    drawn,
    exported,
    make_room_for_learned_positions,
    written,
)
from tests.engine.published import Pair, gpt2, llama, pair
from tests.texts import COMPLETION, Stored, byte_pairs, reviews, stored, without
from tokenizers import processors
from torch import Tensor

from adaptlab.engine.items.item_texts import item_texts
from adaptlab.engine.items.texts import texts_of
from adaptlab.engine.measuring.answering import given_answers
from adaptlab.engine.measuring.evaluate import Judged, judged
from adaptlab.engine.measuring.measuring import statistics_of
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import make_plan
from adaptlab.plugins.corpus import read_corpus
from adaptlab.plugins.metric import METRICS
from adaptlab.plugins.text_task import TextTask
from adaptlab.records.generation import Generation, ResponseFilter
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import AdaptSpec
from adaptlab.tasks.benchmark import Benchmark
from adaptlab.text.folder_tokeniser import folder_tokeniser

NO_FILTER = (ResponseFilter(name="none"),)
PROGRAM = "tests.engine.harness_generation"
LONGEST = 150
READ = 330
"""Tokens that models read; some prompts are longer than what answers leave."""
CONFIG = json.dumps({"bos_token": "<s>", "eos_token": "</s>"}).encode()
SHOTS = {"gsm8k": 1, "nq_open": 0, "letters": 2}
SCORES = {
    "gsm8k": ("strict-match", "flexible-extract"),
    "nq_open": ("remove_whitespace",),
    "letters": ("first", "last", "whole"),
}
THINGS = ("cat", "dog", "fish", "Vogel", "Kätzchen", "喝茶")
ENDS = {"bos_token_id": 0, "eos_token_id": 1}
MAKERS: Mapping[str, Callable[[], Any]] = {
    "gpt2": lambda: gpt2(vocab_size=320, n_positions=READ + 3, **ENDS),
    "llama": lambda: llama(vocab_size=320, max_position_embeddings=READ + 3, **ENDS),
}
LETTERS = {
    "task": "letters",
    "output_type": "generate_until",
    "test_split": "test",
    "fewshot_split": "train",
    "description": "Letters, {{ 'in order' | upper }}.\n\n",
    "doc_to_text": "{% for word in words %}\n- {{word}}{% endfor %}\nA: ",
    "doc_to_target": "{{targets}}",
    "target_delimiter": "",
    "generation_kwargs": {"max_gen_toks": 24, "do_sample": False},
    "metric_list": [
        {
            "metric": "exact_match",
            "aggregation": "mean",
            "higher_is_better": True,
            "ignore_case": True,
            "ignore_punctuation": True,
            "ignore_numbers": True,
            "regexes_to_ignore": ["^the ", "[ÄÖ]+"],
        }
    ],
    "filter_list": [
        {
            "name": "first",
            "filter": [
                {
                    "function": "regex",
                    "regex_pattern": r"(\w{2,})|([!-/:-~]{2,})",
                    "fallback": "none",
                },
                {"function": "uppercase"},
                {"function": "take_first"},
            ],
        },
        {
            "name": "last",
            "filter": [
                {"function": "lowercase"},
                {"function": "regex", "regex_pattern": "([0-9]+)|([a-z])", "group_select": -1},
                {"function": "take_first"},
            ],
        },
        {
            "name": "whole",
            "filter": [{"function": "remove_whitespace"}, {"function": "take_first"}],
        },
    ],
}
Texts = dict[int, str]


def documents(answers: Mapping[str, Texts]) -> dict[str, list[dict[str, Any]]]:
    """Return documents by file; every second one has a given answer."""
    found: dict[str, list[dict[str, Any]]] = {}
    if "gsm8k" in answers:
        found["gsm8k/train"] = [sums(number, "") for number in range(20, 28)]
        found["gsm8k/test"] = [sums(n, answers["gsm8k"].get(n, "")) for n in range(8)]
    if "nq_open" in answers:
        found["nq_open/train"] = [names(number, "") for number in range(20, 24)]
        found["nq_open/validation"] = [names(n, answers["nq_open"].get(n, "")) for n in range(6)]
    if "letters" in answers:
        found["letters/train"] = [letters(number, "") for number in range(40, 46)]
        found["letters/test"] = [letters(n, answers["letters"].get(n, "")) for n in range(24)]
    return found


def sums(number: int, right: str) -> dict[str, str]:
    thing = THINGS[number % 6]
    asked = f"Ann has {number} {thing}s and {number} more."
    asked = " ".join([asked] * 4) if number % 4 == 3 else asked
    return {"question": asked, "answer": f"It is\n#### {right if number % 2 else number}"}


def names(number: int, right: str) -> dict[str, Any]:
    targets = [f"the {THINGS[number % 6]}", *([f"The {right.upper()}!"] if number % 2 else [])]
    return {"question": f"who sings {THINGS[number % 6]} {number}", "answer": targets}


def letters(number: int, right: str) -> dict[str, Any]:
    targets = ["wrong", *([f"the {right.lower()}"] if number % 2 else ["never"])]
    words = [THINGS[number % 6]] * (1 + 9 * (number % 5 == 4)) + [str(number)]
    return {"words": words, "targets": targets}


def program(folder: Path, **request: Any) -> Any:
    """Return what the harness answers, in a process of its own."""
    asked, answered = folder / "asked.json", folder / "answered.json"
    asked.write_text(json.dumps(request))
    command = [sys.executable, "-m", PROGRAM, str(asked), str(answered)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(answered.read_text())


def staged(
    folder: Path, answers: Mapping[str, Texts], until: Sequence[str] = ("@@@",)
) -> dict[str, Stored]:
    """Return the datasets of tasks whose documents have these answers."""
    for place, rows in documents(answers).items():
        path = folder / f"{place}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    generation = {**LETTERS["generation_kwargs"], "until": [*until]}
    (folder / "own").mkdir()
    own = json.dumps({**LETTERS, "generation_kwargs": generation})  # JSON is YAML
    (folder / "own" / "letters.yaml").write_text(own)
    found = program(folder, wanted="staged", **request(folder, answers))
    return {task: stored(folder, one["records"], one["name"]) for task, one in found.items()}


def request(folder: Path, tasks: Iterable[str]) -> dict[str, Any]:
    """Return the tasks of a folder, for the harness."""
    files = {"letters": str(folder / "own" / "letters.yaml")}
    return {"data": str(folder), "tasks": {task: SHOTS[task] for task in tasks}, "files": files}


@dataclass(frozen=True)
class Bench:
    """A tiny model, its tokeniser, and what is attached to it."""

    both: Pair
    tokeniser: bytes
    method: Any
    tensors: Mapping[str, Tensor]
    own: Stored

    def engine(self, data: Mapping[str, Stored], **changes: Any) -> Model:
        """Return the engine's model, which watches all scores of both tasks."""
        every = [self.own, *data.values()]
        facts = BaseModelFacts(
            name="base", digest="0" * 64, family=self.both.ours.family, task=None, replicates=1
        )
        watched = [
            {"name": "benchmark", "tasks": [task], "shots": SHOTS[task], "score": score, **changes}
            for task in data
            for score in SCORES[task]
        ]
        spec = AdaptSpec.model_validate(
            {
                "base_model": "base",
                "task": without(COMPLETION, tokens={"longest": 56, "answer": 20}),
                "method": "lora",
                "budget": {"trainable_parameters": 400},
                "evaluation": {"tasks": watched, "samples": 8, "shown": 2},
            }
        )
        job = resolve(spec, facts, {one.facts.name: one.facts for one in every})
        files = {"tokenizer.json": self.tokeniser, "tokenizer_config.json": CONFIG}
        tokeniser = folder_tokeniser(files, 320)
        sources = {key: one for stored in every for key, one in stored.source(tokeniser).items()}
        plan = make_plan(job.model_copy(update={"method": self.method}), "cpu", {}, sources)
        base = {name: tensor.unsqueeze(0) for name, tensor in self.both.ours.tensors.items()}
        return Model(plan, base, {name: t.unsqueeze(0) for name, t in self.tensors.items()})


def a_bench(maker: str, kind: str, folder: Path) -> Bench:
    """Return a bench, with its model, adapter and tokeniser in the folder."""
    tokenizer = byte_pairs([*THINGS, "It is #### 12.", "Ann has 3 and 4 more"] * 3)
    if maker == "llama":
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 0)]
        )
    tokenizer.save(str(folder / "tokenizer.json"))
    both = pair(MAKERS[maker], folder / "model", double=False)
    method, tensors = METHODS["lora-everywhere"](both), {}
    if kind != "none":
        method = METHODS[kind](both)
        tensors = drawn(method, both)
        written(folder / "adapter", exported(both, method, tensors))
        if kind in ("soft-prompt", "prefix"):
            make_room_for_learned_positions(both)
            both.theirs.save_pretrained(folder / "model")
    own = stored(folder, reviews(60))
    return Bench(both, (folder / "tokenizer.json").read_bytes(), method, tensors, own)


def scored(model: Model, task: TextTask, batch: int | None = None) -> Judged:
    """Return all answers of a model to a task."""
    samples = task.available("test")
    assert samples is not None
    with pytest.MonkeyPatch.context() as patch:
        if batch is not None:
            of = "adaptlab.engine.measuring.evaluate.items_kept_at_once"
            patch.setattr(of, lambda *_: batch)
        return judged(
            model, task, "test", samples, 1, attached=bool(model.trained), with_loss=False
        )


def texts(task: TextTask, found: Judged) -> Texts:
    """Return the answers by document."""
    of = item_texts(task)
    records = texts_of(task).of_split["test"].tolist()
    return {
        record: task.without_stop(of.written(first))
        for record, (first, *_) in zip(records, found.told[0], strict=True)
    }


def read(task: Benchmark, answers: Texts) -> Texts:
    """Return what the task's filter reads of answers."""
    judge = task.answer_judge()
    assert judge is not None
    return {number: judge.read(text, ["-"]) or "" for number, text in answers.items()}


def tasks_of(model: Model) -> list[Benchmark]:
    return [task for task in model.plan.evaluation_tasks() if isinstance(task, Benchmark)]


def theirs(folder: Path, data: Path, tasks: Iterable[str], longest: int) -> Any:
    """Return the answers of the harness, one item at a time."""
    adapter = folder / "adapter"
    return program(
        folder,
        wanted="judged",
        model=str(folder / "model"),
        adapter=str(adapter) if adapter.exists() else None,
        tokenizer=str(folder / "tokenizer.json"),
        longest=longest,
        batch=1,
        **request(data, tasks),
    )


def stops(answers: Sequence[str]) -> tuple[str, ...]:
    """Return a short text that is in about half of the answers, if any is."""
    tried = {text for one in answers for text in re.findall(r"(?=([ -~]{2}))", one[2:])}
    shares = {text: sum(text in one for one in answers) / len(answers) for text in tried}
    return tuple(sorted(tried, key=lambda text: (abs(shares[text] - 0.5), text))[:1])


def by_number(texts: Mapping[str, str]) -> Texts:
    return {int(number): text for number, text in texts.items()}


def compared(model: Model, found: Any) -> list[float]:
    """Compare texts and scores with those of the harness; return scores."""
    scores: list[float] = []
    for task in tasks_of(model):
        judged, own = scored(model, task), found[task.tasks[0]]
        given = texts(task, judged)
        assert given == by_number(own["texts"])
        assert given == texts(task, scored(model, task, batch=3))
        assert read(task, given) == by_number(own["read"][task.score])
        scores.append(judged.right.double().mean().item())
        assert scores[-1] == pytest.approx(own["scores"][task.score])
    return scores


@pytest.mark.long("every combination")
def test_published_tasks_give_the_texts_and_scores_of_the_harness(tmp_path: Path) -> None:
    bench, limits = a_bench("llama", "none", tmp_path), {"tokens": {"longest": READ}}
    tasks = ("gsm8k", "nq_open")
    # The prompts of items do not depend on their answers, so half of these can be made right.
    model = bench.engine(staged(tmp_path / "first", {task: {} for task in tasks}), **limits)
    _, flexible, other = tasks_of(model)
    answers = {
        "gsm8k": read(flexible, texts(flexible, scored(model, flexible))),
        "nq_open": texts(other, scored(model, other)),
    }
    model = bench.engine(staged(tmp_path / "data", answers), **limits)
    compared(model, theirs(tmp_path, tmp_path / "data", tasks, READ))


@pytest.mark.long("every combination", but=1)
@pytest.mark.parametrize(
    ("maker", "kind"),
    [
        ("gpt2", "none"),
        ("llama", "lora-everywhere"),
        ("gpt2", "soft-prompt"),
        ("llama", "prefix"),
    ],
)
def test_texts_and_scores_are_those_of_the_harness(maker: str, kind: str, tmp_path: Path) -> None:
    bench, limits = a_bench(maker, kind, tmp_path), {"tokens": {"longest": LONGEST}}
    model = bench.engine(staged(tmp_path / "first", {"letters": {}}), **limits)
    first, *_ = tasks_of(model)
    whole = texts(first, scored(model, first))
    until = (*stops(list(whole.values())), "<s>")  # the last is a token without text
    cut = Generation(until=until, tokens=24, filters=NO_FILTER)
    answers = read(first, {number: cut.cut(text) for number, text in whole.items()})
    data = staged(tmp_path / "data", {"letters": answers}, cut.until)
    model = bench.engine(data, **limits)
    scores = compared(model, theirs(tmp_path, tmp_path / "data", ["letters"], LONGEST))
    assert scores[0] >= 0.5
    first, *_ = tasks_of(model)
    shares = statistics_of(first, "test", METRICS.get("cut_share"), scored(model, first))
    assert shares.mean() < 1, "some answers stop"
    assert 0 < read_corpus(first).cut < len(whole)
    shown = given_answers(model, first, 4, 1, attached=bool(model.trained))
    assert [one.text for one in shown[0]] == [
        texts(first, scored(model, first))[record]
        for record in texts_of(first).of_split["test"].tolist()[:4]
    ]
