"""Data frames with the server's column names, if pandas is installed."""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any


def frame(rows: Iterable[Mapping[str, object]], columns: Sequence[str] | None = None) -> Any:
    """Return the rows as a pandas.DataFrame (Any, because pandas is optional).

    `columns` gives their order, needed if there are no rows or some lack members. Raises
    `ImportError` without pandas, with the package to install.
    """
    return pandas().DataFrame([*rows], columns=None if columns is None else [*columns])


def pandas() -> Any:
    """Return the module; raises `ImportError` with the package to install."""
    try:
        return import_module("pandas")
    except ImportError as error:
        detail = (
            "to_pandas needs pandas: `pip install pandas`, or adaptlab with the extra `frames`. "
            "Without pandas, use rows()."
        )
        raise ImportError(detail) from error
