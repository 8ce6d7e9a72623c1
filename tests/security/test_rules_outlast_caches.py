"""Rules for files in /proc hold after the kernel has dropped its caches.

Without that, a run that needed nearly all memory failed when it read its own peak at the end.
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from adaptlab_worker.confinement.landlock import version

CACHES = Path("/proc/sys/vm/drop_caches")
READ = ("/proc/self/status", "/proc/meminfo", "/proc/sys/kernel/osrelease")
READER = f"""
import sys
from pathlib import Path
from adaptlab_worker.confinement.landlock import FileRules, restrict

restrict(FileRules(readable=("/proc/self", "/proc/meminfo", "/proc/sys", "/usr", *sys.path[1:])))

def look():
    for path in {READ!r}:
        try:
            Path(path).read_text()
        except OSError as error:
            return str(error)
    return "all were read"

print(look(), flush=True)
sys.stdin.readline()
print(look(), flush=True)
"""


@pytest.mark.skipif(version() == 0, reason="this kernel has no Landlock")
def test_own_files_are_read_after_caches_were_dropped() -> None:
    reader = subprocess.Popen(
        [sys.executable, "-c", READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdin is not None
    assert reader.stdout is not None
    with reader:
        assert reader.stdout.readline() == "all were read\n"
        try:
            for _ in range(4):  # what was in use a moment ago is spared at first
                CACHES.write_text("2")
                time.sleep(0.2)
        except OSError:
            reader.kill()
            pytest.skip("only root of the machine itself can drop its caches")
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "all were read\n"
