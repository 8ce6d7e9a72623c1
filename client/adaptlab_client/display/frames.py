"""Data frames, where pandas is installed: rows with the same names as the server's tables."""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any


def frame(rows: Iterable[Mapping[str, object]], columns: Sequence[str] | None = None) -> Any:
    """The rows as a pandas.DataFrame (Any, because pandas need not be installed).

    `columns` names them in their order, for rows that lack some and for none. Raises `ImportError`
    that says what to install.
    """
    return pandas().DataFrame([*rows], columns=None if columns is None else [*columns])


def pandas() -> Any:
    """The module; raises `ImportError` that says what to install."""
    try:
        return import_module("pandas")
    except ImportError as error:
        detail = (
            "to_pandas needs pandas: `pip install pandas`, or adaptlab with the extra `frames`. "
            "Without it, take rows() as they are."
        )
        raise ImportError(detail) from error
