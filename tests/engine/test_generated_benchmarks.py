"""Standard tasks that generate: texts and scores are those of the harness."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
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
from adaptlab.engine.measuring.evaluate import Judged, judged
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import make_plan
from adaptlab.plugins.text_task import TextTask
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import AdaptSpec
from adaptlab.tasks.benchmark import Benchmark
from adaptlab.text.folder_tokeniser import folder_tokeniser

PROGRAM = "tests.engine.harness_generation"
READ = 330
"""Tokens that the harness lets a model read; some prompts are longer than what answers leave."""
CONFIG = json.dumps({"bos_token": "<s>", "eos_token": "</s>"}).encode()
SHOTS = {"gsm8k": 1, "nq_open": 0}
SCORES = {"gsm8k": ("strict-match", "flexible-extract"), "nq_open": ("remove_whitespace",)}
THINGS = ("cat", "dog", "fish", "Vogel", "Kätzchen", "喝茶")
MAKERS: Mapping[str, Callable[[], Any]] = {
    "gpt2": lambda: gpt2(vocab_size=320, n_positions=READ + 3, **ENDS),
    "llama": lambda: llama(vocab_size=320, max_position_embeddings=READ + 3, **ENDS),
}
ENDS = {"bos_token_id": 0, "eos_token_id": 1}
Texts = dict[int, str]


def documents(answers: Mapping[str, Texts]) -> dict[str, list[dict[str, Any]]]:
    """Return documents by file; every second one has a given answer."""

    def sums(number: int, split: str) -> dict[str, str]:
        thing = THINGS[number % 6]
        asked = f"Ann has {number} {thing}s and {number} more of {split}."
        asked = " ".join([asked] * 4) if number % 4 == 3 else asked
        right = answers["gsm8k"].get(number, "") if split == "test" and number % 2 else ""
        return {"question": asked, "answer": f"It is\n#### {right or number}"}

    def names(number: int) -> dict[str, Any]:
        right = answers["nq_open"].get(number, "") if number % 2 else ""
        targets = [f"the {THINGS[number % 6]}", *([f"The {right.upper()}!"] if right else [])]
        return {"question": f"who sings {THINGS[number % 6]} {number}", "answer": targets}

    return {
        "gsm8k/train": [sums(number, "train") for number in range(8)],
        "gsm8k/test": [sums(number, "test") for number in range(12)],
        "nq_open/train": [names(number) for number in range(20, 24)],
        "nq_open/validation": [names(number) for number in range(10)],
    }


def program(folder: Path, **request: Any) -> Any:
    """Return what the harness answers, in a process of its own."""
    asked, answered = folder / "asked.json", folder / "answered.json"
    asked.write_text(json.dumps(request))
    command = [sys.executable, "-m", PROGRAM, str(asked), str(answered)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(answered.read_text())


def staged(folder: Path, answers: Mapping[str, Texts]) -> dict[str, Stored]:
    """Return the datasets of both tasks whose documents have these answers."""
    folder.mkdir(exist_ok=True)
    for place, rows in documents(answers).items():
        path = folder / f"{place}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    found = program(folder, wanted="staged", data=str(folder), tasks=SHOTS)
    return {task: stored(folder, one["records"], one["name"]) for task, one in found.items()}


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


def harness(bench: Bench, folder: Path, data: Path, batch: int) -> Any:
    adapter = folder / "adapter"
    found = program(
        folder,
        wanted="judged",
        model=str(folder / "model"),
        adapter=str(adapter) if adapter.exists() else None,
        tokenizer=str(folder / "tokenizer.json"),
        data=str(data),
        tasks=SHOTS,
        longest=READ,
        batch=batch,
    )
    assert bench.tokeniser
    return found


def by_number(texts: Mapping[str, str]) -> Texts:
    return {int(number): text for number, text in texts.items()}


@pytest.mark.long("every combination", but=1)
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("kind", ["none", "lora-everywhere", "soft-prompt", "prefix"])
def test_texts_and_scores_are_those_of_the_harness(maker: str, kind: str, tmp_path: Path) -> None:
    bench = a_bench(maker, kind, tmp_path)
    limits = {"tokens": {"longest": READ}}
    # The prompts of items do not depend on their answers, so half of these can be made right.
    model = bench.engine(staged(tmp_path / "first", {"gsm8k": {}, "nq_open": {}}), **limits)
    _, flexible, names = tasks_of(model)
    answers = {
        "gsm8k": read(flexible, texts(flexible, scored(model, flexible))),
        "nq_open": texts(names, scored(model, names)),
    }
    model = bench.engine(staged(tmp_path / "data", answers), **limits)
    theirs = harness(bench, tmp_path, tmp_path / "data", 1)
    for task in tasks_of(model):
        found, own = scored(model, task), theirs[task.tasks[0]]
        given = texts(task, found)
        assert given == by_number(own["texts"])
        assert given == texts(task, scored(model, task, batch=3))
        assert read(task, given) == by_number(own["read"][task.score])
        assert found.right.double().mean().item() == pytest.approx(own["scores"][task.score])
        import sys as _s

        print(
            task.score,
            own["scores"][task.score],
            task.tasks,
            [len(t) for t in given.values()],
            file=_s.stderr,
        )
