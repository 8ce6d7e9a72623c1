"""The files that a trainer needs: Python, packages, libraries, devices."""

import importlib.metadata
import importlib.util
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from adaptlab_worker.confinement.landlock import FileRules

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store"),
    *("/opt/rocm", "/opt/nvidia", "/opt/intel"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload"),
    *("/etc/localtime", "/etc/timezone", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf"),
    *("/etc/OpenCL", "/etc/nvidia", "/etc/vulkan"),
)
OF_THE_KERNEL = (
    *(f"/proc/{name}" for name in ("self", "cpuinfo", "meminfo", "stat", "version", "modules")),
    *(f"/proc/{name}" for name in ("devices", "filesystems", "driver", "sys", "loadavg", "uptime")),
    *("/sys/devices", "/sys/bus", "/sys/class", "/sys/module", "/sys/fs/cgroup"),
    *("/sys/kernel/mm/transparent_hugepage", "/sys/kernel/mm/hugepages"),
)
OF_THE_NETWORK = (
    *(f"/etc/{name}" for name in ("hosts", "resolv.conf", "host.conf", "gai.conf", "services")),
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/run/systemd/resolve"),
)
DEVICES = ("null", "full", "random", "urandom")
ZERO = "/dev/zero"
"""Only read: a shared mapping that can be written is memory that no limit counts."""
OWN_PEAK = "/proc/self/clear_refs"
"""Written by the engine to reset the measured peak of its memory."""
OWN_THREADS = "/proc/self/task"
"""Written by CUDA to name its threads; a process that may not finds no GPU."""
CARDS = ("nvidia*", "nvidia-caps", "dri", "kfd", "dxg", "davinci*")
LISTS_OF_FOLDERS = ("PYTHONPATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH")
IMPORT_OF_ENGINE = "import adaptlab.running.run"
READABLE_BY_ALL = 0o022  # umask
FOLDERS = ("CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "HIP_PATH", "VIRTUAL_ENV", "PYTHONPYCACHEPREFIX")

log = logging.getLogger(__name__)


def file_rules(
    environment: Mapping[str, str],
    readable: Iterable[Path],
    closed: Iterable[Path],
    *,
    network: bool,
) -> FileRules:
    """Return the rules for every trainer, without its own folders.

    Args:
        environment: the trainer's, in which users name folders of libraries.
        readable: paths besides the installation, such as model roots.
        closed: folders that stay closed even inside one of the others.
        network: whether it may use the network, and so read its configuration.
    """
    system = (*SYSTEM, *(OF_THE_NETWORK if network else ()))
    names = [*map(Path, system), *_python(), *_named_in(environment), *_editable(), *readable]
    kept = {path.resolve() for path in closed}
    opened = [str(part) for path in names for part in _around(path.resolve(), kept)]
    cards = sorted(str(path) for pattern in CARDS for path in Path("/dev").glob(pattern))
    return FileRules(
        # Not resolved: `self` is the process that the rules apply to.
        readable=tuple(dict.fromkeys([*OF_THE_KERNEL, ZERO, *opened])),
        devices=(*(f"/dev/{name}" for name in DEVICES), OWN_PEAK, OWN_THREADS, *cards),
    )


def _python() -> Iterator[Path]:
    """Yield Python, its environment and its module paths.

    The current folder is left out.

    Python puts that first if a module is run by name; it may be somebody's home.
    """
    yield from map(Path, (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix))
    yield Path(sys.executable)
    yield from map(Path, _places_of_modules())


def _places_of_modules() -> list[str]:
    first, *others = sys.path or [""]
    is_present_folder = first in ("", str(Path.cwd()))
    return [entry for entry in (*([] if is_present_folder else [first]), *others) if entry]


def _named_in(environment: Mapping[str, str]) -> Iterator[Path]:
    for name in LISTS_OF_FOLDERS:
        entries = environment.get(name, "").split(os.pathsep)
        yield from (Path(entry) for entry in entries if Path(entry).is_absolute())
    for name in FOLDERS:
        if Path(environment.get(name, "")).is_absolute():
            yield Path(environment[name])


def _editable() -> Iterator[Path]:
    """Yield the source trees of packages that were installed editable.

    If the module path names folders in the tree, as here, those are enough; other build tools
    install a finder, and only that can locate the modules.
    """
    named = [Path(entry) for entry in _places_of_modules()]
    for distribution in importlib.metadata.distributions():
        text = distribution.read_text("direct_url.json")
        origin: dict[str, Any] = json.loads(text or "{}")  # as PEP 610 describes it
        if origin.get("dir_info", {}).get("editable"):
            tree = Path(unquote(urlparse(str(origin["url"])).path))
            if not any(place.is_relative_to(tree) for place in named):
                yield tree


def _around(path: Path, closed: set[Path]) -> Iterator[Path]:
    """Yield the path, or its content without closed folders, at any depth."""
    if path in closed or any(folder in path.parents for folder in closed):
        return
    if not any(path in folder.parents for folder in closed):
        yield path
        return
    for entry in path.iterdir():
        if not entry.is_symlink():
            yield from _around(entry, closed)


def keep_compiled_python() -> None:
    """Compile torch's modules to byte code if the installer did not.

    Trainers cannot write there, and each would compile them again, for three seconds. They may be
    other users, so everybody can read the byte code.
    """
    spec = importlib.util.find_spec("torch")
    if sys.dont_write_bytecode or spec is None or spec.origin is None:
        return
    compiled = Path(importlib.util.cache_from_source(spec.origin))
    # A Path would raise an error where another user's byte code is closed.
    if os.path.exists(compiled) or not os.access(Path(spec.origin).parent, os.W_OK):  # noqa: PTH110
        return
    log.info("torch is compiled to byte code once, for all trainers")
    command = [sys.executable, "-c", IMPORT_OF_ENGINE]
    subprocess.run(command, check=False, cwd="/", umask=READABLE_BY_ALL)
