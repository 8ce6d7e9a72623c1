"""The control group (cgroup v2) that is delegated to this process, if any."""

import os
import sys
from pathlib import Path

HIERARCHY = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
MARK = "user.delegate"
"""Extended attribute by which systemd (251 and newer) marks groups of `Delegate=`."""


def delegated_group(hierarchy: Path = HIERARCHY, own: Path = OWN) -> Path | None:
    """Return the folder of the control group delegated to this process.

    It is the process's own group or, as with `DelegateSubgroup=`, that group's parent. Root can
    write to every group of a machine, but those that are not delegated belong to the service
    manager.

    Args:
        hierarchy: the folder of all groups.
        own: the file that names the process's groups.
    """
    group = _group_in(hierarchy, own)
    if group is None:
        return None
    candidates = (group,) if group == hierarchy else (group, group.parent)
    return next((path for path in candidates if _is_delegated(path, hierarchy)), None)


def _group_in(hierarchy: Path, own: Path) -> Path | None:
    """Return the process's group; None where groups are of version 1."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return None
    name = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), None)
    return None if name is None else hierarchy / name.lstrip("/")


def _is_delegated(group: Path, hierarchy: Path) -> bool:
    # The machine's first group has no type, so that one is the first group of a container.
    is_containers = group == hierarchy and (group / "cgroup.type").exists()
    if not (is_containers or _is_marked(group)):
        return False
    is_writable = all(
        os.access(path, os.W_OK) for path in (group, group / "cgroup.subtree_control")
    )
    return is_writable and "memory" in controllers(group)


def _is_marked(group: Path) -> bool:
    if sys.platform != "linux":
        return False
    try:
        return os.getxattr(group, MARK) == b"1"
    except OSError:
        return False


def controllers(group: Path, file: str = "cgroup.controllers") -> frozenset[str]:
    """Return the controllers that a file of a group lists."""
    try:
        return frozenset((group / file).read_text().split())
    except OSError:
        return frozenset()
