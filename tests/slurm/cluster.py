"""A Slurm cluster of four nodes on one machine: munged, slurmctld, and a slurmd for each node.

    enter_namespaces()                     # first of all, once a test program
    with Cluster() as cluster:
        job = cluster.sbatch(TOP / "slurm/train_4x8.sh", "--time=10", environment={"DEVICE": "cpu"})
        cluster.kill_node("n1")

By hand: cluster.py [COMMAND…]

The daemons are children of the test, which ends them by their process ids. They and all jobs live in namespaces of
processes, network and mounts of their own: clusters do not meet, and the kernel ends whatever a test leaves when it ends,
however it ends.

A node is a slurmd and what it has started. All nodes share the machine's memory, so that MPI has to be kept from
finding that out (`ENVIRONMENT`).
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

NODES = ("n0", "n1", "n2", "n3")
TOOLS = ("unshare", "ip", "munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")
NAMESPACES = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net")
INSIDE = "GPT_TEST_SLURM_INSIDE"
GPUS = 8  # of a node
CPUS = 64  # of a node, as Slurm is told
START_LIMIT = 30  # seconds

# The first process, which reaps. Names of addresses are looked up only where a network other than the loopback is there.
FIRST = """
ip link set lo up && ip link add slurm0 type veth peer name slurm1 &&
ip address add 10.98.0.1/24 dev slurm0 && ip link set slurm0 up && ip link set slurm1 up || exit 1
"$@"
exit $?
"""

# Between processes of one machine that are told to be on several, Open MPI's shared memory goes wrong.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_oob_tcp_if_include": "lo",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMP_WAIT_POLICY": "passive",
}

SLURM_CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
# cred_expire: a requeued job waits for that long before it may start.
AuthInfo=socket={folder}/munge/socket,cred_expire=7
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
TmpFS={folder}/tmp/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/%n.log
SlurmctldPort=6817
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=pmix
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=10
KillWait=5
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0,bf_interval=2
{gres}
NodeName=n[0-3] NodeHostname={host} NodeAddr=127.0.0.1 Port=[17001-17004] CPUs={cpus} RealMemory=4000 {node} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=20
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=OFF
"""


def missing():
    """Why this machine cannot have such a cluster; empty if it can."""
    tools = [tool for tool in TOOLS if not shutil.which(tool)]
    if os.geteuid() != 0:
        return "a Slurm cluster needs root: it lives in namespaces"
    return f"a Slurm cluster needs {', '.join(tools)} (Debian: slurm-wlm, munge, iproute2, util-linux)" if tools else ""


def enter_namespaces():
    """Starts this test program again inside namespaces."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    reason = missing()
    if reason:
        print("skipped:", reason)
        sys.exit(1 if os.environ.get("GPT_TEST_STRICT", "0") != "0" else 77)
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        again = [sys.executable, "-B", *sys.argv]
        os.execvp("unshare", ["unshare", *NAMESPACES, "bash", "-c", FIRST, "bash", *again])


def wait_for(condition, what, seconds=60, pause=0.1):
    """The condition's value, once it is true."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not after {seconds} s: {what() if callable(what) else what}")
        time.sleep(pause)


class Job:
    """A batch job. Its output is a file in the folder that it was submitted in."""

    def __init__(self, cluster, number, out):
        self.cluster, self.number, self.out = cluster, number, out

    def field(self, name):
        """As scontrol shows it; empty if it does not."""
        shown = self.cluster.ask("scontrol", "show", "job", self.number).stdout
        found = re.search(rf"(?:^|\s){name}=(\S*)", shown)
        return found[1] if found else ""

    @property
    def state(self):
        return self.field("JobState")

    def text(self):
        return self.out.read_text(encoding="utf-8", errors="replace") if self.out.exists() else ""

    def wait_for(self, text, seconds=60, times=1):
        """Until the job's output has the text so often."""
        wait_for(lambda: self.text().count(text) >= times, lambda: f"{times} times {text!r}\n{self}", seconds)

    def wait_for_state(self, *states, seconds=60):
        wait_for(lambda: self.state in states, lambda: f"state {states}\n{self}", seconds)

    def wait_for_end(self, seconds=120):
        """Returns its exit code, as a shell tells it."""
        self.wait_for_state("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", seconds=seconds)
        code, _, number = self.field("ExitCode").partition(":")
        return int(code) or 128 * bool(int(number)) + int(number)

    def cancel(self, *options):
        return self.cluster.ask("scancel", *options, self.number)

    def __str__(self):
        shown = self.cluster.ask("scontrol", "show", "job", self.number).stdout
        return f"{shown}\n--- {self.out}\n{self.text()}\n--- slurmctld\n{self.cluster.log('slurmctld')}"


class Cluster:
    def __init__(self, gpus=GPUS):
        """@param gpus  of each node; 0: the cluster knows no such thing"""
        self.gpus = gpus
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpt-slurm-"))
        self.conf = self.folder / "slurm.conf"
        self.environment = os.environ | ENVIRONMENT | {"SLURM_CONF": str(self.conf)}
        self.daemons = {}
        self.stopped = {}

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def start(self):
        began = time.monotonic()
        self.folder.chmod(0o755)
        for name in ("state", "log", "munge", *(f"{kind}/{node}" for kind in ("tmp", "spool") for node in NODES)):
            (self.folder / name).mkdir(parents=True)
        self._write_configuration()
        self._start_munge()
        self._spawn("slurmctld", "slurmctld", "-D", "-f", self.conf)
        for node in NODES:
            self.start_node(node)
        self.wait_for_nodes(NODES, seconds=START_LIMIT)
        print(f"cluster with {self.gpus} GPUs a node: {time.monotonic() - began:.1f} s")

    def close(self):
        """Ends all jobs and daemons."""
        if "slurmctld" in self.daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.ask("scancel", "--user=root", timeout=5)
        for node in NODES:
            self.kill_node(node)
        for name, daemon in reversed(self.daemons.items()):
            if daemon.poll() is None:
                daemon.terminate()
                try:
                    daemon.wait(5)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()
        self.daemons = {}
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write_configuration(self):
        gres = "GresTypes=gpu" if self.gpus else ""
        text = SLURM_CONF.format(
            host=socket.gethostname().partition(".")[0],
            folder=self.folder,
            cpus=CPUS,
            gres=gres,
            node=f"Gres=gpu:{self.gpus}" if self.gpus else "",
        )
        self.conf.write_text(text, encoding="utf-8")
        if self.gpus:
            # Any character device will do: Slurm counts them.
            for number in range(self.gpus):
                (self.folder / f"gpu{number}").symlink_to("/dev/null")
            gres_conf = f"Name=gpu File={self.folder}/gpu[0-{self.gpus - 1}]\n"
            (self.folder / "gres.conf").write_text(gres_conf, encoding="utf-8")

    def _start_munge(self):
        folder = self.folder / "munge"
        key = folder / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        places = [f"--{name}={folder / name.partition('-')[0]}" for name in ("key-file", "socket", "seed-file")]
        places += [f"--log-file={folder}/log", f"--pid-file={folder}/pid"]
        self._spawn("munged", "munged", "--foreground", "--force", *places)
        wait_for((folder / "socket").exists, "munged's socket", 10, 0.02)

    def _spawn(self, name, *command, **environment):
        with open(self.folder / "log" / f"{name}.err", "ab") as err:
            self.daemons[name] = subprocess.Popen(
                list(map(str, command)),
                stdin=subprocess.DEVNULL,
                stdout=err,
                stderr=err,
                env=self.environment | environment,
                start_new_session=True,
            )

    def log(self, name, lines=40):
        texts = [path.read_text(errors="replace") for path in sorted((self.folder / "log").glob(f"{name}.*"))]
        return "\n".join("\n".join(text.splitlines()[-lines:]) for text in texts)

    # What users do.

    def ask(self, *command, timeout=60, environment=None, cwd=None):
        """Runs one of Slurm's commands, or whatever, as a user of the cluster."""
        return subprocess.run(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=self.environment | (environment or {}),
            timeout=timeout,
            cwd=cwd,
            check=False,
        )

    def sbatch(self, script, *options, cwd, environment=None, name="job"):
        """Submits a batch job from the folder `cwd`."""
        out = pathlib.Path(cwd) / f"{name}.out"
        done = self.ask(
            "sbatch", "--parsable", f"--output={out}", *options, script, environment=environment, cwd=cwd
        )
        if done.returncode != 0:
            raise AssertionError(f"sbatch: {done.stdout}{done.stderr}")
        return Job(self, done.stdout.strip().partition(";")[0], out)

    # Nodes.

    def states(self):
        """node -> its state, as sinfo writes it: idle, alloc, mix, down*, …; unknown before it has reported."""
        shown = self.ask("sinfo", "-h", "-N", "-p", "main", "-o", "%N %t %v").stdout
        nodes = (line.split() for line in shown.splitlines())
        return {node: "unknown" if version == "unknown" else state for node, state, version in nodes}

    def wait_for_nodes(self, nodes, states=("idle", "alloc", "mix", "comp"), seconds=60):
        def there():
            now = self.states()
            return all(now.get(node) in states for node in nodes)

        wait_for(there, lambda: f"{self.states()}\n{self.log('*')}", seconds)

    def start_node(self, node):
        self._spawn(node, "slurmd", "-D", "-N", node, "-f", self.conf, GPT_TEST_NODE=node)

    def processes(self, node, name=None):
        """Ids of a node's processes: its slurmd, and all that this one, or a step on it, has started; or of those among
        them with that name."""
        found = []
        marks = {f"GPT_TEST_NODE={node}".encode(), f"SLURMD_NODENAME={node}".encode()}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if name and (folder / "comm").read_text() != name + "\n":
                    continue
                if marks & set((folder / "environ").read_bytes().split(b"\0")):
                    found.append(int(folder.name))
            except OSError:
                continue
        return found

    def signal_node(self, node, number):
        # Twice: a process may have been started meanwhile.
        for _ in range(2):
            for process in self.processes(node):
                try:
                    os.kill(process, number)
                except ProcessLookupError:
                    continue

    def kill_node(self, node):
        """The node's power is gone."""
        self.signal_node(node, signal.SIGKILL)
        daemon = self.daemons.pop(node, None)
        if daemon:
            daemon.wait()

    def hang_node(self, node):
        self.signal_node(node, signal.SIGSTOP)

    def wake_node(self, node):
        self.signal_node(node, signal.SIGCONT)


def main():
    """A cluster for a command, or for a shell."""
    enter_namespaces()
    with Cluster() as cluster:
        command = sys.argv[1:] or ["bash"]
        sys.exit(subprocess.run(command, env=cluster.environment, check=False).returncode)


if __name__ == "__main__":
    main()
