"""`adaptlab studies track`: a study on a lab's own board."""

from pathlib import Path
from typing import Annotated

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.printing.terminal import inert, say
from adaptlab_client.cli.session import open_client


def track(
    context: typer.Context,
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY", help="Id or name of a study.", autocompletion=suggestions.studies
        ),
    ],
    mlflow: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of an MLflow server.")
    ] = None,
    experiment: Annotated[str, typer.Option(help="Experiment of MLflow.")] = "adaptlab",
    tensorboard: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for TensorBoard's event files.")
    ] = None,
) -> None:
    """Write a study as runs of MLflow or TensorBoard: study, jobs, seeds.

    Repeat it while the study runs: what is there is updated, nothing is doubled. Credentials are
    those of MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.
    """
    if (mlflow is None) == (tensorboard is None):
        raise typer.BadParameter("Give --mlflow URL or --tensorboard FOLDER.")
    from adaptlab_client.trackers.tracked_runs import tracked_runs

    with open_client(context) as client:
        runs = tracked_runs(client, client.studies.get(study))
        if tensorboard is not None:
            from adaptlab_client.trackers.tensorboard import TensorBoardFolder

            number, where = TensorBoardFolder(tensorboard).send(runs), tensorboard
        else:
            from adaptlab_client.trackers.mlflow import MlflowServer

            assert mlflow is not None
            number, where = MlflowServer(mlflow, experiment).send(runs), mlflow
    say(f"{number} runs of {inert(study)} are in {inert(str(where))}")
