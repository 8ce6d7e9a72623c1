"""The process that reads a Parquet file for the server.

Run as `python -m adaptlab_services.models.parquet_process POINTER`. It reads the file at its
standard input, which it opens again, and writes a canonical line per record. Problems are one line
of JSON on its standard error, with the exit status 1. A small file can ask for any amount of
memory, so this process has a limit of its own.
"""

import resource
import sys
from pathlib import Path

from pydantic import TypeAdapter

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.records.parquet import read_parquet
from adaptlab.records.record import canonical_line

MEMORY_BYTES = 4 * 2**30
"""Bytes of addresses that the process may have; it uses a few hundred million."""

PROBLEMS = TypeAdapter(tuple[Problem, ...])
REFUSED = 1
_INPUT = Path("/dev/stdin")


def main() -> int:
    """Write the records of the file as canonical lines."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    lines = sys.stdout.buffer
    try:
        for placed in read_parquet(_INPUT, sys.argv[1]):
            lines.write(canonical_line(placed.record))
    except InvalidSpec as error:
        sys.stderr.buffer.write(PROBLEMS.dump_json(error.problems))
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
