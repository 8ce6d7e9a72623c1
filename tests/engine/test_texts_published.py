"""A published model reads texts as the library's own does."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.engine.making import Remembering
from tests.engine.running import run
from tests.folders import a_qwen3_folder
from tests.texts import (
    CLASSIFICATION,
    Stored,
    a_byte_pair_tokeniser,
    adaptation_of,
    reviews,
    stored,
    without,
)
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from adaptlab.engine.items.datasets import tokeniser_files
from adaptlab.engine.kernels.counter import mixed
from adaptlab.errors import BadModelFolder, InvalidSpec
from adaptlab.methods.prefix_tuning import PrefixTuning
from adaptlab.methods.soft_prompt import SoftPrompt
from adaptlab.plugins.learned_positions import TextStart
from adaptlab.plugins.method import Method
from adaptlab.records.record import Record
from adaptlab.runs.events import CheckpointWritten, Evaluated
from adaptlab.specs.base_models import BaseModelFacts, starting_problems
from adaptlab.specs.resolved import ResolvedAdapt
from adaptlab.specs.spec import ModelFolder
from adaptlab.text.folder_tokeniser import folder_tokeniser
from adaptlab.weights.model_folder import check_folder, fingerprint
from adaptlab.weights.placed_folder import PlacedFolder

PROMPT = "Review: {text}\nIt is"
WORDS = {"neg": " pg", "pos": " yy"}
"""Words of equal length, of which the random model prefers either for half of the records."""

TASK = without(
    CLASSIFICATION,
    prompt=PROMPT,
    label={"field": "label", "words": WORDS},
    tokens={"longest": 32, "answer": 12},
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), reviews(200))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> PlacedFolder:
    path = a_qwen3_folder(tmp_path_factory.mktemp("models") / "qwen3", vocabulary=320)
    # Texts of another kind than those of the task, so that words have several tokens.
    texts = [f"Review: {record['text']}\n" for record in reviews(60)]
    (path / "tokenizer.json").write_bytes(a_byte_pair_tokeniser(texts, spoiled=True))
    return PlacedFolder(path=path, name="lab/qwen3", files=fingerprint(check_folder(path)))


def adaptation(data: Stored, folder: PlacedFolder, **changes: Any) -> ResolvedAdapt:
    members = {
        "task": TASK,
        "training": {"steps": 4, "batch_size": 4},
        "tuning": {"learning_rates": [0.01, 0.1]},
        "seeds": 2,
        **changes,
    }
    return adaptation_of(folder, data, **members)


def likeliest(model: Qwen3ForCausalLM, tokenizer: Any, record: Record) -> str:
    """The word that the library's model prefers, by sums of log-probabilities."""
    prompt = PROMPT.format(text=record["text"])
    asked = len(tokenizer(prompt)["input_ids"]) - 1  # the file's own template ends every text
    scores: dict[str, float] = {}
    for label, word in WORDS.items():
        tokens = torch.tensor([tokenizer(prompt + word)["input_ids"][:-1]])
        with torch.no_grad():
            logs = model(tokens).logits[0].double().log_softmax(-1)
        answer = tokens[0, asked:]
        scores[label] = float(logs[asked - 1 : -1].gather(-1, answer.unsqueeze(-1)).sum())
    return max(scores, key=lambda label: scores[label])


def test_the_base_alone_is_right_where_the_library_is(
    data: Stored, folder: PlacedFolder, tmp_path: Path
):
    watching = Remembering()
    resolved = adaptation(data, folder)
    run(resolved, (), tmp_path, watching, "cpu", folder=folder, datasets=(data.path,))
    (alone, _) = (e.evaluation for e in watching.of(Evaluated) if not e.evaluation.attached)
    outcomes = np.unpackbits(np.frombuffer(bytes.fromhex(alone.outcomes), np.uint8))[: alone.total]
    model = Qwen3ForCausalLM.from_pretrained(folder.path)
    model = model.float()
    content = json.loads((folder.path / "tokenizer.json").read_bytes())
    content["truncation"] = content["padding"] = None
    plain = tmp_path / "tokenizer.json"
    plain.write_text(json.dumps(content))
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(plain))
    task = data.task(TASK)
    order = mixed(torch.arange(200)).argsort().tolist()
    shuffled = [reviews(200)[place] for place in order]
    tested = [r for r in shuffled if task.split_rule().split_of(r) == "test"]
    chosen = [likeliest(model, tokenizer, record) for record in tested]
    assert 10 < chosen.count("pos") < len(tested) - 10
    right = [choice == r["label"] for choice, r in zip(chosen, tested, strict=True)]
    assert outcomes.astype(bool).tolist() == right


@pytest.mark.long("every combination", but=2)
@pytest.mark.parametrize(
    "method", ["lora", "prefix_tuning", "soft_prompt", "ia3", "full_finetuning"]
)
def test_every_kind_of_method_is_trained_on_texts(
    data: Stored, folder: PlacedFolder, tmp_path: Path, method: str
):
    watching = Remembering()
    budget = {"trainable_parameters": None if method == "full_finetuning" else 100}
    resolved = adaptation(data, folder, method=method, budget=budget)
    run(resolved, (), tmp_path, watching, "cpu", folder=folder, datasets=(data.path,))
    scores = [e.evaluation for e in watching.of(Evaluated)]
    assert [(score.attached, score.total) for score in scores] == [
        (attached, resolved.evaluation_samples) for attached in (True, True, False, False)
    ]


def test_another_tokeniser_than_at_the_import_is_refused(
    data: Stored, folder: PlacedFolder, tmp_path: Path
):
    resolved = adaptation(data, folder)
    files = tuple(
        file.model_copy(update={"digest": "0" * 64}) if file.name == "tokenizer.json" else file
        for file in folder.files
    )
    changed = folder.model_copy(update={"files": files})
    with pytest.raises(BadModelFolder, match=r"tokenizer\.json"):
        run(resolved, (), tmp_path, Remembering(), "cpu", folder=changed, datasets=(data.path,))


def test_a_tokeniser_of_another_model_is_refused(data: Stored, tmp_path: Path):
    path = a_qwen3_folder(tmp_path / "small", vocabulary=300)
    texts = [record["text"] for record in reviews(60)]
    (path / "tokenizer.json").write_bytes(a_byte_pair_tokeniser(texts))
    small = PlacedFolder(path=path, name="lab/small", files=fingerprint(check_folder(path)))
    resolved = adaptation(data, small)
    with pytest.raises(BadModelFolder, match=r"is 319, and the model has 300 tokens"):
        run(resolved, (), tmp_path, Remembering(), "cpu", folder=small, datasets=(data.path,))


def test_a_tokeniser_that_was_added_later_is_no_change_of_the_model(folder: PlacedFolder):
    before = tuple(file for file in folder.files if file.name != "tokenizer.json")
    assert len(before) == len(folder.files) - 1
    folder.model_copy(update={"files": before}).checked()


BEGUN = "Review: It is good\n"


def started_rows(
    data: Stored, folder: PlacedFolder, scratch: Path, method: Method
) -> dict[str, torch.Tensor]:
    """The rows with which a method starts, from its checkpoint."""
    scratch.mkdir()
    watching = Remembering()
    training = {"steps": 1, "batch_size": 2, "learning_rate": 1e-30}
    resolved = adaptation(data, folder, training=training, tuning={}, seeds=1)
    resolved = resolved.model_copy(update={"method": method})
    run(resolved, (), scratch, watching, "cpu", folder=folder, datasets=(data.path,))
    (written,) = watching.of(CheckpointWritten)
    return load_file(written.path)


def test_learned_positions_start_with_the_tokens_of_a_text(
    data: Stored, folder: PlacedFolder, tmp_path: Path
):
    tokeniser = folder_tokeniser(tokeniser_files(folder), 320)
    ids = tokeniser.tokens(BEGUN).ids
    started = SoftPrompt(length=24, initialisation=TextStart(text=BEGUN))
    prompt = started_rows(data, folder, tmp_path / "prompt", started)["embed.prompt"]
    prefix = PrefixTuning(length=24, side="key_value", initialisation=started.initialisation)
    cache = started_rows(data, folder, tmp_path / "prefix", prefix)
    model = Qwen3ForCausalLM.from_pretrained(folder.path).float()
    repeated = torch.tensor([ids[n % len(ids)] for n in range(24)])
    assert 3 < len(ids) < 24
    assert torch.equal(prompt, model.model.embed_tokens.weight[repeated])
    with torch.no_grad():
        layers = model(repeated[None], use_cache=True).past_key_values.layers
    for layer, expected in enumerate(layers):
        for part, theirs in (("keys", expected.keys), ("values", expected.values)):
            found = cache[f"blocks.{layer}.attn.kv.{part}"]
            assert torch.allclose(found, theirs[0].transpose(0, 1).flatten(1), atol=1e-5)
    count = len(ids)
    with pytest.raises(InvalidSpec, match=f"has {count} tokens, and the method has 2 learned"):
        started_rows(data, folder, tmp_path / "short", started.with_size(2))


def test_a_base_that_reads_no_text_starts_with_none(folder: PlacedFolder):
    family = check_folder(folder.path).family
    facts = BaseModelFacts(
        name="base", digest="0" * 64, family=family, task=None, replicates=1,
        has_tokeniser=False, folder=ModelFolder(folder="lab/qwen3", files=folder.files),
    )  # fmt: skip
    method = SoftPrompt(length=2, initialisation=TextStart(text="good"))
    (problem,) = starting_problems(facts, method)
    assert problem.pointer == "/method/initialisation"
    of_bytes = facts.model_copy(update={"folder": None})
    (problem,) = starting_problems(of_bytes, method)
    assert problem.nearest == (4,)
    assert starting_problems(of_bytes, method.with_size(4)) == ()
