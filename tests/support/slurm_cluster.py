"""A private SLURM with one node on loopback and invented GPUs. It does not use system services, accounts or files."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support.processes import free_ports
from support.waiting import tail, wait_for

# after `Cluster.freeze`, the first submission meets a controller that is alive but does not answer for some time
SBATCH = """\
if read number seconds 2>/dev/null < {folder}/freeze; then
    rm {folder}/freeze
    kill -STOP $number
    (sleep $seconds; kill -CONT $number) > /dev/null 2>&1 &
fi
exec {real} "$@\"
"""
# Snakemake can hang if a signal comes while its scheduler works. With control groups, SLURM ends all processes of a
# job. Here there are none, so SLURM misses processes whose parent has ended, and this script ends them. Another cluster
# on this machine may have a job of the same number.
EPILOG = """\
#!/bin/sh
for folder in $(grep -lsz "^SLURM_JOB_ID=$SLURM_JOB_ID$" /proc/[0-9]*/environ | xargs -n 1 dirname); do
    grep -qsz "^PATH=.*PLACE/bin" $folder/environ || continue
    grep -qsz ^SLURM_SCRIPT_CONTEXT= $folder/environ || kill -9 ${folder#/proc/} 2>/dev/null
done
exit 0
"""
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
SEARCHED = f"{os.environ['PATH']}:/usr/sbin:/sbin"
GPUS = 8
QUIET = 15.0  # seconds that jobs and daemons have to end by themselves
SETTINGS = """\
ClusterName=private
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.id
SlurmdPidFile={folder}/slurmd.id
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
Epilog={folder}/bin/epilog
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill,NoShared
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0
GresTypes=gpu
ReturnToService=2
EnforcePartLimits=ALL
KillWait=30
BatchStartTimeout=60
JobRequeue=1
NodeName=node NodeHostname={host} NodeAddr=127.0.0.1 CPUs=64 RealMemory=500000 Gres=gpu:h100:{gpus} State=UNKNOWN
PartitionName=main Nodes=node Default=YES MaxTime=1440 DefaultTime=10 State=UP
PartitionName=closed Nodes=node AllowAccounts=nobody State=UP
"""


def missing() -> str:
    """The reason why a cluster cannot start here; "" if it can."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=SEARCHED)]
    return f"SLURM is not installed: {', '.join(absent)} missing (Debian: slurm-wlm, munge)" if absent else ""


class Cluster:
    """Its folder, its daemons by name, and the environment that its clients need."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))  # short, as sockets need
        self.environment = _configured(self.folder)
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        munge = ["--foreground", "--force", f"--socket={self.folder}/munge.socket"]
        munge += [f"--key-file={self.folder}/munge.key"]
        munge += [f"--{kind}-file={self.folder}/munge.{kind}" for kind in ("pid", "log", "seed")]
        self._start("munged", *munge)
        self._until(lambda: (self.folder / "munge.socket").exists())
        self._start("slurmctld", "-D", "-c")
        self._start("slurmd", "-D", "-N", "node")
        self._until(lambda: self.ask("sinfo", "-h", "-o", "%T") == "idle")

    def stop(self) -> None:
        """Stop the cluster, all its jobs, and processes that have outlived their jobs."""
        self.ask("scancel", "--full", "--partition=main")
        end = time.monotonic() + QUIET
        while self.ask("squeue", "-h") and time.monotonic() < end:
            time.sleep(0.1)
        for process in reversed(self.daemons.values()):
            process.terminate()
        for process in reversed(self.daemons.values()):
            _ended(process)
        for number in self._orphans():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def without_controller(self) -> Iterator[None]:
        self.daemons["slurmctld"].terminate()
        _ended(self.daemons["slurmctld"])
        try:
            yield
        finally:
            self._start("slurmctld", "-D")
            self._until(lambda: "up" in self.ask("scontrol", "ping").lower())

    def freeze(self, seconds: int) -> None:
        """Let the controller stop for some time at the next submission, which times out after ten seconds."""
        (self.folder / "freeze").write_text(f"{self.daemons['slurmctld'].pid} {seconds}\n", "utf-8")

    def ask(self, *command: str) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, timeout=60)
        return done.stdout.strip()

    def _start(self, *command: str) -> None:
        with open(self.folder / f"{command[0]}.out", "ab") as out:
            self.daemons[command[0]] = subprocess.Popen(command, env=self.environment, stdout=out, stderr=out)

    def unanswered(self) -> int:
        """How often Snakemake asked for its jobs and got no answer."""
        return tail(self.folder / "unanswered").count("--states=all")

    def _until(self, condition: Callable[[], bool]) -> None:
        wait_for(condition, lambda: "".join(map(tail, sorted(self.folder.glob("*.log")))))

    def _orphans(self) -> Iterator[int]:
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                values = path.read_bytes().split(b"\0")
                if f"SLURM_CONF={self.folder}/slurm.conf".encode() in values and int(path.parent.name) != os.getpid():
                    yield int(path.parent.name)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Start a cluster, and always stop it at the end."""
    made = Cluster()
    try:
        made.start()
        yield made
    finally:
        made.stop()


def _configured(folder: Path) -> dict[str, str]:
    controller, daemon = free_ports(2)
    host = socket.gethostname().split(".")[0]
    user = os.environ.get("USER") or subprocess.check_output(["id", "-un"], text=True).strip()
    for name in ("state", "spool", "bin"):
        (folder / name).mkdir()
    for number in range(GPUS):
        (folder / f"gpu{number}").symlink_to("/dev/null")
    (folder / "munge.key").touch(mode=0o600)
    (folder / "munge.key").write_bytes(os.urandom(128))
    gpus = f"AutoDetect=off\nNodeName=node Name=gpu Type=h100 File={folder}/gpu[0-{GPUS - 1}]\n"
    (folder / "gres.conf").write_text(gpus, "utf-8")
    values = {"folder": folder, "host": host, "user": user, "controller": controller, "daemon": daemon, "gpus": GPUS}
    (folder / "slurm.conf").write_text(SETTINGS.format(**values), "utf-8")
    _write_program(folder / "bin/epilog", EPILOG.replace("PLACE", str(folder)))
    lines = dict.fromkeys(("srun", "scontrol"), 'exec {real} "$@"')
    lines["squeue"] = '{real} "$@" || {{ echo "$@" >> {folder}/unanswered; exit 1; }}'
    lines["sbatch"] = SBATCH
    for name, line in lines.items():  # the step inside a job is started without SLURM_CONF
        call = line.format(real=shutil.which(name, path=SEARCHED), folder=folder)
        _write_program(folder / "bin" / name, f"#!/bin/sh\nexport SLURM_CONF={folder}/slurm.conf\n{call}\n")
    return {**os.environ, "SLURM_CONF": f"{folder}/slurm.conf", "PATH": f"{folder}/bin:{SEARCHED}"}


def _write_program(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    path.chmod(0o755)


def _ended(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(timeout=QUIET)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
