"""`adaptlab studies new`: from a file or a task to the spec of a study."""

import shlex
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.commands.datasets import (
    ConfigOption,
    FormatOption,
    SplitOption,
    fetched_dataset,
    file_or_hub,
    form_given,
    is_of_hub,
    of_split,
)
from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.printing.terminal import Output, complain, say
from adaptlab_client.cli.questions import Questions
from adaptlab_client.cli.reading_options import (
    DelimiterOption,
    DropOption,
    EncodingOption,
    LabelOption,
    MergeOption,
    options_given,
)
from adaptlab_client.cli.session import open_client
from adaptlab_client.cli.specs import read_choice

if TYPE_CHECKING:
    from adaptlab.inspection.file_inspection import MeasuredFile
    from adaptlab.records.file_reading import Reading, ReadingOptions
    from adaptlab.studies.study_drafts import DraftBase, StudyDraft
    from adaptlab.text.fitting import Roles
    from adaptlab_answers.documents import JsonObject
    from adaptlab_answers.models import BaseModelView
    from adaptlab_answers.studies import StudyPreview
    from adaptlab_client.client import Client

MOST_LISTED = 12
MOST_SEEDS = 64
USUAL_SEEDS = "5"
USUAL_TASK = "sort_descending"

ABOUT_BASE = "The model that all methods adapt; `new` pretrains a small one first."
ABOUT_LABEL = (
    "The field that the model answers with. With 2 to 64 values it is a label, otherwise a text."
)
ABOUT_TASK = "What the model learns: a task without a file. `adaptlab tasks` lists them."
ABOUT_METHODS = (
    "The methods to compare, with commas; frozen and full_finetuning show the range. `adaptlab "
    "methods` lists them."
)
ABOUT_BUDGETS = (
    "How many parameters each method may train, with commas: numbers, or shares such as 0.1%."
)
ABOUT_SEEDS = "How often each method is trained; fewer than 5 cannot order methods."

COMMENTS = {
    "name": (
        "Drafted by `adaptlab studies new`. Change what you like, then look at the plan with\n"
        "`adaptlab studies create FILE --validate-only`, and run it with `--wait` instead.\n"
        "All members: docs/how-to/run-a-study.md\n\n"
        "The name is part of the study's address."
    ),
    "base_models": "The models to adapt: names, or whole specs of new ones.",
    "tasks": "What the models learn.",
    "methods": "Every method is tried at every budget; `adaptlab methods` lists all of them.",
    "budgets": "Trainable parameters, or {fraction_of_base: 0.001}: sets the size of every method.",
    "seeds": "Each method is trained this often, for intervals and verdicts.",
    "training": "The effort per run, the same for all methods.",
    "tuning": (
        "Learning rates tried per seed. Without a list they are spread over each method's own\n"
        "range, which depends on the size of the base model."
    ),
    "evaluation": "Test items that are scored, at most those that there are.",
}


@dataclass(frozen=True, slots=True)
class _Subject:
    """The task of a study: a file with the fields that it uses, or a task by name."""

    name: str
    task: "JsonObject"
    file: "MeasuredFile | None" = None
    roles: "Roles | None" = None


def new(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE|hub:ORG/NAME[@REVISION]",
            parser=file_or_hub,
            help="CSV, TSV, JSON, JSONL, Parquet or XLSX, or a dataset on the hub.",
        ),
    ] = None,
    config: ConfigOption = None,
    split: SplitOption = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="A task instead of a file: a name or YAML such as '{name: add, k: 2}'.",
            autocompletion=suggestions.tasks,
        ),
    ] = None,
    label: LabelOption = None,
    base: Annotated[
        str | None,
        typer.Option(
            help="Base model: a name, or `new` for a small one that is pretrained first.",
            autocompletion=suggestions.base_models,
        ),
    ] = None,
    methods: Annotated[str | None, typer.Option(help="Methods, separated by commas.")] = None,
    budgets: Annotated[
        str | None,
        typer.Option(help="Trainable parameters, separated by commas; 0.1% is a share."),
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Number of seeds.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=1, help="Time for the study: choose steps, rates and methods that fit."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the study. Default: that of the file or task.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Name of the dataset. Default: that of the file.")
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(exists=True, help="The base model's tokenizer.json, or its folder."),
    ] = None,
    form: FormatOption = None,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
    drop_empty: DropOption = False,
    merge_labels: MergeOption = False,
    to: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="YAML file to write. Default: the study's name."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the YAML file.")] = False,
    upload: Annotated[
        bool | None,
        typer.Option("--upload/--no-upload", help="Upload the file if the server lacks it."),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Only write the file; ask no server.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Take the default of what is not given.")
    ] = False,
) -> None:
    """Draft a study of a file or a task: ask five questions, write YAML, show the plan.

    The server fetches a dataset of the hub first.
    """
    questions = Questions(takes_defaults=yes)
    questions.require(
        {"--base": base, "--methods": methods, "--budgets": budgets, "--seeds": seeds}
    )
    given = _Given(label, base, methods, budgets, seeds)
    if file is not None and task is not None:
        raise UsageError("Give either a FILE or --task.")
    with ExitStack() as stack:
        client = None if offline else stack.enter_context(_connected(context))
        if file is not None and is_of_hub(str(file)):
            dataset, file = _of_hub(stack, client, dataset, of_split(str(file), config, split))
        if file is None:
            subject = _task_by_name(questions, task)
        else:
            options = options_given(delimiter, encoding, label, drop=drop_empty, merge=merge_labels)
            read = partial(_measured, file, form, tokenizer, dataset)
            subject = _file_with_fields(questions, read, options)
        named = name or _free_name(client, subject.name)
        path = to or Path(f"{named}.yaml")
        if path.exists() and not force:
            raise UsageError(f"{path} already exists. Add --force, or name another file by --to.")
        draft = _answered(questions, client, replace(subject, name=named), given)
        is_there = client is not None and _is_there(client, questions, subject.file, upload)
        if minutes is not None:
            if client is None or not is_there:
                raise UsageError("--minutes needs the estimate of a server that has the dataset.")
            draft = _fitted(client, draft, minutes, may_drop=methods is None)
        _write(path, draft)
        _say_next(client if is_there else None, path, draft, subject.file)


def _connected(context: typer.Context) -> "Client":
    from adaptlab_client.errors import NoServer

    try:
        return open_client(context)
    except NoServer:
        complain("Without a server, add --offline: the study is then written and not planned.")
        raise


def _of_hub(
    stack: ExitStack, client: "Client | None", name: str | None, source: str
) -> tuple[str, Path]:
    """Have a dataset fetched; return its name, and a temporary file with its records."""
    from adaptlab_client.resources.hub import name_for

    if client is None:
        raise UsageError("A dataset of the hub needs a server, which fetches it.")
    name = name or name_for(source)
    fetched_dataset(client, name, source)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="adaptlab-"))
    return name, client.datasets.download(name, Path(folder) / f"{name}.jsonl")


@dataclass(frozen=True, slots=True)
class _Given:
    """The options that answer questions."""

    label: str | None
    base: str | None
    methods: str | None
    budgets: str | None
    seeds: str | None


def _measured(
    file: Path,
    form: FormatOption,
    tokenizer: Path | None,
    dataset: str | None,
    options: "ReadingOptions",
) -> "MeasuredFile":
    from adaptlab.inspection.file_inspection import measured
    from adaptlab.inspection.token_counts import BadTokenizer

    try:
        found = measured(file, form_given(file, form), tokenizer, options)
    except BadTokenizer as error:
        raise UsageError(str(error)) from error
    name = dataset or found.facts.name
    return replace(found, facts=found.facts.model_copy(update={"name": name}))


def _file_with_fields(
    questions: Questions,
    read_file: "Callable[[ReadingOptions], MeasuredFile]",
    options: "ReadingOptions",
) -> _Subject:
    """Return the subject of a file, with its label or answer."""
    file = read_file(options)
    names = ", ".join(file.facts.names())
    guess = file.roles()

    def read(field: str) -> "Roles":
        if field not in file.facts.names():
            raise UsageError(f"{file.path.name} has no field {field!r}. Its fields: {names}.")
        roles = guess if guess and field == guess.answer else file.roles(field)
        if roles is None:
            raise UsageError(
                f"With the answer {field!r} there is no text to read. Choose another field of "
                f"{names}."
            )
        return roles

    about = f"{ABOUT_LABEL} Fields: {names}."
    roles = questions.answer(
        "Label or answer", about, options.label, lambda: guess.answer if guess else None, read
    )
    say(f"{file.path.name} is read as {file.reading.title}.")
    file = _mended(questions, read_file, options, file, roles)
    if roles.task == "chat_completion":
        say(f"The task is {roles.task}: {roles.text} is read, and its last turn answered.")
    else:
        verb = "are" if len(roles.read) > 1 else "is"
        say(f"The task is {roles.task}: {roles.title} {verb} read, and {roles.answer} answered.")
    task: JsonObject = {"name": roles.task, "dataset": file.facts.name}
    return _Subject(file.facts.name, task, file, roles)


def _mended(
    questions: Questions,
    read_file: "Callable[[ReadingOptions], MeasuredFile]",
    options: "ReadingOptions",
    file: "MeasuredFile",
    roles: "Roles",
) -> "MeasuredFile":
    """Say what is odd in a file, and return it with its labels mended if that is agreed to."""
    asked = {
        "drop_empty": "Leave these records out?",
        "merge_labels": "Write each of these labels in its first way?",
    }
    agreed = {
        option: questions.agree(question)
        for option, question in asked.items()
        if _say_findings(file, roles, option)
    }
    _say_findings(file, roles, None)
    if not any(agreed.values()):
        return file
    return read_file(options.model_copy(update={**agreed, "label": roles.answer}))


def _say_findings(file: "MeasuredFile", roles: "Roles", option: str | None) -> bool:
    """Print the findings that an option mends, or the others; return True for any."""
    from adaptlab.records.file_reading import MENDING

    found = [
        one
        for one in file.findings(roles)
        if (one.option if one.option in MENDING else None) == option
    ]
    for one in found:
        say(one.detail)
    return bool(found)


def _task_by_name(questions: Questions, given: str | None) -> _Subject:
    from adaptlab.errors import InvalidSpec
    from adaptlab.plugins.task import TASKS

    def read(text: str) -> "JsonObject":
        choice = read_choice(text)
        task: JsonObject = {"name": choice} if isinstance(choice, str) else choice
        try:
            plug_in = TASKS.get(str(task.get("name")))
        except InvalidSpec as error:
            raise UsageError(
                " ".join(problem.detail for problem in error.problems)
                + f" Tasks: {', '.join(TASKS.names())}."
            ) from error
        if plug_in.needs_tokeniser:
            raise UsageError(f"{task['name']} is a task of a file. Give the FILE instead of it.")
        return task

    if given is None and not questions.asks:
        raise UsageError("Give a FILE with records, or --task.")
    task = questions.answer("Task", ABOUT_TASK, given, lambda: USUAL_TASK, read)
    return _Subject(str(task["name"]).replace("_", "-"), task)


def _free_name(client: "Client | None", wanted: str) -> str:
    """Return a name that no study of the server has."""
    from adaptlab.studies.study_drafts import free_name
    from adaptlab_client.errors import NotFound

    def is_taken(name: str) -> bool:
        if client is None:
            return False
        try:
            client.studies.get(name)
        except NotFound:
            return False
        return True

    return free_name(wanted, is_taken)


def _answered(
    questions: Questions, client: "Client | None", subject: _Subject, given: _Given
) -> "StudyDraft":
    """Ask what is left, and return the draft of the study."""
    from adaptlab.studies import study_drafts as drafts

    base = _base(questions, client, subject, given.base)
    task, notes = drafts.like_the_base(subject.task, base), ()
    if subject.file is not None and subject.roles is not None:
        subject = replace(subject, file=_with_tokens(client, subject.file, base))
    if subject.file is not None and subject.roles is not None:
        try:
            fit = drafts.task_of_file(subject.file, subject.roles, base)
        except drafts.NoDraft as error:
            raise UsageError(str(error)) from error
        task, notes = cast("JsonObject", fit.spec["task"]), fit.notes
        base = base.with_head_for(task, subject.file.facts)
    served = [] if client is None else [method.name for method in client.methods.list()]

    def methods_of(text: str) -> Sequence[str]:
        names = _split(text)
        try:
            drafts.check_methods(names, base, task, served)
        except drafts.NoDraft as error:
            raise UsageError(str(error)) from error
        return names

    usual = ",".join(drafts.usual_methods(base, task))
    methods = questions.answer("Methods", ABOUT_METHODS, given.methods, lambda: usual, methods_of)
    matched = drafts.matched_budget(methods, base)
    budget = "0.1%" if matched is None else str(matched)
    budgets = questions.answer("Budgets", ABOUT_BUDGETS, given.budgets, lambda: budget, _budgets)
    seeds = questions.answer("Seeds", ABOUT_SEEDS, given.seeds, lambda: USUAL_SEEDS, _seeds)
    if base.spec is not None:
        base = replace(base, spec=base.spec | {"seeds": seeds})
    return drafts.StudyDraft(subject.name, task, base, methods, budgets, seeds, notes)


def _with_tokens(
    client: "Client | None", file: "MeasuredFile", base: "DraftBase"
) -> "MeasuredFile":
    """Return the file with lengths in tokens of an imported base model, if they can be had."""
    from adaptlab.inspection.token_counts import BadTokenizer
    from adaptlab_client.errors import NotFound

    if client is None or file.counter is not None or base.reads_bytes or base.spec is not None:
        return file
    with tempfile.TemporaryDirectory(prefix="adaptlab-") as folder:
        tokenizer = Path(folder) / "tokenizer.json"
        try:
            tokenizer.write_bytes(client.base_models.tokenizer(base.name))
            counted = file.counted_by(tokenizer)
        except (NotFound, BadTokenizer):  # the task then has the usual limit, and a note
            return file
    return replace(counted, facts=file.facts)


def _base(
    questions: Questions, client: "Client | None", subject: _Subject, given: str | None
) -> "DraftBase":
    from adaptlab.studies import study_drafts as drafts

    texts = subject.file is not None
    views: Iterable[BaseModelView] = [] if client is None else client.base_models.list()
    found = [drafts.DraftBase.of(v.name, v.parameters, v.family, v.task) for v in views]
    known = {base.name: base for base in drafts.in_order(found, texts=texts)}

    def read(name: str) -> "DraftBase":
        if name == drafts.NEW:
            return _new_base(subject)
        if client is None:
            return drafts.DraftBase(name)
        if name not in known:
            listed = ", ".join([*known, drafts.NEW][:MOST_LISTED])
            raise UsageError(f"There is no base model {name!r}. Base models: {listed}.")
        return known[name]

    def usual() -> str:
        first = next(iter(known.values()), None)
        return first.name if first and first.suits(texts=texts) else drafts.NEW

    listed = [
        f"  {base.name} ({base.parameters or 0:,} parameters, "
        f"{'imported' if base.task is None else 'pretrained on ' + str(base.task['name'])})"
        for base in [*known.values()][:MOST_LISTED]
    ]
    about = "\n".join([ABOUT_BASE, *listed])
    return questions.answer("Base model", about, given, usual, read)


def _new_base(subject: _Subject) -> "DraftBase":
    from adaptlab.studies import study_drafts as drafts

    seeds = int(USUAL_SEEDS)
    try:
        if subject.file is not None and subject.roles is not None:
            return drafts.new_base_for_texts(subject.file.facts, subject.roles, seeds)
        return drafts.new_base_for(subject.task, subject.name, seeds)
    except drafts.NoDraft as error:
        raise UsageError(str(error)) from error


def _budgets(text: str) -> Sequence[int | float]:
    return [_budget(part) for part in _split(text)]


def _budget(text: str) -> int | float:
    plain = text.replace("_", "")
    try:
        if plain.endswith("%"):
            share = float(plain[:-1]) / 100
            if 0 < share <= 1:
                return share
        elif (number := int(plain)) > 0:
            return number
    except ValueError:
        pass
    raise UsageError(
        f"{text!r} is not a budget. Write a number of trainable parameters such as 4096, or a "
        "share of the base model such as 0.1%."
    )


def _seeds(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_SEEDS:
        raise UsageError(f"{text!r} is not a number of seeds. Write one from 1 to {MOST_SEEDS}.")
    return int(text)


def _split(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError("Nothing is chosen. Write at least one.")
    return list(dict.fromkeys(parts))


def _write(path: Path, draft: "StudyDraft") -> None:
    from adaptlab_client.cli.printing.spec_text import commented

    path.write_text(commented(draft.document(), COMMENTS), encoding="utf-8")
    for note in draft.notes:
        say(f"note: {note}")
    complain(f"\nwrote {path}")


def _say_next(
    client: "Client | None", path: Path, draft: "StudyDraft", file: "MeasuredFile | None"
) -> None:
    """Show the plan of a server that has the dataset, and name the next command."""
    quoted = shlex.quote(str(path))
    if client is None:
        if file is not None:
            command = ["adaptlab", "datasets", "upload", file.facts.name, str(file.path)]
            say(f"Next: {shlex.join([*command, *_as_read(file.reading)])}")
        say(f"{'Then' if file else 'Next'}: adaptlab studies create {quoted} --validate-only")
        return
    _print_plan(client, path, draft)
    say(f"Next: adaptlab studies create {quoted} --wait")


def _fitted(
    client: "Client", draft: "StudyDraft", minutes: float, *, may_drop: bool
) -> "StudyDraft":
    """Return the draft with the most effort that fits, and say what it is."""
    from adaptlab.studies.plan_fitting import fitted
    from adaptlab.studies.study_drafts import NoDraft

    def seconds_of(tried: "StudyDraft") -> float:
        return client.studies.preview(tried.document()).seconds

    try:
        plan = fitted(draft, minutes, 1, seconds_of, may_drop=may_drop)
    except NoDraft as error:
        raise UsageError(str(error)) from error
    effort = plan.draft.effort
    assert effort is not None
    left = f" Left out: {', '.join(plan.left_out)}." if plan.left_out else ""
    say(
        f"Fits {minutes:g} minutes: {effort.steps} steps, {effort.trials} rates, "
        f"{plan.draft.seeds} seeds, up to {effort.samples} test items.{left}"
    )
    return plan.draft


def _as_read(reading: "Reading") -> list[str]:
    """Return the options with which a file is read in the same way."""
    cleaning = reading.cleaning
    if cleaning is None:
        return []
    drop = ["--drop-empty"] if cleaning.dropped else []
    merge = ["--merge-labels"] if cleaning.merged else []
    return [*drop, *merge, "--label", cleaning.label]


def _is_there(
    client: "Client", questions: Questions, file: "MeasuredFile | None", upload: bool | None
) -> bool:
    """Return True if the server has the dataset, perhaps since now."""
    from adaptlab_client.cli.printing.progress import byte_bar
    from adaptlab_client.errors import NotFound
    from adaptlab_client.machine.record_files import canonical

    if file is None:
        return True
    name = file.facts.name
    try:
        there = client.datasets.get(name)
    except NotFound:
        there = None
    if there is not None and there.digest != file.facts.digest:
        raise UsageError(
            f"The server has a dataset {name!r} with other content. Name this one by --dataset."
        )
    if there is not None:
        return True
    question = f"The server has no dataset {name!r}. Upload {file.path.name}?"
    if not (questions.agree(question) if upload is None else upload):
        return False
    with canonical(file.path, file.reading) as content, byte_bar(file.path.name) as report:
        client.datasets.upload_file(
            name, content, kind="records", report=report, reading=file.reading
        )
    return True


def _print_plan(client: "Client", path: Path, draft: "StudyDraft") -> None:
    from adaptlab_client.cli.printing.study_plans import print_preview
    from adaptlab_client.errors import ApiError

    try:
        preview = client.studies.preview(draft.document())
    except ApiError:
        complain(f"The server refuses the study. Change {path}, and run `adaptlab studies create`.")
        raise
    print_preview(preview, Output.TABLE)
    _say_how_closely(preview)


def _say_how_closely(preview: "StudyPreview") -> None:
    """Print how far apart the sizes of the methods are at each budget."""
    from adaptlab.comparisons.row_names import row_title
    from adaptlab.figures import percent
    from adaptlab.studies.study_drafts import CLOSE, spread_of

    budgets = dict.fromkeys(cell.budget for cell in preview.cells if cell.role == "method")
    for budget in budgets:
        cells = [c for c in preview.cells if c.role == "method" and c.budget == budget]
        trained = [cell.trainable_parameters for cell in cells]
        if len(trained) > 1 and min(trained) == max(trained):
            say(f"At {budget:,} all methods train {trained[0]:,} parameters.")
        elif len(trained) > 1:
            say(
                f"At {budget:,} the methods train {min(trained):,} to {max(trained):,} parameters, "
                f"{percent(spread_of(trained))} apart."
            )
        for cell in cells:
            if len(cells) > 1 and budget and cell.trainable_parameters < (1 - CLOSE) * budget:
                used = percent(cell.trainable_parameters / budget)
                say(f"{row_title(cell.method)} uses {used} of the budget.")
