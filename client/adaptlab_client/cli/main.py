"""The command `adaptlab`: its tree of commands and its error handling.

Importing this module and showing help loads neither httpx, pydantic nor any other package of ours,
because a command line must start fast to be useful in loops.
"""

import gc
import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, version
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from adaptlab_client.cli.contents import FIRST, OTHERS, PLACES, SECTIONS
from adaptlab_client.cli.exits import ExitCode, exit_code, message, next_step
from adaptlab_client.cli.extensions import extensions, is_ours, load, summary
from adaptlab_client.cli.groups import QuietOption, add


class Root(TyperGroup):
    """The root of the tree: loads commands when they are named, handles errors."""

    # Typer keeps the types of contexts and commands private, so they are `Any` below.
    @cached_property
    def _others(self) -> dict[str, EntryPoint]:
        return extensions()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return our own commands, then those of other packages."""
        return [*PLACES, *self._others]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or the stub of one of another package."""
        if cmd_name in PLACES and cmd_name not in self.commands:
            self.commands[cmd_name] = typer.main.get_command(_built(cmd_name))
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in self._others:
            return own
        stub = typer.Typer(add_completion=False, rich_markup_mode=None)
        stub.command(cmd_name, help=summary(self._others[cmd_name]))(_not_loaded)
        return typer.main.get_command(stub)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by subject."""
        names = self.list_commands(ctx)
        width = max(map(len, names))
        limit = formatter.width - width - 6
        for title, section in _sections(self._others).items():
            rows = [
                (name.ljust(width), self.get_command(ctx, name).get_short_help_str(limit))
                for name in section
            ]
            with formatter.section(title):
                formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command to run; here a command of another package is loaded."""
        if args[0] in PLACES:
            return super().resolve_command(ctx, args)
        if args[0] not in self._others and not args[0].startswith("-"):
            near = get_close_matches(args[0], self.list_commands(ctx))
            nearest = " or ".join(f"`adaptlab {name}`" for name in near)
            step = f"Did you mean {nearest}?" if nearest else "`adaptlab --help` lists all."
            ctx.fail(f"There is no command {args[0]!r}. {step}")
        name, command, rest = super().resolve_command(ctx, args)
        point = self._others.get(name or "")
        if point is not None:
            command = typer.main.get_command(load(point))
            command.name = name
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run, and report errors as a short text on stderr and an exit code."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise  # Typer's own way out
        except BrokenPipeError as error:
            raise typer.Exit(ExitCode.PIPE_CLOSED) from error
        except Exception as error:  # noqa: BLE001 - users of a command line need no traceback
            leave(error)


def leave(error: Exception) -> NoReturn:
    """Print the error and exit; ADAPTLAB_TRACEBACK=1 raises it instead."""
    from adaptlab_client.cli.printing.terminal import complain

    if os.environ.get("ADAPTLAB_TRACEBACK"):
        raise error
    code = exit_code(error)
    kind = f"{type(error).__name__}: " if code is ExitCode.INTERNAL else ""
    complain(f"adaptlab: {kind}{message(error)}")
    if hint := next_step(error):
        complain(hint)
    if code is ExitCode.INTERNAL:
        complain("This is a bug in adaptlab. Set ADAPTLAB_TRACEBACK=1 to see where.")
    raise typer.Exit(code) from error


def application() -> typer.Typer:
    """Return the whole command line, without other packages' commands."""
    app = typer.Typer(
        name="adaptlab",
        cls=Root,
        help="Which adaptation method works for my task at this parameter budget, and why?",
        epilog=(
            "Exit codes: 0 done, 1 job failed or cancelled, 2 usage or validation, 3 "
            "infeasible budget, 4 authentication, 5 not found, 65 invalid file, 69 server "
            "unreachable, 70 internal error, 75 temporary, 124 timed out, 130 interrupted, 141 "
            "pipe closed."
        ),
        no_args_is_help=True,
        add_completion=False,  # `adaptlab completion` prints, and changes no file
        rich_markup_mode=None,  # rich's help takes 0.3 s to load, and reads markup in names
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    return app


def _built(name: str) -> typer.Typer:
    """Return the application of one of our commands."""
    module, _, attribute = PLACES[name].partition(":")
    place: Any = getattr(import_module(f"adaptlab_client.cli.commands.{module}"), attribute)
    if attribute.endswith("application"):
        return place()
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    add(app, name, place)
    return app


def _sections(others: Mapping[str, EntryPoint]) -> Mapping[str, Sequence[str]]:
    """Return the names of all commands by section."""
    ours = [name for name, point in others.items() if is_ours(point)]
    foreign = [name for name in others if name not in ours]
    sections = {title: [*names] for title, names in SECTIONS.items()}
    sections[OTHERS] = [*sorted(ours, key=lambda name: name not in FIRST), *sections[OTHERS]]
    return sections | ({"Other packages": foreign} if foreign else {})


def run() -> None:
    """Run the command line on the arguments of the process."""
    from adaptlab_client.cli.commands.completion import PROGRAM, VARIABLE, prepare
    from adaptlab_client.cli.process import kind_to_its_streams

    gc.set_threshold(100_000)  # imports create many objects, of which none is garbage
    prepare()
    with kind_to_its_streams():
        application()(prog_name=PROGRAM, complete_var=VARIABLE)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(version("adaptlab"))
        raise typer.Exit


def _root(
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Option(
            help="Address of the server. Default: ADAPTLAB_URL, else the server started last."
        ),
    ] = None,
    project: Annotated[
        str | None,
        typer.Option(
            envvar="ADAPTLAB_PROJECT",
            help=(
                "Show only this project and create things in it. Default: show all of your "
                "projects."
            ),
        ),
    ] = None,
    quiet: QuietOption = False,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    from adaptlab_client.cli.printing.terminal import be_quiet
    from adaptlab_client.cli.session import remember_server

    be_quiet(quiet)
    remember_server(context, url, project)


def _not_loaded() -> None:
    """Placeholder for a command of another package in the help."""
