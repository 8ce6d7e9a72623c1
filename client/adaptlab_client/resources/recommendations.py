"""Recommendations of a method for a task, from stored results."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue, TypeAdapter

from adaptlab_answers.recommendations import Recommendation
from adaptlab_client.transport.connection import Connection, Request, path_of

Choice = str | Mapping[str, object]


class Recommendations:
    """Recommendations from the results of one server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def ask(
        self,
        task: Choice,
        *,
        base_model: str,
        budget: int | Mapping[str, float],
        max_seconds: float | None = None,
        methods: Sequence[Choice] = (),
        include_shared: bool = False,
    ) -> Recommendation:
        """Return the method to use for a task and a base model, with the evidence.

        `budget` is a number of trainable parameters or `{"fraction_of_base": 0.001}`. With
        `max_seconds`, only methods whose jobs took no longer are considered; with `methods`, only
        these. Jobs that other projects share count only with `include_shared`. Without results, the
        answer proposes a first study. Raises `InvalidRequest`.
        """
        members: dict[str, object] = {
            "task": task,
            "base_model": base_model,
            "budget": budget,
            "max_seconds": max_seconds,
            "methods": [*methods] or None,
            "include_shared": include_shared or None,
        }
        body = {name: value for name, value in members.items() if value is not None}
        sent = TypeAdapter[JsonValue](JsonValue).validate_python(body)
        return self._connection.ask(
            Request("POST", path_of("recommendations"), body=sent), Recommendation
        )
