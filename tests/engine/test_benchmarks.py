"""Standard tasks: likelihoods and scores are those of the harness."""

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from tests.benchmarks import TASKS, TEXTS, a_plain_tokeniser, write_documents
from tests.engine.peft_adapters import (
    METHODS,
    drawn,
    exported,
    loaded,
    make_room_for_learned_positions,
)
from tests.engine.published import Pair, gpt2, llama, pair
from tests.texts import COMPLETION, Stored, reviews, stored, without
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from adaptlab.engine.items.item_texts import item_texts
from adaptlab.engine.items.requests import RequestItems
from adaptlab.engine.items.task_items import scored_items
from adaptlab.engine.items.texts import texts_of
from adaptlab.engine.measuring.answering import given_answers
from adaptlab.engine.measuring.evaluate import judged
from adaptlab.engine.measuring.measuring import statistics_of
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import make_plan
from adaptlab.plugins.corpus import read_corpus
from adaptlab.plugins.metric import measured_on
from adaptlab.plugins.registry import as_json
from adaptlab.plugins.text_task import TextTask
from adaptlab.records.rendered_items import TEXT_METRICS
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.spec import AdaptSpec
from adaptlab.text.folder_tokeniser import folder_tokeniser
from adaptlab.text.tokeniser import loaded as loaded_tokeniser
from adaptlab_client.machine.benchmark_items import RenderedTask, rendered

pytestmark = [
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning"),
]

PAGES = 5
READ = 150
"""Tokens that the harness lets a model read; some items are longer."""
CONFIG = json.dumps({"bos_token": "<s>", "eos_token": "</s>"}).encode()
"""One of the two tokenisers names a first token without writing it."""
SHOTS = {"arc_easy": 2, "hellaswag": 1, "lambada_openai": 0, TEXTS: 0}
MAKERS: Mapping[str, Callable[[], Any]] = {
    "gpt2": lambda: gpt2(vocab_size=320, n_positions=READ + 3),
    "llama": lambda: llama(vocab_size=320, max_position_embeddings=READ + 3),
}
Likelihoods = dict[tuple[str, int, int], float]
"""Log-likelihoods by task, document, and place of the choice."""
Scores = Literal["acc", "acc_norm"]


@dataclass(frozen=True)
class Staged:
    """The documents of the tasks, and their items as datasets."""

    documents: Mapping[str, Path]
    items: Mapping[str, RenderedTask]
    datasets: Mapping[str, Stored]
    own: Stored


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staged]:
    def refused(*_: Any) -> None:
        raise OSError("no network")

    folder = tmp_path_factory.mktemp("benchmarks")
    documents = write_documents(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refused)
        items = {task: rendered(task, SHOTS[task], path) for task, path in documents.items()}
        kept = {task: stored(folder, one.records(), one.name) for task, one in items.items()}
        yield Staged(documents, items, kept, stored(folder, reviews(60)))


@dataclass(frozen=True)
class Bench:
    """A tiny model beside that of the library, and the tasks for it."""

    both: Pair
    tokeniser: bytes
    staged: Staged
    tasks: tuple[str, ...] = TASKS

    def engine(self, method: Any, tensors: Mapping[str, Tensor], score: Scores = "acc") -> Model:
        """The engine's model with a method's tensors, which watches the tasks."""
        every = [self.staged.own, *self.staged.datasets.values()]
        facts = BaseModelFacts(
            name="base", digest="0" * 64, family=self.both.ours.family, task=None, replicates=1
        )
        watched = [
            {
                "name": "benchmark",
                "tasks": [task],
                "shots": SHOTS[task],
                "score": score if task in ("arc_easy", "hellaswag") else "acc",
                "tokens": {"longest": READ + 1},
            }
            for task in self.tasks
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
        sources = {key: one for data in every for key, one in data.source(tokeniser).items()}
        watched_alone = {"evaluation_tasks": job.evaluation_tasks[1:]}
        job = job.model_copy(update={"method": method, **watched_alone})
        plan = make_plan(job, "cpu", {}, sources)
        base = {name: tensor.unsqueeze(0) for name, tensor in self.both.ours.tensors.items()}
        return Model(plan, base, {name: t.unsqueeze(0) for name, t in tensors.items()})

    def harness(self, model: Any, batch: int) -> Any:
        """What lm-eval's own backend makes of the library's model."""
        from lm_eval.evaluator import simple_evaluate
        from lm_eval.models.huggingface import HFLM
        from lm_eval.tasks import TaskManager

        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=loaded_tokeniser(self.tokeniser), **json.loads(CONFIG)
        )
        backend: Any = HFLM  # its decorators hide what it takes
        reference = backend(
            pretrained=model, tokenizer=tokenizer, batch_size=batch, max_length=READ, device="cpu"
        )
        folders: list[str | Path] = [
            Path(_root()) / name for name in ("arc", "hellaswag", "lambada", TEXTS)
        ]
        manager = TaskManager(include_path=folders, include_defaults=False)
        entries = [self._entry(task) for task in self.tasks]
        return simple_evaluate(
            model=reference,
            tasks=[{"group": "all", "task": entries}],
            task_manager=manager,
            log_samples=True,
            bootstrap_iters=0,
        )

    def _entry(self, task: str) -> dict[str, Any]:
        files = {path.stem: str(path) for path in self.staged.documents[task].iterdir()}
        return {
            "task": task,
            "num_fewshot": SHOTS[task],
            "dataset_path": "json",
            "dataset_name": None,
            "dataset_kwargs": {"data_files": files},
        }


def _root() -> str:
    from lm_eval import tasks

    return str(Path(tasks.__file__).parent)


@pytest.fixture(params=MAKERS)
def bench(request: pytest.FixtureRequest, staged: Staged, tmp_path: Path) -> Bench:
    both = pair(MAKERS[request.param], tmp_path / "model", double=False)
    return Bench(both, a_plain_tokeniser(begins=request.param == "llama"), staged)


def theirs(result: Any) -> Likelihoods:
    """The log-likelihoods of the harness."""
    return {
        (task, sample["doc_id"], place): float(answer[0])
        for task, samples in result["samples"].items()
        for sample in samples
        for place, answer in enumerate(sample["filtered_resps"])
    }


def of_texts(result: Any) -> Likelihoods:
    """The log-likelihoods of whole texts of the harness."""
    samples = result["samples"][TEXTS]
    return {(TEXTS, one["doc_id"], 0): float(one["filtered_resps"][0]) for one in samples}


def ours(model: Model, batch: int) -> Likelihoods:
    """The log-likelihoods of the engine; equal choices have one."""
    found: Likelihoods = {}
    for task in model.plan.evaluation_tasks():
        assert isinstance(task, TextTask)
        name, samples = task.model_dump()["tasks"][0], task.available("test")
        records = texts_of(task).of_split["test"].tolist()
        answer = partial(model.answers, task=task, attached=bool(model.trained))
        for places, items in scored_items(task, "test", samples, batch, torch.device("cpu")):
            if not isinstance(items, RequestItems):
                losses = items.item_losses(answer(items), answer)[0].tolist()
                pairs = zip(places.tolist(), losses, strict=True)
                found |= {(name, records[place], 0): -loss for place, loss in pairs}
                continue
            assert items.owners is not None
            assert items.places is not None
            owners = places[items.owners].tolist()
            rows = zip(owners, items.places.tolist(), items.losses(answer)[0].tolist(), strict=True)
            found |= {(name, records[owner], place): -loss for owner, place, loss in rows}
    return found


def accuracies(model: Model) -> dict[str, float]:
    found: dict[str, float] = {}
    for task in model.plan.evaluation_tasks():
        samples = task.available("test")
        assert samples is not None
        attached = bool(model.trained)
        found_of = judged(model, task, "test", samples, 1, attached=attached, with_loss=False)
        right = found_of.right
        found[task.model_dump()["tasks"][0]] = right.double().mean().item()
    return found


def furthest(one: Likelihoods, other: Likelihoods) -> float:
    """The largest difference, of 10 nats or in as many as there are."""
    assert one.keys() == other.keys()
    return max(abs(one[key] - other[key]) / max(1, abs(other[key]) / 10) for key in one)


@pytest.mark.long("every combination", but=2)
@pytest.mark.parametrize("kind", ["none", "lora-everywhere", "soft-prompt", "prefix"])
def test_likelihoods_and_scores_are_those_of_the_harness(
    bench: Bench, kind: str, tmp_path: Path
) -> None:
    method, tensors, library = adapted(bench.both, kind, tmp_path)
    model = bench.engine(method, tensors)
    alone, together = bench.harness(library, 1), bench.harness(library, 7)
    assert furthest(ours(model, 1), theirs(alone)) <= 1e-5
    assert furthest(ours(model, 5), theirs(alone)) < 1e-4
    assert furthest(ours(model, 5), theirs(together)) < 1e-4
    assert accuracies(model) == of_harness(alone, "acc")
    normalised = bench.engine(method, tensors, "acc_norm")
    assert accuracies(normalised) == of_harness(alone, "acc_norm")
    assert prompts(bench.staged) == their_prompts(alone)


@pytest.mark.long("every combination", but=2)
@pytest.mark.parametrize("kind", ["none", "lora-everywhere", "soft-prompt", "prefix"])
def test_windows_of_texts_and_their_figures_are_those_of_the_harness(
    bench: Bench, kind: str, tmp_path: Path
) -> None:
    bench = replace(bench, tasks=(TEXTS,))
    method, tensors, library = adapted(bench.both, kind, tmp_path)
    model = bench.engine(method, tensors)
    alone = bench.harness(library, 1)
    assert furthest(ours(model, 1), of_texts(alone)) <= 1e-5
    assert furthest(ours(model, 3), of_texts(alone)) <= 1e-5
    figures = alone["results"][TEXTS]
    expected = {name: figures[f"{name},none"] for name in TEXT_METRICS}
    assert measured(model) == pytest.approx(expected, rel=1e-5)


def measured(model: Model) -> dict[str, float]:
    """The figures of whole texts, from statistics by item."""
    (task,) = model.plan.evaluation_tasks()
    found = judged(model, task, "test", PAGES, 1, attached=bool(model.trained))
    assert found.counted is not None
    assert found.counted.max() > 4 * READ, "some have many windows"
    assert found.counted.min() < READ, "some have one"
    kinds = measured_on(as_json(task))
    return {kind.name: kind.value(statistics_of(task, "test", kind, found)[0]) for kind in kinds}


def adapted(both: Pair, kind: str, folder: Path) -> tuple[Any, Mapping[str, Tensor], Any]:
    """A method with its tensors, and the library's model with it."""
    if kind == "none":
        return METHODS["lora-everywhere"](both), {}, both.theirs
    method = METHODS[kind](both)
    tensors = drawn(method, both)
    files = exported(both, method, tensors)
    if kind in ("soft-prompt", "prefix"):
        make_room_for_learned_positions(both)
    return method, tensors, loaded(both, files, folder / "adapter")


def of_harness(result: Any, score: Scores) -> Any:
    """The accuracies of the harness; lambada_openai is not normalised."""
    figures = {task: result["results"][task] for task in TASKS}
    return pytest.approx(
        {task: of.get(f"{score},none", of["acc,none"]) for task, of in figures.items()}
    )


def prompts(staged: Staged) -> list[tuple[str, str]]:
    return [
        pair
        for task in TASKS
        for item in staged.items[task].items
        for pair in zip(item.contexts, item.continuations, strict=True)
    ]


def their_prompts(result: Any) -> list[tuple[str, str]]:
    samples = (sample for task in TASKS for sample in result["samples"][task])
    return [tuple(request) for sample in samples for request in sample["arguments"]]


def test_items_are_of_every_awkward_kind(bench: Bench) -> None:
    items = [item for task in TASKS for item in bench.staged.items[task].items]
    assert {len(item.choices) for item in items} == {1, 3, 4, 5}
    assert any(context == "" for item in items for context in item.contexts)
    model = bench.engine(METHODS["lora-everywhere"](bench.both), {})
    task, *_ = model.plan.evaluation_tasks()
    assert isinstance(task, TextTask)
    corpus = read_corpus(task)
    assert 0 < corpus.cut < len(corpus.lengths)


def test_items_that_hang_on_rounding_are_counted(bench: Bench) -> None:
    """Without weights, all choices of equal length are equally likely."""
    model = bench.engine(METHODS["lora-everywhere"](bench.both), {})
    task, *_ = model.plan.evaluation_tasks()
    (kind,) = measured_on(as_json(task))
    assert kind.name == "near_ties"
    found = judged(model, task, "test", 14, 1, attached=False)
    assert found.ahead is not None
    assert not statistics_of(task, "test", kind, found).any()
    likelihoods = ours(replace(model, trained={}), 5)
    assert isinstance(task, TextTask)
    first = "arc_easy", int(texts_of(task).of_split["test"][0])
    of_first = sorted(one for (*item, _), one in likelihoods.items() if tuple(item) == first)
    assert float(found.ahead[0, 0]) == pytest.approx(of_first[-1] - of_first[-2], abs=1e-4)
    flat = replace(model, base={name: torch.zeros_like(one) for name, one in model.base.items()})
    tied = judged(flat, task, "test", 14, 1, attached=False)
    assert tied.ahead is not None
    assert bool((tied.ahead >= 0).all())


def test_a_choice_is_shown_as_the_answer(bench: Bench) -> None:
    model = bench.engine(METHODS["lora-everywhere"](bench.both), {})
    task, _, passages = model.plan.evaluation_tasks()
    (given,) = given_answers(model, task, 4, 1, attached=False)
    (right,) = judged(model, task, "test", 4, 1, attached=False).right.tolist()
    shown = item_texts(task).shown(4)
    assert [answer == item.expected for answer, item in zip(given, shown, strict=True)] == right
    asked = [one.contexts[one.gold] for one in bench.staged.items["arc_easy"].items]
    assert all(asked[one.line - 1].endswith(one.prompt.text[1:]) for one in shown if one.line)
    (decoded,) = given_answers(model, passages, 4, 1, attached=False)
    (right,) = judged(model, passages, "test", 4, 1, attached=False).right.tolist()
    expected = [item.expected.text for item in item_texts(passages).shown(4)]
    begins = [answer.text.startswith(one) for answer, one in zip(decoded, expected, strict=True)]
    assert begins == right
