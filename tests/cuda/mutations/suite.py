"""A private copy of the sources, its build on the stand-in, and the tests that look at CUDA there."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time

CONFIGURATION = {"CMAKE_BUILD_TYPE": "Release", "GPT_TESTS": "ON", "GPT_CUDA": "STANDIN"}  # as the preset "standin"
SYSTEM = "system.cuda"
# What each test runs; the first name that its own begins with counts.
TARGETS = {
    "ops": ["ops_tests"],
    "cuda.nccl": ["nccl_tests"],
    "cuda": ["cuda_tests"],
    SYSTEM: ["gpt_mpi_program", "gpt_data_program", "gpt_sample_program", "gpt_bench_program"],
}
# On 1, 5 and 8 ranks there is no code that 2, 3 and 4 do not run.
USED = r"(cuda|ops\.cuda|cuda\.nccl\.np[234]|cuda\.nccl_\w+|system\.cuda)$"
SKIPPED = 77
END_SECONDS = 10  # for programs that were asked to end


class Copy:
    """The working tree `top`, without what git ignores, in a folder of its own. Files that are the same already stay
    as they are, so that a build goes on where it was."""

    def __init__(self, top, folder):
        self.folder = folder
        listing = ["git", "-C", str(top), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, check=True, capture_output=True, text=True).stdout.split("\0")
        wanted = {name for name in names if name and (top / name).is_file()}
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.relative_to(folder).as_posix() not in wanted:
                path.unlink()
        for name in wanted:
            source, target = top / name, folder / name
            if target.is_file() and target.read_bytes() == source.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)

    def read(self, name):
        return (self.folder / name).read_text(encoding="utf-8")

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")


class Suite:
    """Tests by name, as ctest knows them; `ops/attention` is the part of ops.cuda in attention_test.cpp."""

    def __init__(self, sources, folder, jobs, system):
        self.folder, self.jobs = folder, jobs
        self.targets = [target for name, targets in TARGETS.items() if system or name != SYSTEM for target in targets]
        settings = [f"-D{name}={value}" for name, value in CONFIGURATION.items()]
        self._must("cmake", "-G", "Ninja", "-S", str(sources), "-B", str(folder), *settings)
        self._must(*self._build(self.targets))
        listing = ["ctest", "--test-dir", str(folder), "-L", "^cuda$", "--show-only=json-v1"]
        found = json.loads(subprocess.run(listing, check=True, capture_output=True, text=True).stdout)["tests"]
        self.tests = {
            test["name"]: (test["command"], self._environment(test))
            for test in found
            if re.match(USED, test["name"]) and (system or test["name"] != SYSTEM)
        }
        self.seconds = {}

    @staticmethod
    def _environment(test):
        settings = [p["value"] for p in test["properties"] if p["name"] == "ENVIRONMENT"]
        return dict(setting.split("=", 1) for setting in (settings[0] if settings else []) if setting)

    def _must(self, *command):
        if (code := self._run(command, {}, None)) != 0:
            raise SystemExit(f"{' '.join(command)} ended with {code}: {self.log}")

    def _build(self, targets):
        return ["cmake", "--build", str(self.folder), "--parallel", str(self.jobs), "--target", *targets]

    @property
    def log(self):
        return self.folder.with_name(self.folder.name + ".log")

    def _run(self, command, environment, limit):
        """Exit code; None if it did not end in so many seconds. What it says goes to the log."""
        with open(self.log, "wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                       env=os.environ | environment, start_new_session=True)  # fmt: skip
            try:
                return process.wait(limit)
            except subprocess.TimeoutExpired:
                return None
            finally:
                _end(process)

    def build_error(self, test):
        """Builds what the test needs; why that cannot be compiled, empty if it can."""
        targets = next(targets for name, targets in TARGETS.items() if test.startswith(name))
        if (code := self._run(self._build(targets), {}, None)) == 0:
            return ""
        found = re.search(r"error: (.+)", self._said())
        return found[1] if found else f"exit code {code}"

    def _said(self):
        return re.sub(r"\x1b\[[0-9;]*[mK]", "", self.log.read_text(encoding="utf-8", errors="replace"))

    def failure(self, test):
        """Why the test fails; empty if it passes."""
        whole = "ops.cuda" if test.startswith("ops/") else test
        command, environment = self.tests[whole]
        command = list(command)
        if test != whole:
            command.append(f"--source-file=*{test.removeprefix('ops/')}_test.cpp")
        if whole in ("ops.cuda", "cuda"):
            command.append("--abort-after=1")
        limit = None if whole not in self.seconds else max(60.0, 6 * self.seconds[whole])
        started = time.monotonic()
        code = self._run(command, environment, limit)
        self.seconds.setdefault(test, time.monotonic() - started)
        if code is None:
            return f"no end within {limit:.0f} s"
        return "" if code == 0 else self._reason(code)

    def _reason(self, code):
        if code == SKIPPED:
            return "skipped"
        for pattern in (r"^TEST CASE:\s*(.+)$", r"^(?:FAIL|ERROR): (\w+)"):
            if found := re.search(pattern, self._said(), re.M):
                return found[1].strip()
        return f"exit code {code}"

    def check(self):
        """All tests on the sources as they are, quick ones first from then on."""
        for test in self.tests:
            if reason := self.failure(test):
                raise SystemExit(f"{test} fails without any mutation: {reason}. See {self.log}")
            print(f"  {test}: {self.seconds[test]:.1f} s", flush=True)
        self.tests = dict(sorted(self.tests.items(), key=lambda item: self.seconds[item[0]]))


def _end(process):
    """Ends a session's processes: mpirun ends its ranks when it is asked to, and leaves them when it is killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
