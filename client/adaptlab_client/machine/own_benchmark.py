"""Task files of a team's own, validated before the harness sees them.

The harness reads task files as programs: a tag imports Python, an include reads any file, and
templates run in a plain environment. So a file is read here, strictly, and the harness gets a
dictionary of known members. Its templates are rendered in the sandbox of chat templates.
"""

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import Field, StringConstraints, ValidationError, model_validator

from adaptlab.records.generation import StepName
from adaptlab.records.rendered_items import Output, TextMetric
from adaptlab.values import Value
from adaptlab_client.machine.benchmark_generation import NotRendered

SUFFIXES = (".yaml", ".yml")
LARGEST_FILE = 65_536
"""Bytes."""
MOST_INCLUDES = 8
LONGEST_RENDERED = 2**20
"""Characters of a rendered template."""

AGGREGATIONS: Mapping[str, tuple[str, bool]] = {
    "bits_per_byte": ("bits_per_byte", False),
    "byte_perplexity": ("weighted_perplexity", False),
    "word_perplexity": ("weighted_perplexity", False),
}
"""How other figures than means are summed, and whether the highest is the best."""

Split = Annotated[str, StringConstraints(pattern=r"^\w{1,64}$")]
Template = Annotated[str, StringConstraints(max_length=16_384)]
Text = Annotated[str, StringConstraints(max_length=512)]


class _Metric(Value):
    metric: Literal["acc", "acc_norm", "acc_bytes", "exact_match"] | TextMetric
    aggregation: Text | None = None
    higher_is_better: bool | None = None
    regexes_to_ignore: Annotated[tuple[Text, ...], Field(max_length=16)] = ()
    ignore_case: bool = False
    ignore_punctuation: bool = False
    ignore_numbers: bool = False

    @model_validator(mode="after")
    def _is_summed_as_usual(self) -> "_Metric":
        usual = AGGREGATIONS.get(self.metric, ("mean", True))
        for given, own in zip((self.aggregation, self.higher_is_better), usual, strict=True):
            if given not in (None, own):
                raise ValueError(f"{self.metric} has the aggregation {usual[0]}, not {given}.")
        return self


class _Step(Value):
    function: StepName | Literal["take_first", "majority_vote"]
    regex_pattern: Text | None = None
    group_select: int = 0
    fallback: Text = "[invalid]"
    mapping_dict: Annotated[dict[Text, Text], Field(max_length=64)] | None = None
    default_value: Text | None = None


class _Filter(Value):
    name: Annotated[str, StringConstraints(pattern=r"^[\w-]{1,64}$")]
    filter: Annotated[tuple[_Step, ...], Field(min_length=1, max_length=8)]


class _Generation(Value):
    until: Text | tuple[Text, ...] = ()
    max_gen_toks: int | None = None
    do_sample: bool | None = None
    temperature: float | None = None


class _Examples(Value):
    sampler: Literal["default", "first_n"]


class _Metadata(Value):
    version: int | float | str


class OwnTask(Value):
    """The members that a task file of a team's own can have, as in lm-eval."""

    task: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]{0,63}$")]
    output_type: Output
    dataset_path: Literal["json", "parquet"] | None = None
    training_split: Split | None = None
    validation_split: Split | None = None
    test_split: Split | None = None
    fewshot_split: Split | None = None
    num_fewshot: Annotated[int, Field(ge=0, le=64)] | None = None
    doc_to_text: Template | int
    doc_to_target: Template | int
    doc_to_choice: Template | tuple[Template, ...] | None = None
    description: Template = ""
    fewshot_delimiter: Text = "\n\n"
    target_delimiter: Text = " "
    gen_prefix: Text | None = None
    fewshot_config: _Examples | None = None
    metric_list: Annotated[tuple[_Metric, ...], Field(max_length=8)] | None = None
    generation_kwargs: _Generation | None = None
    filter_list: Annotated[tuple[_Filter, ...], Field(max_length=8)] | None = None
    repeats: Literal[1] = 1
    metadata: _Metadata | None = None


def is_own(task: str) -> bool:
    """Return True if a task is named by a file."""
    return task.endswith(SUFFIXES)


def settings_of_file(path: Path) -> dict[str, Any]:
    """Return the members of a task file, those of its includes first.

    Raises:
        NotRendered: it has programs, leaves its folder, or has members that are not known.
    """
    if not path.is_file():
        raise NotRendered(f"There is no task file {path}.")
    members = _merged(path.resolve(), path.resolve().parent, [])
    try:
        task = OwnTask.model_validate(members)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise NotRendered(
            f"{path.name} cannot be rendered: {place}: {first['msg']}. Task files of your own have "
            f"the members {', '.join(OwnTask.model_fields)}, without programs."
        ) from error
    return task.model_dump(mode="json", exclude_unset=True)


def _merged(path: Path, folder: Path, seen: list[Path]) -> dict[str, Any]:
    """Return the members of a file and of what it includes; its own win."""
    if not path.is_relative_to(folder) or path in seen or len(seen) > MOST_INCLUDES:
        raise NotRendered(
            f"{path.name} is outside {folder.name}, or is included twice or too deep. Include at "
            f"most {MOST_INCLUDES} files, each once, from the folder of the task file."
        )
    seen.append(path)
    members = _members(path)
    includes = members.pop("include", [])
    merged: dict[str, Any] = {}
    for name in [includes] if isinstance(includes, str) else includes:
        if not isinstance(name, str) or not (path.parent / name).is_file():
            raise NotRendered(f"{path.name} includes {name!r}, which is no file next to it.")
        merged |= _merged((path.parent / name).resolve(), folder, seen)
    return merged | members


def _members(path: Path) -> dict[str, Any]:
    """Return what a file says, without tags and aliases of YAML."""
    yaml = import_module("yaml")
    if path.stat().st_size > LARGEST_FILE:
        raise NotRendered(f"{path.name} has more than {LARGEST_FILE:,} bytes. Shorten it.")
    text = path.read_text(encoding="utf-8", errors="strict")
    if tag := re.search(r"!function|!!python", text):
        raise NotRendered(
            f"{path.name} has {tag[0]}, a program. Task files of your own have templates only: "
            "write the text with Jinja, or change the documents beforehand."
        )
    try:
        if any(isinstance(event, yaml.events.AliasEvent) for event in yaml.parse(text)):
            raise NotRendered(f"{path.name} has an alias (*name). Write its value out.")
        found: Any = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise NotRendered(f"{path.name} is not plain YAML: {str(error)[:300]}") from error
    if not isinstance(found, dict):
        raise NotRendered(f"{path.name} has no members. Write `task: NAME` and further ones.")
    return cast("dict[str, Any]", found)


@contextmanager
def in_sandbox() -> Generator[None]:
    """Render the harness's templates in the sandbox, and undo it at the end.

    The settings are those of the harness: undefined names are errors, and no newline is trimmed.
    """
    from jinja2 import StrictUndefined

    from adaptlab.text.sandbox import Sandbox

    utils: Any = import_module("lm_eval.utils")
    sandbox, before = Sandbox(LONGEST_RENDERED), utils.apply_template
    sandbox.trim_blocks = sandbox.lstrip_blocks = False
    sandbox.keep_trailing_newline, sandbox.undefined = True, StrictUndefined

    def rendered(template: str, document: Mapping[str, Any]) -> str:
        sandbox.start()
        pieces: list[str] = []
        left = LONGEST_RENDERED
        for piece in sandbox.from_string(template).generate(**document):
            sandbox.take()
            left -= len(piece)
            if left < 0:
                raise NotRendered(f"A template writes more than {LONGEST_RENDERED:,} characters.")
            pieces.append(piece)
        return "".join(pieces)

    utils.apply_template = rendered
    try:
        yield
    finally:
        utils.apply_template = before
