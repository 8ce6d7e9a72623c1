"""`adaptlab studies track`: studies on a lab's own board."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.printing.terminal import inert, say
from adaptlab_client.cli.session import open_client

if TYPE_CHECKING:
    from adaptlab_answers.trackers.board import Board


def track(
    context: typer.Context,
    studies: Annotated[
        list[str] | None, typer.Argument(help="Names or ids; with --follow, by default all.")
    ] = None,
    mlflow: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of an MLflow server.")
    ] = None,
    trackio: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of a Trackio server.")
    ] = None,
    experiment: Annotated[
        str, typer.Option(help="Experiment of MLflow, or project of Trackio or W&B.")
    ] = "adaptlab",
    tensorboard: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for TensorBoard's event files.")
    ] = None,
    wandb: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for offline runs of W&B.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on as jobs run and end, until stopped.")
    ] = False,
    interval: Annotated[
        float, typer.Option(min=1, max=3600, help="With --follow: seconds between looks.")
    ] = 30,
) -> None:
    """Write studies as runs of MLflow, Trackio, TensorBoard or W&B.

    Repeat it as you like: what is there is updated, nothing is doubled. With --follow it can run
    beside a server for all studies of a project; while the board does not answer, jobs go on, and
    what it lacks is sent later. Credentials are those of MLFLOW_TRACKING_TOKEN, of
    MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or of TRACKIO_WRITE_TOKEN. `wandb sync
    FOLDER` sends to W&B, again only what has changed; keep the folder, which has what was sent.
    """
    if [mlflow, trackio, tensorboard, wandb].count(None) != 3:
        raise typer.BadParameter(
            "Give --mlflow URL, --trackio URL, --tensorboard FOLDER or --wandb FOLDER."
        )
    if not studies and not follow:
        raise typer.BadParameter("Name a study, or give --follow for all of them.")
    try:
        board = _board(mlflow, trackio, experiment, tensorboard, wandb)
    except ImportError as error:
        raise UsageError(str(error)) from error
    with open_client(context) as client:
        from adaptlab_client.trackers.following import Following
        from adaptlab_client.trackers.tracked_runs import tracked_runs

        if follow:
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            try:
                Following(client, board, studies or (), interval, _told).run()
            except KeyboardInterrupt:
                return
        for study in studies or ():
            number = board.send(tracked_runs(client, client.studies.get(study)))
            say(f"{inert(study)}: {number} runs in {inert(board.place)}")


def _told(line: str) -> None:
    say(inert(line))


def _board(
    mlflow: str | None,
    trackio: str | None,
    experiment: str,
    tensorboard: Path | None,
    wandb: Path | None,
) -> "Board":
    if mlflow is not None:
        from adaptlab_client.trackers.mlflow import MlflowServer

        return MlflowServer(mlflow, experiment)
    if trackio is not None:
        from adaptlab_client.trackers.trackio import TrackioServer

        return TrackioServer(trackio, experiment)
    if wandb is not None:
        from adaptlab_client.trackers.wandb import WandbFolder

        return WandbFolder(wandb, experiment)
    from adaptlab_client.trackers.tensorboard import TensorBoardFolder

    assert tensorboard is not None
    return TensorBoardFolder(tensorboard)
