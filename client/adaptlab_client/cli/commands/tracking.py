"""`adaptlab studies track`: a study on a lab's own board."""

from pathlib import Path
from typing import Annotated

import typer

from adaptlab_client.cli.commands.study_links import StudyArgument
from adaptlab_client.cli.printing.terminal import inert, say
from adaptlab_client.cli.session import open_client


def track(
    context: typer.Context,
    study: StudyArgument,
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
    from adaptlab_client.trackers.mlflow import MlflowServer
    from adaptlab_client.trackers.tensorboard import TensorBoardFolder
    from adaptlab_client.trackers.tracked_runs import tracked_runs

    board: MlflowServer | TensorBoardFolder
    if tensorboard is None:
        assert mlflow is not None
        board = MlflowServer(mlflow, experiment)
    else:
        board = TensorBoardFolder(tensorboard)
    with open_client(context) as client:
        number = board.send(tracked_runs(client, client.studies.get(study)))
    say(f"{number} runs of {inert(study)} are in {inert(str(mlflow or tensorboard))}")
