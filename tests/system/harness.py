"""What the system tests share: running the built programs, small datasets, and reading what a run leaves behind."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
MPIRUN = TOP / "tests" / "support" / "mpirun.sh"
STRICT = os.environ.get("GPT_TEST_STRICT", "0") != "0"
SANITIZED = os.environ.get("GPT_TEST_SANITIZED", "0") != "0"

USAGE, FAILED, STOPPED, RANK_FAILED, DAMAGED, SAVING_FAILED, BAD_NUMBERS = 2, 1, 3, 10, 11, 12, 13

# Small enough that a step takes a millisecond; 12 sequences divide among no more than a few of the rank counts.
TINY = {
    "layers": 2,
    "heads": 2,
    "width": 32,
    "context": 32,
    "dropout": 0,
    "global_batch": 12,
    "micro_batch": 16,
    "lr": 3e-3,
    "warmup": 5,
    "schedule": "constant",
    "eval_every": 0,
    "save_every": 0,
    "log_every": 1,
    "sample_tokens": 0,
    "threads": 1,
    # What auto comes to depends on the minute, and the last bits of sums with it.
    "reduction": "hierarchical",
    "inter": "ring",
    "seed": 7,
}


def program(name):
    """The built program: CTest says where; by hand it is the one at the top."""
    return os.environ.get(name.upper(), str(TOP / name))


class Result:
    def __init__(self, command, code, out, err):
        self.command, self.code, self.out, self.err = command, code, out, err
        self.text = out + err

    def __str__(self):
        return f"{' '.join(map(str, self.command))}\nexit code {self.code}\n--- out\n{self.out}\n--- err\n{self.err}"


def run(name, *arguments, ranks=None, environment=None, timeout=120, before=None):
    """Runs a program, under mpirun when `ranks` is given; `before` is called in the new process."""
    command = [program(name), *map(str, arguments)]
    if ranks is not None:
        command = [str(MPIRUN), str(ranks), *command]
    return execute(command, environment=environment, timeout=timeout, before=before)


def execute(command, environment=None, timeout=120, before=None):
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=os.environ | (environment or {}),
        timeout=timeout * (4 if SANITIZED else 1),
        preexec_fn=before,
        check=False,
    )
    return Result(command, done.returncode, done.stdout, done.stderr)


def options(values):
    """{"global_batch": 12} -> ["--global-batch", "12"]; None leaves the option out."""
    return [
        word
        for name, value in values.items()
        if value is not None
        for word in ("--" + name.replace("_", "-"), str(value).lower() if isinstance(value, bool) else str(value))
    ]


def ranks_of(word):
    """rank -> (process id, state) of the ranks whose command line has the word."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if (folder / "comm").read_text() != "gpt_mpi\n":  # mpirun has the word in its line too
                continue
            if str(word).encode() not in (folder / "cmdline").read_bytes():
                continue
            rank = re.search(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)", (folder / "environ").read_bytes())
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if rank:
                found[int(rank[1])] = int(folder.name), state
    return found


class Run:
    """A run folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def events(self, kind=None):
        """Those of a kind, or all."""
        lines = (self.folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
        return [event for event in map(json.loads, lines) if kind in (None, event["event"])]

    def losses(self):
        """Loss by step; the last attempt's line wins."""
        return {event["step"]: event["loss"] for event in self.events("step")}

    def checkpoint(self, step):
        return self.folder / "checkpoints" / f"step-{step:08d}.h5"

    def checkpoints(self):
        return sorted(path.name for path in (self.folder / "checkpoints").glob("step-????????.h5"))

    def windows(self):
        """step -> rank -> (lane, index, epoch) of every window consumed, in order; the last stretch's step wins."""
        last = {}
        for path in sorted((self.folder / "reads").glob("start-*.bin")):
            stretches = {}
            for kind, rank, number, payload in ledger_groups(path.read_bytes()):
                if kind == 1:
                    stretches[number] = json.loads(payload), {}
                    continue
                about, steps = stretches[number]
                per_lane = about["global_batch"] // about["lanes"]
                for step, cursor, first, reads in ledger_steps(payload):
                    windows = steps.setdefault(step, {}).setdefault(rank, [])
                    for sequence, (shard, token) in enumerate(reads, start=first):
                        place = cursor + sequence % per_lane
                        for begin, end in about["skipped"]:
                            place += end - begin if begin <= place else 0
                        windows.append((shard, token // about["context"], place // about["windows_per_lane"]))
            for _, steps in stretches.values():
                last |= steps
        return last


def ledger_groups(raw):
    """(kind, rank, stretch, payload) of the groups of a ledger's file, up to where it is torn."""
    offset = 0
    while raw[offset : offset + 8] == b"GPTMPIRD":
        kind, rank, stretch, size = struct.unpack_from("<4I", raw, offset + 8)
        yield kind, rank, stretch, raw[offset + 32 : offset + 32 + size]
        offset += 32 + size


def ledger_steps(payload):
    """(step, cursor, first sequence, [(shard, token), ...]) of a group's steps."""
    numbers, value, shift = [], 0, 0
    for byte in payload:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value = shift = 0
    rest = iter(numbers)
    for step in rest:
        cursor, first, count, reads = next(rest), next(rest), next(rest), []
        while len(reads) < count:
            run, shard = next(rest), next(rest)
            reads += [(shard, next(rest)) for _ in range(run)]
        yield step, cursor, first, reads


def state(file, names=("params", "m", "v")):
    """The flat tensors of a checkpoint."""
    import h5py

    with h5py.File(file, "r") as checkpoint:
        return {name: checkpoint["state"][name][...] for name in names}


class SystemTest(unittest.TestCase):
    """A class has one temporary folder and as many datasets as it asks for."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpt-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.datasets = {}

    def need(self, condition, reason):
        """Skips without what the test needs; under GPT_TEST_STRICT=1 that is a failure."""
        if not condition:
            (self.fail if STRICT else self.skipTest)(reason)

    def need_h5py(self):
        try:
            import h5py  # noqa: F401
        except ImportError:
            self.need(False, "python3-h5py is not installed")

    @classmethod
    def synth(cls, tokens=20_000, shards=4, seed=3):
        """A small synthetic dataset; the same arguments give the same folder."""
        key = (tokens, shards, seed)
        if key not in cls.datasets:
            folder = cls.folder / f"synth-{tokens}-{shards}-{seed}"
            made = run("gpt_data", "synth", "--out", folder, "--tokens", tokens, "--shards", shards, "--seed", seed)
            if made.code != 0:
                raise AssertionError(str(made))
            cls.datasets[key] = folder
        return cls.datasets[key]

    def path(self, name):
        """A path of this test's own, not there yet."""
        return self.folder / f"{self.id().rsplit('.', 1)[-1]}-{name}"

    def copy_of(self, dataset, name="copy"):
        copy = self.path(name)
        shutil.copytree(dataset, copy)
        return copy

    def start(self, data, out, ranks=None, environment=None, before=None, timeout=120, **changes):
        """gpt_mpi with the TINY options and `changes`; whatever its end."""
        values = {"data": data, "out": out} | TINY | changes
        return run(
            "gpt_mpi", *options(values), ranks=ranks, environment=environment, before=before, timeout=timeout
        )

    def train(self, data, out, **arguments):
        """A training run that has to succeed."""
        done = self.start(data, out, **arguments)
        self.assertEqual(done.code, 0, str(done))
        return Run(out)

    def evaluate(self, data, checkpoint, ranks=None, **changes):
        """Mean loss over the whole validation split of a checkpoint. Nothing is written."""
        out = self.path("none")
        done = self.start(data, out, ranks=ranks, eval_only=True, resume=checkpoint, eval_windows=0, **changes)
        self.assertEqual(done.code, 0, str(done))
        self.assertFalse(out.exists())
        return float(re.search(r"validation loss ([0-9.]+)", done.out)[1])

    def assert_refused(self, done, code, *parts, times=None):
        """The program ended with `code` and one message, not one a rank, in which each of `parts` stands; `times`:
        exactly so often."""
        self.assertEqual(done.code, code, str(done))
        self.assertNotIn("terminate called", done.text, str(done))
        messages = re.findall(r"(?ms)^gpt_\w+: .*?(?=^gpt_\w+: |^-----|\Z)", done.err)
        self.assertEqual(len(messages), 1, str(done))
        for part in parts:
            self.assertIn(str(part), messages[0], str(done))
            if times is not None:
                self.assertEqual(messages[0].count(str(part)), times, str(done))

    def assert_same_state(self, first, second):
        ours, theirs = state(first), state(second)
        for name, values in ours.items():
            self.assertEqual(values.tobytes(), theirs[name].tobytes(), f"/state/{name} of {first} and {second}")
