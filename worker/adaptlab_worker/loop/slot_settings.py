"""The shared options of a worker's slots, from its settings."""

import importlib.util
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from adaptlab.c_compiler import COMPILERS, WHAT_IT_COSTS, c_compiler
from adaptlab.specs.memory import USABLE
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.settings import Settings
from adaptlab_worker.attempt.waiting_limits import Patience
from adaptlab_worker.confinement.confinement import TrainerLimits, machine_memory
from adaptlab_worker.confinement.installation import file_rules, keep_compiled_python
from adaptlab_worker.confinement.landlock import version
from adaptlab_worker.confinement.system_calls import can_refuse
from adaptlab_worker.confinement.trainer_user import TrainerUser, user_and_roots
from adaptlab_worker.errors import TorchMissing
from adaptlab_worker.loop.slot import SlotOptions
from adaptlab_worker.trainer.trainer_groups import TrainerGroups, trainer_groups
from adaptlab_worker.trainer.trainer_process import MULTI_PROCESS_SERVICE, TrainerOptions

log = logging.getLogger(__name__)

GPU_DEVICES = (Path("/dev/nvidiactl"), Path("/dev/kfd"))
"""Those of NVIDIA and AMD."""


def slot_options(settings: Settings, slots: int, runner: str | None) -> SlotOptions:
    """Return the shared options of a worker's slots.

    Raises:
        TorchMissing: trainers have no torch.
        TrainerUserBarred: trainers cannot run as the configured user.
    """
    if runner is None and importlib.util.find_spec("torch") is None:
        raise TorchMissing
    threads = max(1, (os.cpu_count() or 1) // slots) if slots > 1 else None
    trainer, roots = _trainer_options(settings, threads, runner)
    return SlotOptions(
        queues=settings.queues,
        heartbeat_seconds=settings.heartbeat_seconds,
        save_seconds=settings.save_seconds,
        poll_seconds=settings.poll_seconds,
        roots=ModelRoots(roots),
        memory_bytes=settings.memory_bytes
        or _share_of_memory(slots * settings.workers_per_machine),
        scratch_free_bytes=settings.scratch_free_bytes,
        cache_bytes=settings.cache_bytes,
        trainer=trainer,
        patience=Patience(
            settings.ride_through_seconds, settings.stall_seconds, settings.stall_steps
        ),
    )


def _has_gpu() -> bool:
    return any(map(Path.exists, GPU_DEVICES))


def _share_of_memory(runs: int) -> int | None:
    """Return the memory of one of several runs; None for no limit.

    Each run takes most of what is free when it begins. Two that begin together would take it twice,
    and the kernel would kill one of them. On a GPU memory is counted there, so it is not shared.
    """
    if runs == 1 or _has_gpu():
        return None
    return int(USABLE * machine_memory() / runs)


def _trainer_options(
    settings: Settings, threads: int | None, runner: str | None
) -> tuple[TrainerOptions, Mapping[str, Path]]:
    """Return the options of trainers, and the model roots that they can read."""
    scratch = settings.data_dir.resolve() / "worker" / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        for folder in (scratch.parent, scratch):
            folder.chmod(0o711)  # traversable but not listable
    limits = _limits(settings)
    user, roots = user_and_roots(settings.trainer_user, settings.model_roots, scratch, limits)
    for alias in sorted(settings.model_roots.keys() - roots.keys()):
        log.warning(
            "trainers cannot read the model root %r (%s), so jobs that need it are left to other "
            "workers; give the trainers' user permission to read it and start the worker again",
            alias,
            settings.model_roots[alias],
        )
    keep_compiled_python()
    _say_what_slows()
    groups = trainer_groups(os.getpid())
    _say_what_confines(user, limits, groups)
    options = TrainerOptions(
        threads=threads,
        runner=runner,
        limits=limits,
        user=user,
        passed_on=settings.trainer_environment,
        groups=groups,
    )
    return options, roots


def _limits(settings: Settings) -> TrainerLimits:
    """Return the limits of all trainers, with file rules if supported."""
    network = settings.trainer_network == "allowed"
    files = None
    if version():
        readable = (*settings.model_roots.values(), *settings.trainer_reads)
        closed = (settings.data_dir, *filter(None, [settings.artifact_folder]))
        rules = file_rules(os.environ, readable, closed, network=network)
        writable = tuple(str(path.resolve()) for path in settings.trainer_writes)
        files = rules.model_copy(update={"writable": writable})
    return TrainerLimits(
        memory_bytes=settings.trainer_memory_bytes or machine_memory(),
        network=network,
        connections=MULTI_PROCESS_SERVICE in os.environ,
        shared_memory=_has_gpu(),  # CUDA shares memory with its own threads and compilers so
        files=files,
    )


def _say_what_slows() -> None:
    """Warn of a machine without a C compiler, if it trains on its CPU."""
    if c_compiler() is None and not _has_gpu():
        log.warning(
            "this machine has no C compiler (%s), so trainers leave everything to torch, and %s; "
            "install one, such as gcc, and start the worker again",
            ", ".join(COMPILERS),
            WHAT_IT_COSTS,
        )


def _say_what_confines(
    user: TrainerUser | None, limits: TrainerLimits, groups: TrainerGroups | None
) -> None:
    """Log the confinement of trainers; warn of what the kernel lacks."""
    if not can_refuse():
        log.warning(
            "trainers can reach the network and may leave processes behind: this kernel "
            "supports no system call filter (seccomp), or its architecture is unknown"
        )
    if limits.files is None:
        log.warning(
            "trainers can read and write whatever %s can: this kernel lacks Landlock (Linux "
            "5.13 or newer, enabled), which would limit them to their own folders",
            _name_of(user),
        )
    log.info(
        "trainers run as %s, with at most %d MiB of memory each, and %s network",
        _name_of(user),
        limits.memory_bytes // 2**20,
        "the" if limits.network or not can_refuse() else "no",
    )
    log.info(
        "the limit of memory holds for %s",
        "each process of a trainer, as no control group is delegated to this worker"
        if groups is None
        else f"all processes of a trainer together, by control groups in {groups.folder}",
    )


def _name_of(user: TrainerUser | None) -> str:
    if user is not None:
        return user.name
    return "root without its privileges" if os.geteuid() == 0 else "the worker's user"
