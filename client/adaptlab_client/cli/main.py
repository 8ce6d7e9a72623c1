"""The command `adaptlab`: its tree of commands and its error handling.

Importing this module and showing help loads neither httpx, pydantic nor any other package of ours,
because a command line must start fast to be useful in loops.
"""

import os
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from adaptlab_client.cli.exits import ExitCode, exit_code, next_step
from adaptlab_client.cli.extensions import extensions, load, summary
from adaptlab_client.cli.groups import QuietOption, add


class Root(TyperGroup):
    """The root of the tree: adds other packages' commands, handles errors."""

    # Typer keeps the types of contexts and commands private, so they are `Any` below.
    def list_commands(self, ctx: Any) -> list[str]:
        """Return our own commands, then those of other packages."""
        return [*super().list_commands(ctx), *extensions()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or the stub of one of another package."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in (others := extensions()):
            return own
        stub = typer.Typer(add_completion=False, rich_markup_mode=None)
        stub.command(cmd_name, help=summary(others[cmd_name]))(_not_loaded)
        return typer.main.get_command(stub)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command to run; here a command of another package is loaded."""
        name, command, rest = super().resolve_command(ctx, args)
        point = None if name in self.commands else extensions().get(name or "")
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
    complain(f"adaptlab: {kind}{error}")
    if hint := next_step(error):
        complain(hint)
    if code is ExitCode.INTERNAL:
        complain("This is a bug in adaptlab. Set ADAPTLAB_TRACEBACK=1 to see where.")
    raise typer.Exit(code) from error


def application() -> typer.Typer:
    """Return the whole command line, without other packages' commands."""
    from adaptlab_client.cli.commands import (
        answers,
        attention,
        audit,
        base_models,
        bundle,
        catalogue,
        checkpoints,
        compare,
        completion,
        datasets,
        doctor,
        jobs,
        model_folders,
        people,
        recipes,
        recommend,
        results,
        server,
        signing_in,
        slurm,
        studies,
        theory,
        tokens,
        uploads,
        webhooks,
    )

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
    for subcommands in (
        jobs.application(),
        studies.application(),
        bundle.application(),
        recipes.application(),
        results.application(),
        catalogue.budgets_application(),
        base_models.application(),
        model_folders.application(),
        datasets.application(),
        checkpoints.application(),
        uploads.application(),
        theory.application(),
        tokens.application(),
        people.users_application(),
        people.projects_application(),
        webhooks.application(),
        audit.application(),
        server.application(),
    ):
        app.add_typer(subcommands)
    for name, command in {
        "login": signing_in.login,
        "logout": signing_in.logout,
        "whoami": signing_in.whoami,
        "compare": compare.compare,
        "recommend": recommend.recommend,
        "answers": answers.answers,
        "attention": attention.attention,
        "methods": catalogue.methods,
        "tasks": catalogue.tasks,
        "families": catalogue.families,
        "workers": server.workers,
        "doctor": doctor.doctor,
        "sbatch-script": slurm.sbatch_script,
        "completion": completion.completion,
    }.items():
        add(app, name, command)
    return app


def run() -> None:
    """Run the command line on the arguments of the process."""
    from adaptlab_client.cli.commands.completion import PROGRAM, VARIABLE, prepare
    from adaptlab_client.cli.process import kind_to_its_streams

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
            help="Address of the server. Default: ADAPTLAB_URL, else the server started here."
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
