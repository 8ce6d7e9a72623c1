"""`python -m adaptlab_worker worker` and `python -m adaptlab_worker beat`."""

import typer

from adaptlab_worker.cli import beat, worker

program = typer.Typer(add_completion=False, no_args_is_help=True)
program.command()(worker)
program.command()(beat)

if __name__ == "__main__":
    program()
