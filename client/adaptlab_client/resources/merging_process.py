"""Adaptations in other forms, by a process that loads torch."""

import subprocess
import sys
from importlib.util import find_spec

from adaptlab.runs.merge_request import MODULE, MergeReport, MergeRequest
from adaptlab_client.errors import CannotConvert

_REFUSED = 3


def converted(request: MergeRequest) -> MergeReport:
    """Write an adaptation in another form; see `MergeRequest`.

    Raises:
        CannotConvert: it has no such form, or this machine lacks torch.
    """
    if find_spec("torch") is None:
        raise CannotConvert(
            "Converting an adaptation computes with torch, which this machine lacks. Install it "
            "with `pip install 'adaptlab[worker]'`, or run the command on a worker's machine."
        )
    done = subprocess.run(
        [sys.executable, "-m", MODULE],
        input=request.model_dump_json().encode(),
        capture_output=True,
        check=False,
    )
    if done.returncode == _REFUSED:
        raise CannotConvert(done.stderr.decode(errors="replace").strip().splitlines()[-1])
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise CannotConvert(
            f"The conversion ended with the status {done.returncode}: {' '.join(last)[:300]} If "
            "memory ran out, run it on a larger machine."
        )
    return MergeReport.model_validate_json(done.stdout)
