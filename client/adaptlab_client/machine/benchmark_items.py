"""Items of standard tasks, rendered by the harness lm-eval.

The harness writes the prompts, and the trainer scores them without it. Task files are those that
the pinned package brings, which can contain programs, or a team's own, which cannot.
"""

import hashlib
import json
import random
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from adaptlab.errors import AdaptlabError
from adaptlab.plugins.metric import METRICS
from adaptlab.records.generation import Generation
from adaptlab.records.rendered_items import (
    ROLLING,
    TEXT_METRICS,
    Output,
    RenderedItem,
    Rendering,
    dataset_of,
)
from adaptlab.records.text_units import TEXT_UNITS, TextUnit
from adaptlab_client.machine.benchmark_generation import (
    METRIC,
    NotRendered,
    generation_of_task,
    targets_of,
)
from adaptlab_client.machine.harness_files import PACKAGE, VERSION, TaskFile, task_file
from adaptlab_client.machine.own_benchmark import in_sandbox

SEED = 1234
"""The seed of examples, that of the harness."""
FORMS = {".jsonl": "json", ".json": "json", ".parquet": "parquet"}
SPLITS = ("training_split", "validation_split", "test_split", "fewshot_split")
OWN_PROGRAMS = ("class", "process_results", "custom_dataset", "doc_to_image", "doc_to_audio")
"""Members with which a task answers or scores by a program of its own."""
PROGRAMS_OF_TEXTS = tuple(name for name in OWN_PROGRAMS if name != "process_results")
"""Those of whole texts, of which that member counts words and bytes."""
OUTPUTS: tuple[Output, ...] = get_args(Output)
GENERATED = "generate_until"
UNKNOWN = "unknown"
PROBE = -1.5
"""A log-likelihood whose way through a task's program is followed."""
HARNESS = (PACKAGE, VERSION, "MIT")
Document = Mapping[str, Any]  # Any: the documents of all data sets


@dataclass(frozen=True, slots=True)
class RenderedTask:
    """The items of a task, with the origin of all of them.

    Attributes:
        name: the name of their dataset.
        items: the items, in the order of the split.
        rendering: their origin.
        sources: the packages and data that they come from, as origins of a dataset.
        shown: items that also are examples before other items.
        generation: how answers are generated, None if likelihoods are compared.
    """

    name: str
    items: tuple[RenderedItem, ...]
    rendering: Rendering
    sources: tuple[Mapping[str, str], ...]
    shown: int
    generation: Generation | None = None

    def records(self) -> Iterator[dict[str, str]]:
        """Yield the record of every item."""
        return (item.record(self.rendering, self.generation) for item in self.items)


def rendered(
    task: str, shots: int = 0, data: Path | None = None, limit: int | None = None
) -> RenderedTask:
    """Return the items of a task of the harness.

    Args:
        task: its name there, or the path of a task file of one's own, which ends in .yaml.
        shots: examples before every item.
        data: JSON lines or Parquet in place of the task's own data: a file, or a folder with a file
            per split. Nothing is downloaded then.
        limit: the number of items, by default all.

    Raises:
        NotRendered: the harness is missing, or the task is not one that is scored here.
    """
    file = task_file(task)
    task, settings = file.name, file.settings
    _check(task, settings, shots)
    if file.is_own and data is None:
        raise NotRendered(f"{task} names no data of a hub. Give its documents with --data.")
    sandbox = in_sandbox() if file.is_own else nullcontext()
    with tempfile.TemporaryDirectory(prefix="adaptlab-") as cache, _reading(task), sandbox:
        changes = {"num_fewshot": shots} | _metrics(settings)
        changes |= _own_data(task, settings, shots, data, Path(cache))
        random.seed(0)  # as the harness does before it reads documents
        import_module("numpy").random.seed(SEED)
        loaded = _loaded(file, changes)
        examples = _noted_examples(loaded)
        loaded.set_fewshot_seed(seed=SEED)
        loaded.build_all_requests(limit=limit)
        documents, items = _items(loaded)
        generation = _generation(task, settings, loaded)
    shown = _shown(task, documents, examples)
    seen = [*documents, *(example for row in examples for example in row)]
    rendering = _rendering(task, settings, shots, items, _digest(seen))
    return RenderedTask(
        name=dataset_of(task, shots, limit),
        items=items,
        rendering=rendering,
        sources=_sources(file, data, _digest_of(settings), _digest(seen)),
        shown=shown,
        generation=generation,
    )


@contextmanager
def _reading(task: str) -> Generator[None]:
    """Explain whatever the harness raises about documents."""
    try:
        yield
    except AdaptlabError:
        raise
    except Exception as error:  # tasks are programs, and raise anything
        raise NotRendered(
            f"The documents of {task} could not be read ({type(error).__name__}: {error}). Give "
            "them with --data, in the form that the task expects."
        ) from error


def _check(task: str, settings: Mapping[str, Any], shots: int) -> None:
    """Raise `NotRendered` for a task that is scored in another way."""
    output = settings.get("output_type", "generate_until")
    if output not in OUTPUTS:
        raise NotRendered(
            f"{task} is of the kind {output}. Choose a task of the kind {', '.join(OUTPUTS[:-1])} "
            f"or {OUTPUTS[-1]}."
        )
    programs = OWN_PROGRAMS if output != ROLLING else PROGRAMS_OF_TEXTS
    own = next((member for member in programs if settings.get(member) is not None), None)
    if own is not None:
        raise NotRendered(f"{task} has a program of its own in {own}. Choose another task.")
    metrics = [entry.get("metric") for entry in settings.get("metric_list") or ()]
    if output == ROLLING:
        if shots or not set(metrics) & set(TEXT_METRICS):
            raise NotRendered(
                f"{task} reads whole texts, without examples, and has the metrics {metrics}. "
                f"Leave --shots out, and choose a task with {', '.join(TEXT_METRICS)}."
            )
        return
    if output != GENERATED and metrics and "acc" not in metrics:
        raise NotRendered(f"{task} is not scored by acc but by {metrics}. Choose another task.")
    if output == GENERATED:
        generation_of_task(task, settings)  # before metrics are looked for on a hub
    if shots and settings.get("num_fewshot") == 0:
        raise NotRendered(f"{task} is defined without examples. Leave --shots out.")


def _metrics(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that leave out metrics that are not computed here.

    The harness looks for some of them on a hub.
    """
    listed = settings.get("metric_list") or ()
    output = settings.get("output_type", GENERATED)
    known = {GENERATED: (METRIC,), ROLLING: TEXT_METRICS}.get(output)
    own = [entry for entry in listed if known is None or entry.get("metric") in known]
    return {"metric_list": own} if len(own) < len(listed) else {}


def _own_data(
    task: str, settings: Mapping[str, Any], shots: int, data: Path | None, cache: Path
) -> dict[str, Any]:
    """Return the settings that put files in place of the task's data."""
    if data is None:
        return {}
    evaluated = str(settings.get("test_split") or settings.get("validation_split"))
    files = _files(data, {name for key in SPLITS if (name := settings.get(key))}, evaluated)
    examples = settings.get("fewshot_split") or settings.get("training_split")
    wanted: set[str] = {evaluated, str(examples)} if shots and examples else {evaluated}
    if missing := sorted(wanted - files.keys()):
        raise NotRendered(
            f"{task} needs the split {missing[0]!r}, which {data} does not have. Put "
            f"{missing[0]}.jsonl or {missing[0]}.parquet into a folder, and name the folder."
        )
    forms = {FORMS[path.suffix] for path in files.values()}
    if len(forms) > 1:
        raise NotRendered(f"{data} has JSON lines and Parquet. Give all splits in one form.")
    paths = {split: str(path.resolve()) for split, path in files.items()}
    absent = {key: None for key in SPLITS if settings.get(key) not in {None, *files}}
    return {
        "dataset_path": forms.pop(),
        "dataset_name": None,
        "dataset_kwargs": {"data_files": paths, "cache_dir": str(cache)},
        **absent,
    }


def _files(data: Path, splits: set[str], evaluated: str) -> dict[str, Path]:
    """Return the files of a folder by split, or the single file."""
    if not data.exists():
        raise NotRendered(f"There is no file or folder {data}.")
    listed = sorted(data.iterdir()) if data.is_dir() else [data]
    files = [path for path in listed if path.suffix in FORMS]
    if not files:
        raise NotRendered(f"{data} has no JSON lines (.jsonl, .json) and no Parquet (.parquet).")
    if not data.is_dir():
        return {data.stem if data.stem in splits else evaluated: data}
    return {path.stem: path for path in files if path.stem in splits}


def _loaded(file: TaskFile, changes: Mapping[str, Any]) -> Any:
    """Return the harness's task with some settings changed."""
    import_module("datasets").disable_progress_bars()
    loaded = file.load(changes)
    if loaded.OUTPUT_TYPE == GENERATED and loaded.multiple_input:
        raise NotRendered(f"{file.name} has several contexts for an item. Choose another task.")
    if loaded.OUTPUT_TYPE != GENERATED and loaded.multiple_target:
        raise NotRendered(
            f"{file.name} has several right choices for an item. Choose another task."
        )
    return loaded


def _noted_examples(loaded: Any) -> list[Sequence[Document]]:
    """Return a list that will have the examples before every item, in order."""
    examples: list[Sequence[Document]] = []
    sample = loaded.sampler.sample

    def noted(*given: Any, **named: Any) -> Any:
        examples.append(sample(*given, **named))
        return examples[-1]

    loaded.sampler.sample = noted
    return examples


def _items(loaded: Any) -> tuple[list[Document], tuple[RenderedItem, ...]]:
    """Return documents and items from the requests that the harness built."""
    grouped: dict[int, list[Any]] = {}
    for request in loaded.instances:
        grouped.setdefault(request.doc_id, []).append(request)
    documents = [requests[0].doc for requests in grouped.values()]
    pairs = zip(grouped, documents, grouped.values(), strict=True)
    return documents, tuple(_item(loaded, *pair) for pair in pairs)


def _item(loaded: Any, number: int, document: Document, requests: Sequence[Any]) -> RenderedItem:
    if loaded.OUTPUT_TYPE == GENERATED:
        return _generated_item(loaded, number, document, requests[0].args[0])
    if loaded.OUTPUT_TYPE == ROLLING:
        return _text_item(loaded, number, document, requests[0].args[0])
    compares = loaded.OUTPUT_TYPE == "multiple_choice"
    choices = loaded.doc_to_choice(document) if compares else [requests[0].args[1]]
    asked = [request.args for request in requests[: len(choices)]]  # others lack the context
    gold = _gold(loaded, document, choices) if compares else 0
    if not 0 <= gold < len(choices):
        raise NotRendered(f"Item {number} of {loaded.config.task} has no right choice.")
    return RenderedItem(
        document=number,
        contexts=tuple(context for context, _ in asked),
        continuations=tuple(continuation for _, continuation in asked),
        choices=tuple(choices),
        gold=gold,
    )


def _generated_item(loaded: Any, number: int, document: Document, context: str) -> RenderedItem:
    """Return an item of which any target is a right answer."""
    targets = targets_of(loaded.config.task, number, loaded, document)
    separator = loaded.config.target_delimiter
    return RenderedItem(
        document=number,
        contexts=(context,) * len(targets),
        continuations=tuple(f"{separator}{target}" for target in targets),
        choices=targets,
        gold=0,
    )


def _text_item(loaded: Any, number: int, document: Document, text: str) -> RenderedItem:
    """Return a text, whose words and bytes the task counts, also by a program.

    Raises:
        NotRendered: it is empty, or the program does more than count.
    """
    measured: Mapping[str, Any] = loaded.process_results(document, [PROBE])
    counted: dict[TextUnit, int] = {unit: count(text) for unit, count in TEXT_UNITS.items()}
    for name in TEXT_METRICS:
        summed, size = measured.get(name, (PROBE, counted[METRICS.get(name).text_unit]))
        if not text or summed != PROBE or not isinstance(size, int) or size < 1:
            raise NotRendered(
                f"Item {number} of {loaded.config.task} is empty, or its log-likelihood is not "
                "divided by a number of words or bytes. Leave it out, or choose another task."
            )
        counted[METRICS.get(name).text_unit] = size
    return RenderedItem(number, ("",), (text,), ("",), 0, counted)


def _generation(task: str, settings: Mapping[str, Any], loaded: Any) -> Generation | None:
    """Return how a task generates answers, None if it compares likelihoods.

    The harness has filled in what the task's file leaves open.
    """
    if loaded.OUTPUT_TYPE != GENERATED:
        return None
    members = {"generation_kwargs": loaded.config.generation_kwargs}
    generation = generation_of_task(task, {**settings, **members})
    try:
        generation.fields()
    except ValueError as error:
        raise NotRendered(f"{task} cannot be staged. {error} Choose another task.") from error
    return generation


def _gold(loaded: Any, document: Document, choices: Sequence[str]) -> int:
    """Return the place of the right choice, −1 if there is none."""
    gold = (loaded.doc_to_text if loaded.multiple_input else loaded.doc_to_target)(document)
    if isinstance(gold, str):
        return choices.index(gold) if gold in choices else -1
    return int(gold)


def _shown(task: str, documents: Sequence[Document], examples: Sequence[Sequence[Document]]) -> int:
    """Return the number of items that are examples before others.

    Raises:
        NotRendered: an item is among its own examples, with its answer.
    """
    digests = [_digest([document]) for document in documents]
    of_examples = [{_digest([example]) for example in row} for row in examples]
    for number, (own, row) in enumerate(zip(digests, of_examples, strict=False)):
        if own in row:
            raise NotRendered(
                f"Item {number} of {task} is one of its own examples, so its answer is in the "
                "prompt. Use --shots 0, or data whose splits share no document."
            )
    return len(set(digests) & set[str]().union(*of_examples))


def _rendering(
    task: str,
    settings: Mapping[str, Any],
    shots: int,
    items: Sequence[RenderedItem],
    data: str,
) -> Rendering:
    output: Output = settings.get("output_type", GENERATED)
    counts = [1 if output == GENERATED else len(item.choices) for item in items]
    sizes = [len(item.continuations[0].encode()) for item in items if output == ROLLING]
    pairs = [pair for item in items for pair in zip(item.contexts, item.continuations, strict=True)]
    return Rendering(
        task=task,
        output=output,
        shots=shots,
        seed=SEED,
        harness=VERSION,
        version=_version_of(settings),
        yaml=_digest_of(settings)[:16],
        data=data[:16],
        choices=max(counts),
        chance=round(sum(1 / count for count in counts) / len(counts), 6),
        answer=max(len((_spaces(context) + answer).encode()) for context, answer in pairs),
        text=sum(sizes) // len(sizes) if sizes else None,
    )


def _version_of(settings: Mapping[str, Any]) -> str:
    metadata: Mapping[str, Any] = settings.get("metadata") or {}
    return str(metadata.get("version", UNKNOWN))


def _spaces(context: str) -> str:
    """Return the end of a context that is encoded with the continuation."""
    return context[len(context.rstrip()) :]


def _sources(
    file: TaskFile, data: Path | None, digest: str, documents: str
) -> tuple[Mapping[str, str], ...]:
    """Return the origins of a dataset: its task file and its data."""
    settings = file.settings
    path = settings.get("dataset_path") if data is None else data.name
    name = (settings.get("dataset_name") or "default") if data is None else "local files"
    packages = (f"{file.name}.yaml", _version_of(settings), UNKNOWN) if file.is_own else HARNESS
    task = dict(zip(("package", "version", "licence"), packages, strict=True))
    own = {"package": str(path), "version": str(name), "licence": UNKNOWN, "sha256": documents}
    return task | {"sha256": digest}, own


def _digest_of(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _digest(documents: Sequence[Document]) -> str:
    content = hashlib.sha256()
    for document in documents:
        content.update(json.dumps(document, sort_keys=True, default=str).encode())
    return content.hexdigest()
