"""Recommendations: which method for a task, from what the server's jobs have measured."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue, TypeAdapter

from adaptlab_answers.recommendations import Recommendation
from adaptlab_client.transport.connection import Connection, Request, path_of

Choice = str | Mapping[str, object]


class Recommendations:
    """What the results of one server say about the question which method to use."""

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
    ) -> Recommendation:
        """The method for a task and a base model within a budget, and what that rests on.

        `budget` is a number of trainable parameters or `{"fraction_of_base": 0.001}`; with
        `max_seconds` only what no job took longer for, and with `methods` only these. Raises
        `InvalidRequest`. Where nothing has been measured it says so and proposes a first study.
        """
        given: dict[str, object] = {
            "task": task,
            "base_model": base_model,
            "budget": budget,
            "max_seconds": max_seconds,
            "methods": [*methods] or None,
        }
        body = {name: value for name, value in given.items() if value is not None}
        sent = TypeAdapter[JsonValue](JsonValue).validate_python(body)
        return self._connection.ask(
            Request("POST", path_of("recommendations"), body=sent), Recommendation
        )
