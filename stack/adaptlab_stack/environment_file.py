"""Settings in a file of lines `NAME=value`, read again at every reload."""

import os
from collections.abc import Mapping
from pathlib import Path

from dotenv.parser import parse_stream

from adaptlab_stack.errors import EnvironmentFileInvalid


def environment_with(path: Path | None) -> Mapping[str, str]:
    """Return this process's environment with the variables of a file.

    The file's values take precedence.

    Raises:
        EnvironmentFileInvalid: the file cannot be read, or a line is not of the form `NAME=value`.
    """
    if path is None:
        return os.environ
    try:
        with path.open(encoding="utf-8") as stream:
            lines = list(parse_stream(stream))
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentFileInvalid(f"{path} cannot be read: {error}") from error
    values: dict[str, str] = {}
    for line in lines:
        if line.error or (line.key is not None and line.value is None):
            raise EnvironmentFileInvalid(
                f"line {line.original.line} of {path} is not of the form NAME=value"
            )
        if line.key is not None and line.value is not None:
            values[line.key] = line.value
    return {**os.environ, **values}
