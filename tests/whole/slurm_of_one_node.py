"""A Slurm of one node on this machine, for as long as a test takes.

It needs neither root nor munge nor cgroups: Debian's `slurm-wlm` and this configuration suffice.
"""

import getpass
import os
import shutil
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname

from tests.watching import until

from adaptlab_stack.ports import HeldPort

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs=1 RealMemory=500
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing_programs() -> list[str]:
    """Slurm's programs that are missing; daemons are in root's folders."""
    return [name for name in PROGRAMS if _program(name) is None]


@dataclass(frozen=True)
class Slurm:
    """A running Slurm, called with the variables of `environment`."""

    folder: Path
    environment: dict[str, str]

    def call(self, program: str, *arguments: str, cwd: Path | None = None) -> str:
        """The output of one of Slurm's programs."""
        done = subprocess.run(
            [str(_program(program)), *arguments],
            env=self.environment,
            cwd=cwd or self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def state(self, number: str) -> dict[str, str]:
        """What `scontrol show job` says of a batch job."""
        shown = self.call("scontrol", "show", "job", number, "--oneliner")
        return dict(field.split("=", 1) for field in shown.split() if "=" in field)


@contextmanager
def slurm_in(folder: Path, environment: dict[str, str]) -> Generator[Slurm]:
    """Start both daemons, with files in `folder`, a path without spaces."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    configuration = folder / "slurm.conf"
    host = gethostname().split(".")[0]
    ports = [HeldPort(), HeldPort()]
    configuration.write_text(
        CONFIGURATION.format(
            folder=folder,
            host=host,
            user=getpass.getuser(),
            controller=ports[0].number,
            daemon=ports[1].number,
        )
    )
    slurm = Slurm(folder, {**environment, "SLURM_CONF": str(configuration)})
    daemons = [_daemon(slurm, name) for name in ("slurmctld", "slurmd")]
    try:
        until(lambda: _is_idle(slurm), f"an idle node; see {folder}/*.log")
        yield slurm
    finally:
        for daemon in reversed(daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in daemons:
            daemon.wait(60)


def _daemon(slurm: Slurm, name: str) -> "subprocess.Popen[bytes]":
    with (slurm.folder / f"{name}.out").open("wb") as output:
        return subprocess.Popen(
            [str(_program(name)), "-c", "-D"],
            env=slurm.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _is_idle(slurm: Slurm) -> bool:
    done = subprocess.run(
        [str(_program("sinfo")), "--noheader", "--format", "%T"],
        env=slurm.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() == "idle"


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
