"""`python -m adaptlab_api --host HOST --port PORT`."""

import typer

from adaptlab_api.cli import serve

if __name__ == "__main__":
    typer.run(serve)
