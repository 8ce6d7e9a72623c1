"""The process that inspects a file of records for the server.

Run as `python -m adaptlab_services.models.inspection_process NAME FORM OPTIONS POINTER`. It reads
the file at its standard input, which it opens again, and writes an `Inspection` as JSON. Problems
and limits are those of `records_process`.
"""

import resource
import sys
from pathlib import Path
from typing import cast

from adaptlab.errors import InvalidSpec
from adaptlab.inspection.file_inspection import inspected
from adaptlab.records.file_forms import FileForm
from adaptlab.records.file_reading import ReadingOptions
from adaptlab_services.models.records_process import MEMORY_BYTES, PROBLEMS, REFUSED


def main() -> int:
    """Write what is in the file."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    name, form, given = sys.argv[1:]
    options = ReadingOptions.model_validate_json(given)
    try:
        found = inspected(Path("/dev/stdin"), cast("FileForm", form), options=options, name=name)
    except InvalidSpec as error:
        sys.stderr.buffer.write(PROBLEMS.dump_json(error.problems))
        return REFUSED
    sys.stdout.buffer.write(found.model_dump_json().encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
