"""The harness with its own backend, as a program.

It reads a JSON request from its argument and writes the answer to stdout. The process is its own,
because the harness loads a second OpenMP pool.
"""

import json
import socket
import sys
from pathlib import Path
from typing import Any


def refused(*_: Any) -> None:
    """Refuse every connection."""
    raise OSError("no network")


def staged(request: dict[str, Any]) -> dict[str, Any]:
    """Return the records of tasks, as they are staged."""
    from adaptlab_client.machine.benchmark_items import rendered

    items = {
        task: rendered(request["files"].get(task, task), shots, Path(request["data"]) / task)
        for task, shots in request["tasks"].items()
    }
    return {task: {"name": one.name, "records": [*one.records()]} for task, one in items.items()}


def judged(request: dict[str, Any]) -> dict[str, Any]:
    """Return texts, filtered answers and scores of the harness's backend."""
    from lm_eval import tasks
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    model: Any = AutoModelForCausalLM.from_pretrained(request["model"]).eval()
    if adapter := request["adapter"]:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, adapter).eval()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=request["tokenizer"], bos_token="<s>", eos_token="</s>"
    )
    backend: Any = HFLM  # its decorators hide what it takes
    reference = backend(
        pretrained=model,
        tokenizer=tokenizer,
        batch_size=request["batch"],
        max_length=request["longest"],
        device="cpu",
    )
    root = Path(str(tasks.__file__)).parent
    folders: list[str | Path] = [
        Path(request["files"][task]).parent if task in request["files"] else root / task
        for task in request["tasks"]
    ]
    manager = tasks.TaskManager(include_path=folders, include_defaults=False)
    result: Any = simple_evaluate(
        model=reference,
        tasks=[{"group": "all", "task": [_entry(request, task) for task in request["tasks"]]}],
        task_manager=manager,
        log_samples=True,
        bootstrap_iters=0,
    )
    return {task: _figures(result, task) for task in request["tasks"]}


def _entry(request: dict[str, Any], task: str) -> dict[str, Any]:
    files = {path.stem: str(path) for path in (Path(request["data"]) / task).iterdir()}
    return {
        "task": task,
        "num_fewshot": request["tasks"][task],
        "dataset_path": "json",
        "dataset_name": None,
        "dataset_kwargs": {"data_files": files},
    }


def _figures(result: Any, task: str) -> dict[str, Any]:
    samples = result["samples"][task]
    return {
        "prompts": {one["doc_id"]: one["arguments"][0][0] for one in samples},
        "texts": {one["doc_id"]: one["resps"][0][0] for one in samples},
        "read": {
            name: {
                one["doc_id"]: one["filtered_resps"][0] for one in samples if one["filter"] == name
            }
            for name in {one["filter"] for one in samples}
        },
        "scores": {
            name.partition(",")[2]: value
            for name, value in result["results"][task].items()
            if name.startswith("exact_match,")
        },
    }


if __name__ == "__main__":
    socket.socket.connect = refused  # type: ignore[method-assign]
    asked = json.loads(Path(sys.argv[1]).read_text())
    answer = {"staged": staged, "judged": judged}[asked["wanted"]](asked)
    Path(sys.argv[2]).write_text(json.dumps(answer))
