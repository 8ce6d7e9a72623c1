"""Task files of a team's own: what is rendered, and what never runs."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adaptlab_client.machine import own_benchmark
from adaptlab_client.machine.benchmark_generation import NotRendered
from adaptlab_client.machine.benchmark_items import RenderedTask, rendered
from adaptlab_client.machine.harness_files import subtasks
from adaptlab_client.machine.own_benchmark import settings_of_file

SUMS: dict[str, Any] = {
    "task": "sums",
    "output_type": "generate_until",
    "test_split": "test",
    "fewshot_split": "train",
    "doc_to_text": "{% for part in question.split('+') %}\n{{ part }}{% endfor %}\nA:",
    "doc_to_target": "{{ answer }}",
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 9},
}
PROGRAM = "from pathlib import Path\nPath(__file__).with_name('canary').touch()\n"
ESCAPE = "{{ ''.__class__.__mro__[1].__subclasses__() }}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    def refused(*_: Any) -> None:
        raise OSError("no network")

    monkeypatch.setattr(socket.socket, "connect", refused)
    for split in ("train", "test"):
        rows = [{"question": f"1+{n} {split}", "answer": str(1 + n)} for n in range(4)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / f"{split}.jsonl").write_text(lines)
    (tmp_path / "evil.py").write_text(PROGRAM)
    yield tmp_path
    assert not (tmp_path / "canary").exists()


def written(folder: Path, text: str = "", **changes: Any) -> str:
    """Write a task file, in JSON, which is YAML, or as text; return its path."""
    members = {name: value for name, value in {**SUMS, **changes}.items() if value is not None}
    path = folder / "sums.yaml"
    path.write_text(text or json.dumps(members))
    return str(path)


def render(folder: Path, text: str = "", **changes: Any) -> RenderedTask:
    return rendered(written(folder, text, **changes), 1, folder / "data")


def test_a_file_of_ones_own_is_rendered(folder: Path) -> None:
    done = render(folder)
    assert done.name == "sums-1-shots"
    first = done.items[0]
    assert first.contexts[0].endswith("\n1\n0 test\nA:"), "no newline is trimmed"
    assert first.choices == ("1",)
    assert done.generation is not None
    assert (done.generation.tokens, done.generation.names()) == (9, ("none",))
    assert dict(done.sources[0])["package"] == "sums.yaml"
    assert render(folder).rendering == done.rendering
    assert render(folder, description="Add.").rendering.yaml != done.rendering.yaml


def test_a_file_of_ones_own_reads_whole_texts(folder: Path) -> None:
    metric = {"metric": "byte_perplexity", "aggregation": "weighted_perplexity"}
    texts = {"output_type": "loglikelihood_rolling", "doc_to_text": "", "fewshot_split": None}
    metrics = [{**metric, "higher_is_better": False}, {"metric": "bits_per_byte"}]
    path = written(
        folder, **texts, doc_to_target="{{question}} é", generation_kwargs=None, metric_list=metrics
    )
    done = rendered(path, data=folder / "data")
    assert done.items[0].continuations == ("1+0 test é",)
    assert done.items[0].sizes == {"bytes": 11, "words": 3}
    with pytest.raises(NotRendered, match="has the metrics"):
        rendered(written(folder, **texts, metric_list=[{"metric": "acc"}]), data=folder / "data")


def test_members_of_included_files_are_replaced(folder: Path) -> None:
    (folder / "base.yaml").write_text(json.dumps(SUMS))
    path = written(folder, "include: base.yaml\ntask: other\n")
    settings = settings_of_file(Path(path))
    assert (settings["task"], settings["test_split"]) == ("other", "test")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"process_docs": "evil.run"}, "process_docs: Extra inputs"),
        ({"custom_dataset": "evil.run"}, "custom_dataset: Extra inputs"),
        ({"process_results": "evil.run"}, "process_results: Extra inputs"),
        ({"use_prompt": "promptsource:x"}, "use_prompt: Extra inputs"),
        ({"class": "evil.Task"}, "class: Extra inputs"),
        ({"dataset_kwargs": {"data_files": "/etc/passwd"}}, "dataset_kwargs: Extra inputs"),
        ({"dataset_path": "someone/data"}, "dataset_path"),
        ({"metric_list": [{"metric": "code_eval"}]}, "metric_list.0.metric"),
        ({"metric_list": [{"metric": "acc", "hf_evaluate": True}]}, "hf_evaluate: Extra"),
        ({"filter_list": [{"name": "x", "filter": [{"function": "custom"}]}]}, "function"),
        ({"filter_list": [{"name": "x", "filter": [{"function": "map", "k": 1}]}]}, "k: Extra"),
        ({"fewshot_config": {"sampler": "evil.Sampler"}}, "fewshot_config.sampler"),
        ({"doc_to_text": None}, "doc_to_text: Field required"),
        ({"task": "hellaswag"}, "has a task 'hellaswag' of its own"),
        ({"task": "../x"}, "task: String should match"),
        ({"doc_to_text": ESCAPE}, "SecurityError"),
        ({"doc_to_text": "{{ 'x' * 999999 * 999999 }}"}, "SecurityError"),
        ({"doc_to_text": "{{ unknown }}"}, "UndefinedError"),
        ({"doc_to_text": "{{ cycler.__init__.__globals__.os }}"}, "SecurityError"),
        ({"generation_kwargs": {"do_sample": True}}, "decoded greedily"),
        ({"metric_list": [{"metric": "exact_match", "aggregation": "median"}]}, "not median"),
    ],
)
def test_what_no_file_of_ones_own_has(folder: Path, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotRendered, match=reason):
        render(folder, **changes)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("task: sums\ndoc_to_text: !function evil.run\n", "a program"),
        ("task: !!python/object/apply:os.system [touch canary]\n", "a program"),
        ("task: !other x\n", "not plain YAML"),
        ("a: &a [x, x]\nb: [*a, *a]\n", "an alias"),
        ("include: /etc/hostname\n", "outside"),
        ("include: ../../outside.yaml\n", "is no file next to it"),
        ("include: sums.yaml\n", "included twice"),
        ("- task\n", "has no members"),
        ("task: " + "x" * 70_000, "more than 65,536 bytes"),
    ],
)
def test_no_file_runs_or_reads_what_is_not_its_own(folder: Path, text: str, reason: str) -> None:
    with pytest.raises(NotRendered, match=reason):
        render(folder, text)


def test_a_link_out_of_the_folder_is_not_included(folder: Path) -> None:
    inside = folder / "inside"
    inside.mkdir()
    (folder / "secret.yaml").write_text("task: secret\n")
    (inside / "link.yaml").symlink_to(folder / "secret.yaml")
    (inside / "sums.yaml").write_text("include: link.yaml\n")
    with pytest.raises(NotRendered, match="outside inside"):
        settings_of_file(inside / "sums.yaml")


@pytest.mark.long("ablation of a defence")
def test_without_the_check_and_the_sandbox_a_template_reaches_programs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextlib import nullcontext

    from adaptlab_client.machine import benchmark_items

    monkeypatch.setattr(benchmark_items, "in_sandbox", nullcontext)
    assert "<class" in render(folder, doc_to_text=ESCAPE).items[0].contexts[0]


def test_data_is_never_looked_for_on_a_hub(folder: Path) -> None:
    with pytest.raises(NotRendered, match="Give its documents with --data"):
        rendered(written(folder))
    with pytest.raises(NotRendered, match="There is no task file"):
        rendered(str(folder / "missing.yaml"))


def test_the_harness_keeps_its_own_templates(folder: Path) -> None:
    from lm_eval import utils

    before = utils.apply_template
    with own_benchmark.in_sandbox():
        assert utils.apply_template is not before
    assert utils.apply_template is before


def test_groups_and_tags_have_their_tasks() -> None:
    assert subtasks("ai2_arc") == ("arc_challenge", "arc_easy")
    assert len(subtasks("mmlu")) == 57, "groups of tags"
    assert {"cola", "rte"} <= {*subtasks("glue")}, "a tag of several folders"
    assert subtasks("hellaswag") == subtasks("nonsense") == ()
    assert len(subtasks("blimp")) == 67
    with pytest.raises(NotRendered, match="798 tasks, and 128 are the limit"):
        subtasks("mmmlu")
