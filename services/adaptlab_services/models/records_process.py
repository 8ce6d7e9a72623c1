"""The process that reads a Parquet file or a workbook for the server.

Run as `python -m adaptlab_services.models.records_process FORM OPTIONS POINTER`. It reads the file
at its standard input, which it opens again, and writes the reading and then a canonical line per
record. Problems are one line of JSON on its standard error, with the exit status 1. A small file
can ask for any amount of memory, so this process has a limit of its own.
"""

import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from pydantic import TypeAdapter

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.file_forms import FileForm
from adaptlab.records.file_reading import Reading, ReadingOptions
from adaptlab.records.reading import reading_of_file, records_of
from adaptlab.records.record import Record, canonical_line
from adaptlab.text.cleaning import whole_reading

MEMORY_BYTES = 4 * 2**30
"""Bytes of addresses that the process may have; it uses a few hundred million."""

PROBLEMS = TypeAdapter(tuple[Problem, ...])
REFUSED = 1
_INPUT = Path("/dev/stdin")


def main() -> int:
    """Write the reading of the file, and its records as canonical lines."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    form, given, pointer = sys.argv[1:]
    options, lines = ReadingOptions.model_validate_json(given), sys.stdout.buffer
    try:
        plain = reading_of_file(_INPUT, cast("FileForm", form), options, pointer)
        reading = whole_reading(plain, options, lambda: _records(plain, pointer))
        lines.write(reading.model_dump_json().encode() + b"\n")
        for record in _records(reading, pointer):
            lines.write(canonical_line(record))
    except InvalidSpec as error:
        sys.stderr.buffer.write(PROBLEMS.dump_json(error.problems))
        return REFUSED
    return 0


def _records(reading: Reading, pointer: str) -> Iterator[Record]:
    return (placed.record for placed in records_of(_INPUT, reading, pointer))


if __name__ == "__main__":
    sys.exit(main())
