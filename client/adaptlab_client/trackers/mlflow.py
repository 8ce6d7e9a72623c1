"""Runs on an MLflow tracking server."""

import os
from collections.abc import Iterable

import httpx

from adaptlab_answers.trackers.mlflow import MlflowExperiment
from adaptlab_answers.trackers.tracked_runs import TrackedRun
from adaptlab_client.trackers.connection import SECONDS, HttpConnection

HOW_TO_SIGN_IN = (
    "Set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."
)


class MlflowServer:
    """An experiment on an MLflow server.

    Args:
        url: address of the server.
        experiment: name of the experiment, which is created if it is not there.
        transport: how requests are sent; the default is the network.

    MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, are sent as by
    MLflow's own client. Every method raises `TrackerRefused`.
    """

    def __init__(
        self, url: str, experiment: str = "adaptlab", transport: httpx.BaseTransport | None = None
    ) -> None:
        self.place = url.rstrip("/")
        self._experiment = experiment
        self._transport = transport

    def send(self, runs: Iterable[TrackedRun]) -> int:
        """Send runs, each after the one above it; return their number."""
        token = os.environ.get("MLFLOW_TRACKING_TOKEN")
        user = os.environ.get("MLFLOW_TRACKING_USERNAME")
        password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
        with httpx.Client(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            auth=(user, password) if user and not token else None,
            timeout=SECONDS,
            transport=self._transport,
        ) as client:
            connection = HttpConnection("MLflow", self.place, client, HOW_TO_SIGN_IN)
            return MlflowExperiment(connection, self._experiment).send(runs)
