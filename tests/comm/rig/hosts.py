#!/usr/bin/env python3
"""Test hosts: several machines pretended on one, so that MPI really communicates over a network.

A host is a set of Linux namespaces: network (joined with the others' by a bridge, its link shaped on demand), host
name, processes, and mounts with a /dev/shm of its own, so that ranks of different hosts cannot share memory. Files
are shared, as on a cluster. Nothing has a name outside, so any number of rigs may exist at once, and the namespaces
live exactly as long as the process that made them: a host's first process waits on a pipe from it, and when it ends,
however it ends, the kernel kills whatever runs on the hosts and removes them.

    with Hosts(4) as hosts:
        hosts.shape("1gbit")
        done = hosts.run([program, "--steps", 5], placement="cyclic", ranks_per_host=2)

By hand: hosts.py --help
"""

import argparse
import contextlib
import itertools
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import time

AGENT = pathlib.Path(__file__).resolve().parent / "agent.sh"
NETWORK = "10.99.0"  # inside the namespaces only
MPI_MEMORY = "/dev/shm/mpi"  # a host's own, so that nothing is left of it; beside what programs find in /dev/shm
NAMESPACES = ["--net", "--uts", "--mount", "--pid"]
TOOLS = ("ip", "tc", "unshare", "nsenter", "mount", "mpirun")
FRAME, SEGMENT = 1514, 1448  # bytes on a link for so many of a message: Ethernet, IP and TCP with timestamps
_rigs = itertools.count()


class Unavailable(Exception):
    """Why this machine, or this user, cannot make test hosts."""


class Overtime(Exception):
    """A job did not end in time; `result` is what it had said by then."""

    def __init__(self, result, seconds):
        super().__init__(f"not finished after {seconds} s: {result}")
        self.result = result


class Result:
    def __init__(self, command, code, out, err, seconds):
        self.command, self.code, self.out, self.err, self.seconds = command, code, out, err, seconds
        self.text = out + err

    def __str__(self):
        return f"{' '.join(self.command)}\nexit code {self.code}\n--- out\n{self.out}\n--- err\n{self.err}"


class Hosts:
    def __init__(self, count, shared_memory=None):
        """@param shared_memory  size of each host's /dev/shm as mount writes it: "1m"; none: the system's default"""
        self.count = count
        self._shared_memory = shared_memory
        tag = f"{os.getpid()}-{next(_rigs)}"
        self.names = [f"host{number}-{tag}" for number in range(count)]
        self._keepers = []
        self._switch_name = f"switch-{tag}"

    def __enter__(self):
        missing = [tool for tool in TOOLS if not shutil.which(tool)]
        if os.geteuid() != 0:
            raise Unavailable("test hosts need root: they are network namespaces")
        if missing:
            raise Unavailable(f"test hosts need {', '.join(missing)} (Debian: iproute2, util-linux, openmpi-bin)")
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends whatever runs on the hosts, and the hosts."""
        for keeper in reversed(self._keepers):
            keeper.close()
        self._keepers = []

    def shape(self, rate, burst="128kb", latency="10ms"):
        """Limits every link, in both directions, to `rate`, as tc writes it: "1gbit"."""
        limit = ["tbf", "rate", rate, "burst", burst, "latency", latency]
        for number in range(self.count):
            self._on(number, "tc", "qdisc", "replace", "dev", "eth0", "root", *limit)
            self._on_switch("tc", "qdisc", "replace", "dev", f"port{number}", "root", *limit)

    def unshape(self):
        for number in range(self.count):
            for enter, device in ((self._host(number), "eth0"), (self._switch, f"port{number}")):
                if "tbf" in enter.run("tc", "qdisc", "show", "dev", device):
                    enter.run("tc", "qdisc", "del", "dev", device, "root")

    @contextlib.contextmanager
    def cut(self, number):
        """Takes a host's link away, as when its cable is pulled: nobody is told. It comes back at the end of `with`."""
        self._on(number, "ip", "link", "set", "eth0", "down")
        try:
            yield
        finally:
            self._on(number, "ip", "link", "set", "eth0", "up")

    def bytes_sent(self):
        """By host: bytes that have left over its link, headers of packets included."""
        return [self._counter(number, 8) for number in range(self.count)]

    def bytes_received(self):
        return [self._counter(number, 0) for number in range(self.count)]

    def place(self, placement, ranks_per_host=2):
        """The host of every rank: "block" is 0 0 1 1, "cyclic" 0 1 0 1; a list says it itself."""
        if placement == "block":
            return [number // ranks_per_host for number in range(self.count * ranks_per_host)]
        if placement == "cyclic":
            return [number % self.count for number in range(self.count * ranks_per_host)]
        if not placement or not all(0 <= number < self.count for number in placement):
            raise ValueError(f"placement {placement!r}: block, cyclic, or for each rank one of {self.count} hosts")
        return list(placement)

    @contextlib.contextmanager
    def start(self, command, placement="block", ranks_per_host=2, mca=None, environment=None):
        """mpirun of `command` (program and arguments) as a Popen with pipes; `mca`: Open MPI's parameters. An
        exception inside `with` ends the job, which may not end by itself, and tells what it had said."""
        names = [self.names[number] for number in self.place(placement, ranks_per_host)]
        words = ["mpirun", "--map-by", "seq", "--bind-to", "none", "--host", ",".join(names)]
        words += [*map(str, command)]
        with self._switch.start(words, self.environment(mca) | (environment or {})) as job:
            try:
                yield job
            except BaseException as problem:
                left = [command_line(pid) for pid in self.processes()]
                self.end_jobs()
                out, err = job.communicate()
                problem.add_note(f"processes then: {left}\n--- out\n{out}\n--- err\n{err}")
                raise

    def run(self, command, timeout=120, **how):
        """The Result of a job; `how`: see start. A job that takes longer is ended.
        @throws Overtime"""
        started = time.monotonic()
        with self.start(command, **how) as job:
            words = [*map(str, command)]
            try:
                out, err = job.communicate(timeout=timeout)
                return Result(words, job.returncode, out, err, time.monotonic() - started)
            except subprocess.TimeoutExpired:
                self.end_jobs()
                out, err = job.communicate()
                raise Overtime(Result(words, None, out, err, time.monotonic() - started), timeout) from None

    def shell(self, mca=None):
        """A shell on the switch; its exit code."""
        entry = self._switch.entry(os.getcwd())
        return subprocess.run([*entry, "bash"], env=os.environ | self.environment(mca), check=False).returncode

    def processes(self, number=None):
        """Ids of the living processes on a host, or on all hosts and the switch, but for those that keep them."""
        keepers = self._keepers if number is None else [self._host(number)]
        homes = {keeper.home for keeper in keepers}
        kept = {pid for keeper in self._keepers for pid in keeper.own}
        return [pid for pid in _all_processes() if pid not in kept and _home_of(pid) in homes]

    def end_jobs(self):
        """Kills what runs on the hosts; the hosts stay."""
        for _ in range(100):
            left = self.processes()
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not left:
                return
            time.sleep(0.02)
        raise RuntimeError(f"processes {left} do not end")

    def environment(self, mca=None):
        """With which a plain mpirun on the switch starts ranks on the hosts."""
        parameters = {
            "plm": "rsh",
            "plm_rsh_agent": AGENT,
            "orte_tmpdir_base": MPI_MEMORY,
            "btl_vader_backing_directory": MPI_MEMORY,
            "oob_tcp_if_include": f"{NETWORK}.0/24",
            "btl_tcp_if_include": f"{NETWORK}.0/24",
            "pml": "ob1",
            "btl": "self,vader,tcp",
            "btl_vader_single_copy_mechanism": "none",
            "mpi_yield_when_idle": 1,  # all hosts share this machine's cores
            "rmaps_base_oversubscribe": 1,
        } | (mca or {})
        return {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "GPT_TEST_HOSTS": " ".join(f"{keeper.name}={keeper.inner_pid}" for keeper in self._keepers[1:]),
        } | {f"OMPI_MCA_{name}": str(value) for name, value in parameters.items()}

    def _make(self):
        self._keepers.append(_Keeper(self._switch_name, self._shared_memory))
        self._on_switch("ip", "link", "set", "lo", "up")
        self._on_switch("ip", "link", "add", "bridge", "type", "bridge")
        self._on_switch("ip", "addr", "add", f"{NETWORK}.1/24", "dev", "bridge")
        self._on_switch("ip", "link", "set", "bridge", "up")
        for number, name in enumerate(self.names):
            self._keepers.append(_Keeper(name, self._shared_memory, self._switch))
            port, host = f"port{number}", str(self._host(number).inner_pid)
            self._on_switch("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host)
            self._on_switch("ip", "link", "set", port, "master", "bridge", "up")
            self._on(number, "ip", "addr", "add", f"{NETWORK}.{10 + number}/24", "dev", "eth0")
            self._on(number, "ip", "link", "set", "lo", "up")
            self._on(number, "ip", "link", "set", "eth0", "up")

    @property
    def _switch(self):
        return self._keepers[0]

    def _host(self, number):
        return self._keepers[1 + number]

    def _on(self, number, *words):
        self._host(number).run(*words)

    def _on_switch(self, *words):
        self._switch.run(*words)

    def _counter(self, number, column):
        for line in pathlib.Path(f"/proc/{self._host(number).pid}/net/dev").read_text(encoding="ascii").splitlines():
            device, _, values = line.partition(":")
            if device.strip() == "eth0":
                return int(values.split()[column])
        raise RuntimeError(f"{self.names[number]} has no link")


class _Keeper:
    """The first process of a set of namespaces. It waits for the end of a pipe of which we alone hold the other end."""

    # Orphans become its children; with SIGCHLD ignored the kernel collects them.
    SCRIPT = """
        hostname "$0" && mount -t tmpfs -o "$1" tmpfs /dev/shm &&
        mkdir "$2" && mount -t tmpfs tmpfs "$2" && echo ready && exec env --ignore-signal=CHLD cat"""

    def __init__(self, name, shared_memory, within=None):
        """`within`: the keeper whose processes these shall be among, so that they end with them."""
        self.name = name
        mount = f"size={shared_memory}" if shared_memory else "defaults"
        script = ["sh", "-c", self.SCRIPT, name, mount, MPI_MEMORY]
        words = ["unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc", *script]
        if within:
            words = [*within.entry("/"), *words]
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # an interrupt at the terminal is for us to see to
        )
        ready, _, _ = select.select([self._process.stdout], [], [], 20)
        if not ready or self._process.stdout.readline() != "ready\n":
            self._process.kill()
            raise Unavailable(f"namespaces cannot be made here: {self._process.communicate()[1].strip()}")
        self.own = _line_of_descendants(self._process.pid)
        self.pid = self.own[-1]
        self.home = _home_of(self.pid)
        self.inner_pid = int(_status(self.pid, "NSpid")[1])  # as the switch's processes see it

    def entry(self, folder):
        return ["nsenter", "--target", str(self.pid), *NAMESPACES, f"--wd={folder}", "--"]

    def run(self, *words):
        done = subprocess.run(
            [*self.entry("/"), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise Unavailable(f"{self.name}: {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def start(self, words, environment):
        return subprocess.Popen(
            [*self.entry(os.getcwd()), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=os.environ | environment,
            start_new_session=True,
        )

    def close(self):
        self._process.communicate()


def _all_processes():
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def _status(pid, field):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return value.split()
    raise KeyError(f"/proc/{pid}/status has no {field}")


def _line_of_descendants(pid):
    """The process, its child, and so on."""
    line = [pid]
    while True:
        children = []
        for other in _all_processes():
            with contextlib.suppress(OSError, KeyError):
                if _status(other, "PPid") == [str(line[-1])]:
                    children.append(other)
        if not children:
            return line
        line.append(children[0])


def command_line(pid):
    """Program and arguments; empty for a process that has ended, as any may at any moment."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace").split("\0")[:-1]
    except OSError:
        return []


def _home_of(pid):
    """The process namespace; None for a process that has ended, be it not yet collected."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def main():
    parser = argparse.ArgumentParser(
        description="Runs a program under mpirun on test hosts and says what left each host; without a program, "
        "opens a shell from which mpirun --host reaches them. Needs root."
    )
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks-per-host", type=int, default=2)
    parser.add_argument("--placement", default="block", help="block, cyclic, or the host of every rank: 0,0,0,1")
    parser.add_argument("--rate", help="of every link, in both directions: 1gbit, 200mbit")
    parser.add_argument("--mca", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"))
    parser.add_argument("--shared-memory", metavar="SIZE", help="of each host's /dev/shm: 1m")
    parser.add_argument("--timeout", type=float, default=600, help="seconds")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM [ARGUMENT...]")
    options = parser.parse_args()
    placement = options.placement
    if placement not in ("block", "cyclic"):
        placement = [int(number) for number in placement.split(",")]
    try:
        with Hosts(options.hosts, options.shared_memory) as hosts:
            if options.rate:
                hosts.shape(options.rate)
            if not options.command:
                print(f"Hosts: {' '.join(hosts.names)}. They end with this shell.")
                return hosts.shell(dict(options.mca))
            before = hosts.bytes_sent()
            done = hosts.run(
                options.command,
                placement=placement,
                ranks_per_host=options.ranks_per_host,
                mca=dict(options.mca),
                timeout=options.timeout,
            )
            sys.stdout.write(done.out)
            sys.stderr.write(done.err)
            for name, first, last in zip(hosts.names, before, hosts.bytes_sent()):
                print(f"{name} sent {last - first} bytes")
            return done.code
    except (Unavailable, Overtime, ValueError) as problem:
        print(f"hosts.py: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
