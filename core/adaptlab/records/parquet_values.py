"""Values of Parquet columns as those of records."""

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, cast

from adaptlab.records.accepted_answers import published
from adaptlab.records.conversations import is_meant_as_conversation

FEATURES = b"huggingface"
"""The member of a schema's metadata with the features of the library `datasets`."""


def class_names(metadata: Mapping[bytes, bytes]) -> dict[str, Sequence[str]]:
    """Return the names of classes by the column that has their numbers."""
    try:
        document: Any = json.loads(metadata.get(FEATURES, b"{}"))
        features: Any = document["info"]["features"]
        labels: dict[str, Any] = {
            str(name): feature["names"]
            for name, feature in features.items()
            if feature.get("_type") == "ClassLabel"
        }
        return {name: tuple(map(str, names)) for name, names in labels.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def as_value(value: object, classes: Sequence[str] | None) -> object:
    """Return a value that a record can have; others stay as they are.

    `classes` are the names of a column of classes, whose number -1 means none.
    """
    value = published(value)
    match value:
        case None:
            return ""
        case int() if classes and not isinstance(value, bool) and -1 <= value < len(classes):
            return "" if value < 0 else classes[value]
        case float() if math.isnan(value):
            return ""
        case Decimal():
            return str(value)
        case dict():
            return _written(cast("object", value))
        case list() if not is_meant_as_conversation(cast("object", value)):
            return _written(cast("object", value))
        case _:
            # Dates, times and durations by what they can do: core knows no clock.
            written = getattr(value, "isoformat", None) or getattr(value, "total_seconds", None)
            return str(written()) if callable(written) else value


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
