"""The page about the command line."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from adaptlab_client.cli import exits
from adaptlab_client.cli.examples import EXAMPLES
from adaptlab_client.cli.extensions import extensions, load
from adaptlab_client.cli.main import application

# Typer keeps the types of contexts, commands and parameters private, so they are `Any` below.

HEADER = """\
# Reference: the command line

<!-- Made by `python -m adaptlab_client.reference`; do not edit. -->

Results go to stdout, messages to stderr. With `--quiet` (`-q`), before or after any command, stderr
gets errors only. `--help` prints the same text as this page.

`--output` (`-o`) sets the format on stdout:

| format | output |
| --- | --- |
| `table` | columns for people, rounded, without colour in a pipe; they may change |
| `json` | one document: an object for one item, an array for a list; members as in the API |
| `jsonl` | one object per line, each as soon as it arrives |
| `csv` | the columns of the table, not rounded; names in the first line, times in ISO 8601 |
| `id` | one id per line, for the next command |

Text from other users is safe to print: control characters are made visible, and a csv cell that a
spreadsheet would read as a formula gets a leading quote.

The server is that of `--url`, else of ADAPTLAB_URL, else the one started in this folder or one
above it, else the one of the last `adaptlab login`. The token is that of ADAPTLAB_TOKEN, else the
one that `adaptlab login` stored. Ctrl-C ends only the wait of a command: jobs and studies go on.

`eval "$(adaptlab completion bash)"` completes commands and options in the shell, and ids and names
if a server answers. Use the same with zsh, and `adaptlab completion fish | source` for fish.

## Exit codes
"""


def commands_page() -> str:
    """The text of the page."""
    root: Any = typer.main.get_command(application())
    context = root.context_class(root, info_name="adaptlab", resilient_parsing=True)
    parts = [HEADER, _exit_codes(), "## adaptlab\n", _parameters(root, context)]
    parts += [_command(one, context, name, 2) for name, one in root.commands.items()]
    parts.append(
        "## Commands that come with extras\n\n`api`, `beat` and `migrate` come with "
        "`adaptlab[server]`, `worker` with `adaptlab[worker]`, the others with `adaptlab[stack]`.\n"
    )
    for name, point in extensions().items():
        found: Any = typer.main.get_command(load(point))
        parts.append(_command(found, context, name, 3))
    return "\n".join(parts)


def _exit_codes() -> str:
    """A table of the codes with what stands below each in its source."""
    tree = ast.parse(Path(exits.__file__).read_text(encoding="utf-8"))
    (found,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "ExitCode"]
    rows = ["| code | name | meaning |", "| --- | --- | --- |"]
    for place, node in enumerate(found.body):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            below = found.body[place + 1] if place + 1 < len(found.body) else None
            about = _text(below) or "Done; awaited jobs and studies succeeded."
            rows.append(f"| {int(exits.ExitCode[name])} | {name} | {about} |")
    return "\n".join([*rows, ""])


def _text(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return " ".join(str(node.value.value).split())
    return ""


def _command(command: Any, above: Any, name: str, level: int) -> str:
    context = command.context_class(command, info_name=name, parent=above, resilient_parsing=True)
    path = context.command_path
    parts = [f"{'#' * level} {path}\n", inspect.cleandoc(command.help or "") + "\n"]
    if hasattr(command, "commands"):
        parts += [_command(one, context, each, level + 1) for each, one in command.commands.items()]
        return "\n".join(parts)
    usage = " ".join(command.collect_usage_pieces(context))
    parts += [f"```\n{path} {usage}\n```\n", _parameters(command, context)]
    examples = EXAMPLES.get(path.partition(" ")[2], ())
    if examples:
        parts.append("\n".join(["```sh", *examples, "```", ""]))
    return "\n".join(part for part in parts if part)


def _parameters(command: Any, context: Any) -> str:
    rows = [f"| `{_cell(name)}` | {_cell(about)} |" for name, about in _records(command, context)]
    return "\n".join(["| parameter | meaning |", "| --- | --- |", *rows, ""]) if rows else ""


def _records(command: Any, context: Any) -> Iterator[tuple[str, str]]:
    for one in command.get_params(context):
        record = one.get_help_record(context)
        if record and not {"--help", "--quiet"} & set(one.opts):
            yield record


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
