"""A training without the server: `python -m bench.bare_run SPEC` prints the seconds that it took.

It loads and warms up what the worker's trainer does, and then runs the engine with an observer
that forgets everything.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from adaptlab.engine.allocator import keep_freed_memory, return_freed_memory
from adaptlab.engine.compiled import compile_kernels
from adaptlab.engine.run import run
from adaptlab.spec import ResolvedSpec
from adaptlab_worker.trainer import SilentObserver, warm_up
from adaptlab_worker.trainer_process import TrainerOptions, trainer_environment


def main(spec: str) -> None:
    """Run the resolved spec in a file."""
    keep_freed_memory()
    compile_kernels()
    warm_up(run)
    return_freed_memory()
    resolved = ResolvedSpec.model_validate_json(Path(spec).read_text())
    with tempfile.TemporaryDirectory() as scratch:
        begin = time.perf_counter()
        run(resolved, (), Path(scratch), SilentObserver(), clock=time.perf_counter)
        print(time.perf_counter() - begin)


def environment() -> dict[str, str]:
    """The environment that a worker would give its trainer."""
    return trainer_environment(os.environ, TrainerOptions())


if __name__ == "__main__":
    main(sys.argv[1])
