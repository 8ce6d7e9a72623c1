"""JSON objects that are sent to the server."""

from pydantic import JsonValue

Document = dict[str, JsonValue]
