"""`python -m adaptlab_worker worker` and `python -m adaptlab_worker beat`."""

import sys

import typer

from adaptlab.errors import BadSettings
from adaptlab_worker.cli import beat, worker

program = typer.Typer(add_completion=False, no_args_is_help=True)
program.command()(worker)
program.command()(beat)

if __name__ == "__main__":
    try:
        program()
    except BadSettings as error:
        sys.exit(f"error: {error}")
