"""Whatever fails on whichever rank, the whole job ends soon, with a code and words, and leaves no process behind."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import unittest

from harness import (
    BAD_NUMBERS,
    FAILED,
    MPIRUN,
    SANITIZED,
    SAVING_FAILED,
    TINY,
    USAGE,
    Run,
    SystemTest,
    execute,
    options,
    program,
)

SOON = 80 if SANITIZED else 20  # seconds


def shared_memory_of_the_dead():
    """Names of shared memory whose maker, the process in the name, is gone: other jobs may be at work."""
    found = set(pathlib.Path("/dev/shm").glob("gpt_mpi-*"))
    return {path.name for path in found if not pathlib.Path("/proc", path.name.split("-")[1]).exists()}


FAULTS = [
    # point, further conditions, exit code
    ("step", "step=3", FAILED),
    ("data.read", "", FAILED),
    ("eval", "", FAILED),
    ("save", "", FAILED),
    ("save.write", "", SAVING_FAILED),
    ("load", "", FAILED),
]
EVERY_TWO = {"steps": 6, "save_every": 2, "eval_every": 2, "save": "sync"}


def processes_with(word):
    """Ids of the processes whose command line has the word."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if str(word).encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has ended meanwhile
            pass
    return found


class Failures(SystemTest):
    def assert_nothing_runs(self, out):
        deadline = time.monotonic() + 5
        while processes_with(out):
            self.assertLess(time.monotonic(), deadline, f"processes {processes_with(out)} are left")
            time.sleep(0.05)

    def fail_with(self, fault, name, ranks, prepared):
        """The failed job of two ranks or of one; `prepared`: it resumes. Returns it and its folder."""
        out = self.path(name)
        if prepared:
            self.train(self.synth(), out, steps=2, save_every=2)
        started = time.monotonic()
        done = self.start(self.synth(), out, ranks=ranks, environment={"GPT_FAULT": fault}, **EVERY_TWO)
        self.assertLess(time.monotonic() - started, SOON, str(done))
        self.assertNotIn("terminate called", done.text, str(done))
        self.assert_nothing_runs(out)
        return done, Run(out)

    def test_an_error_on_one_rank_ends_the_job(self):
        for ranks in (None, 2):
            for point, condition, code in FAULTS:
                with self.subTest(ranks=ranks, point=point):
                    where = ["rank=1"] if ranks else []
                    fault = f"{point}:throw@" + ",".join(where + [condition] * bool(condition))
                    done, run = self.fail_with(fault, f"{point}{ranks}", ranks, prepared=point == "load")
                    self.assertEqual(done.code, code, str(done))
                    self.assertEqual(done.err.count(f"fault injected at '{point}'"), 1, str(done))
                    # The launcher ends rank 0 by a signal, but there is a verdict.
                    self.assertNotIn("ended by a signal", done.err, str(done))
                    if ranks:
                        self.assertRegex(done.err, r"rank 1 on \S+: ", str(done))
                    kept = {"step": 2, "load": 2}.get(point)
                    expected = [run.checkpoint(kept).name] if kept else []
                    self.assertEqual(run.checkpoints(), expected)
                    self.assertEqual(list(run.folder.glob("checkpoints/*.partial")), [])

    def test_a_rank_without_memory_ends_the_job(self):
        """The ranks of a node share memory that they allocate together: the others must not wait there."""
        before = shared_memory_of_the_dead()
        for point, zero in (("memory", 0), ("memory.shared", 0), ("memory", 1), ("memory.shared", 1)):
            for layout in ("3", "2,1"):
                with self.subTest(point=point, zero=zero, layout=layout):
                    out = self.path(f"{point}-{zero}-{layout}")
                    done = self.start(
                        self.synth(),
                        out,
                        ranks=3,
                        environment={"GPT_FAULT": f"{point}:throw@rank=1"},
                        steps=2,
                        zero=zero,
                        node_layout=layout,
                    )
                    self.assert_refused(done, FAILED, "rank 1 on ", f"fault injected at '{point}'")
                    self.assert_nothing_runs(out)
                    self.assertEqual(shared_memory_of_the_dead() - before, set())

    def test_a_fault_at_no_point_is_refused_and_one_that_did_nothing_is_told(self):
        out = self.path("refused")
        done = self.start(self.synth(), out, ranks=2, environment={"GPT_FAULT": "nosuch:kill@rank=1"}, steps=1)
        self.assert_refused(done, USAGE, "no point 'nosuch'", "save.commit", times=1)
        self.assertFalse(out.exists())
        faults = "step:delay=1@rank=1;step:throw@rank=7;eval:throw@step=9;end:delay=1"
        done = self.start(self.synth(), self.path("idle"), ranks=2, environment={"GPT_FAULT": faults}, steps=2)
        self.assertEqual(done.code, 0, str(done))
        told = re.findall(r"(?m)^notice: GPT_FAULT: '(.*)' did nothing", done.err)
        self.assertEqual(told, ["eval:throw@step=9", "step:throw@rank=7"], str(done))

    def end_by_signal(self, out, ranks, number):
        """The exit code and standard error of a job that is training when it gets the signal."""
        values = {"data": self.synth(), "out": out} | TINY | {"steps": 10**6, "log_every": 0, "save_every": 20}
        command = [str(MPIRUN), str(ranks)] * bool(ranks) + [program("gpt_mpi"), *options(values)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as job:
            while job.poll() is None and not Run(out).checkpoints():
                time.sleep(0.05)
            job.send_signal(number)
            try:
                _, err = job.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                for process in processes_with(out):  # else the end of `with` waits for them
                    os.kill(process, signal.SIGKILL)
                raise
        self.assert_nothing_runs(out)
        return job.returncode, err

    def test_a_launcher_that_is_ended_ends_its_ranks(self):
        """Open MPI's gives them a second: enough for this run to stop as it would by itself, and not promised."""
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number=number):
                out = self.path(str(number))
                code, err = self.end_by_signal(out, 2, number)
                self.assertNotEqual(code, 0, err)
                checkpoints = Run(out).checkpoints()
                again = self.start(self.synth(), out, ranks=2, steps=int(checkpoints[-1][5:13]) + 1)
                self.assertEqual(again.code, 0, str(again))

    def test_a_killed_rank_ends_the_job(self):
        done, run = self.fail_with("step:kill@rank=1,step=3", "run", 2, prepared=False)
        self.assertNotEqual(done.code, 0, str(done))
        self.assertRegex(done.err, r"rank 1\b", str(done))
        self.assertNotIn("asks to stop", done.err, str(done))  # the launcher's SIGTERM asks for nothing
        self.assertEqual(run.checkpoints(), ["step-00000002.h5"])

    def test_a_rank_that_fails_when_all_is_done_ends_the_job(self):
        for ranks, action, code in ((None, "throw", FAILED), (2, "throw", FAILED), (3, "kill", None)):
            with self.subTest(ranks=ranks, action=action):
                fault = f"end:{action}@rank={ranks - 1 if ranks else 0}"
                done, run = self.fail_with(fault, f"{action}{ranks}", ranks, prepared=False)
                self.assertNotEqual(done.code, 0, str(done))
                self.assertEqual(done.code, code or done.code, str(done))
                self.assertEqual(len(run.checkpoints()), 3)
                if code:
                    self.assertEqual(done.err.count("fault injected at 'end'"), 1, str(done))

    def test_a_log_that_cannot_be_written_ends_the_run_before_weights_travel(self):
        out = self.path("out")
        (out / "log.jsonl").mkdir(parents=True)
        travelling = {"zero": 1, "precision": "bf16", "node_layout": "1,1", "width": 256}
        done = self.start(self.synth(), out, ranks=2, steps=2, **travelling)
        self.assert_refused(done, USAGE, "log.jsonl", times=1)

    def test_numbers_that_go_bad_end_the_run_and_save_nothing(self):
        # With ZeRO parameters are on their way between the ranks when the numbers turn out to be bad.
        sharded = {"zero": 1, "node_layout": "1,1", "width": 256, "global_batch": 4}
        for name, ranks, changes in (("alone", None, {}), ("pair", 2, {}), ("sharded", 2, sharded)):
            with self.subTest(name):
                out = self.path(name)
                done = self.start(
                    self.synth(),
                    out,
                    ranks=ranks,
                    **{"steps": 40, "lr": 9e5, "clip": 0, "warmup": 0, "save_every": 1, "keep": 100} | changes,
                )
                self.assertEqual(done.code, BAD_NUMBERS, str(done))
                said = re.findall(r"(?m)^gpt_mpi: .*?\bstep (\d+)\b", done.err)
                self.assertEqual(len(said), 1, str(done))
                bad, run = int(said[0]), Run(out)
                self.assertEqual(sorted(run.losses()), list(range(1, bad)))
                self.assertEqual(len(run.checkpoints()), bad - 1)
                self.assert_nothing_runs(out)
                # What computed them is the newest checkpoint: evaluating it must not pass for a result.
                done = self.start(self.synth(), out, ranks=ranks, eval_only="true", **changes)
                self.assert_refused(done, BAD_NUMBERS, "validation loss", times=1)


class Agreement(SystemTest):
    def start_apart(self, first, second):
        """Rank 0 with the words `first`, ranks 1 and 2 with the words `second`, as mpirun's `:` separates them."""
        return execute([str(word) for word in (MPIRUN, 1, *first, ":", "-n", 2, *second)])

    def test_ranks_that_were_told_different_things_are_refused(self):
        out = self.path("out")
        first, second = (
            [program("gpt_mpi"), *options({"data": self.synth(), "out": out} | TINY | {"steps": 2, "lr": lr})]
            for lr in (0.001, 0.002)
        )
        done = self.start_apart(first, second)
        host = socket.gethostname()
        self.assert_refused(done, USAGE, f"--lr: 0.001 on rank 0 ({host}); 0.002 on ranks 1, 2 ({host})", times=1)
        self.assertNotIn("--steps", done.err, "a field that agrees")
        self.assertFalse(out.exists())

    def test_ranks_that_see_different_datasets_are_refused(self):
        """As on nodes that share no file system: one path, with other data behind it."""
        commands = []
        for name, dataset in (("here", self.synth()), ("there", self.synth(seed=99))):
            place = self.path(name)
            place.mkdir()
            (place / "data").symlink_to(dataset)
            words = options({"data": "data", "out": self.path("out")} | TINY | {"steps": 2})
            commands.append(["-wdir", place, program("gpt_mpi"), *words])
        done = self.start_apart(*commands)
        self.assert_refused(done, USAGE, "dataset: ", " on rank 0", " on ranks 1, 2")
        self.assertFalse(self.path("out").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
