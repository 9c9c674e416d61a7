"""A rank that is stopped, killed or stuck ends the job in bounded time, is named, and leaves no process.

GPT_TEST_KILLS=50 makes the test with random times that long; without it, it is a short one. They fall into the first
GPT_TEST_KILLS_WITHIN=2 seconds, half of which are the start; GPT_TEST_SEED repeats them.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import time
import unittest

from harness import (
    BAD_NUMBERS,
    FAILED,
    MPIRUN,
    RANK_FAILED,
    SANITIZED,
    TINY,
    Result,
    Run,
    SystemTest,
    options,
    program,
    ranks_of,
)

TIMEOUT = 12 if SANITIZED else 3  # seconds, --timeout
# Open MPI 4.1 with PMIx 4.2 sometimes hangs at its own end, in PMIx_server_finalize, when its ranks were ended inside
# MPI_Init: once in about 30 such jobs. The ranks are gone then and have said why; mpirun gets this many seconds more.
LAUNCHER_ENDS = 5
KILLS = int(os.environ.get("GPT_TEST_KILLS", "2" if SANITIZED else "4"))
# What may come on top: 2 seconds is what is promised, and what the long test holds it to; the short one also runs on
# machines that do other things.
GRACE = 8 if SANITIZED else 2 if KILLS >= 50 else 3
LATEST = float(os.environ.get("GPT_TEST_KILLS_WITHIN", "2"))  # seconds after the start
SEED = int(os.environ.get("GPT_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
LONG = {"steps": 10**6, "eval_every": 20, "eval_windows": 24, "save_every": 20, "log_every": 100}
STOPS = [
    # point, conditions, phase in the message
    ("start", "", "start"),
    ("comm", "", "start"),
    ("load", "", "load|start"),
    ("step", "step=33", "step 33"),
    ("eval", "step=40", "evaluation at step 40"),
    ("save", "step=40", "save at step (20|40)"),  # the others may still wait for the end of the one before
    ("save.open", "step=40", "save at step 40"),
    ("save.write", "step=40", "save at step 40"),
    ("save.close", "step=40", "save at step 40"),
]
KILLED = [
    ("start", ""),
    ("comm", ""),
    ("step", ",step=33"),
    ("backward", ",step=33,hit=2"),
    ("eval", ""),
    ("save.open", ""),
]
ROOT_STOPS = [
    ("step", "step=33", "step 33"),
    ("save.commit", "step=40", "save at step 40"),
    ("sample", "", "end"),
]
if SANITIZED:
    # Each takes a whole timeout, in which the same code of the watchdogs waits: sanitizers see it once for each way of
    # waiting (in MPI's start, for a file, in a sum, in the thread that saves). Where else a rank may stand is for the others.
    STOPS = [stop for stop in STOPS if stop[0] in ("start", "load", "step", "save.write")]
    ROOT_STOPS = ROOT_STOPS[:1]


def has_begun(process):
    """Whether the rank's own program runs: before, there is only the launcher's child."""
    threads = pathlib.Path(f"/proc/{process}/task").glob("*/comm")
    return any(thread.read_text() == "gpt-watchdog\n" for thread in threads)


class Job:
    """A training job whose end is watched."""

    def __init__(self, out, ranks, fault, values):
        self.out = out
        self.command = [str(MPIRUN), str(ranks), program("gpt_mpi"), *options(values | {"out": out})]
        self.stdout, self.stderr = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.launcher_hung = False
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=self.stdout,
            stderr=self.stderr,
            env=os.environ | {"GPT_FAULT": fault},
        )
        self.struck = None

    def wait_until_a_rank_is_stopped(self):
        while self.process.poll() is None and not any(state == "T" for _, state in ranks_of(self.out).values()):
            time.sleep(0.01)
        self.struck = time.monotonic()

    def strike(self, rank, number):
        """Sends the signal; waits for the rank to be there. False if the job has ended before."""
        while self.process.poll() is None:
            with contextlib.suppress(KeyError, OSError):
                process, _ = ranks_of(self.out)[rank]
                if has_begun(process):
                    os.kill(process, number)
                    self.struck = time.monotonic()
                    return True
            time.sleep(0.002)
        return False

    def end(self, limit):
        """The result and the seconds from the fault to the end; what does not end by then is killed."""
        gone = None
        deadline = time.monotonic() + limit
        while self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
            if self.struck is None or ranks_of(self.out):
                gone = None
            elif gone is None:
                gone = time.monotonic()
            elif time.monotonic() - gone > LAUNCHER_ENDS:
                break
        ended = time.monotonic()
        if self.process.poll() is None:
            self.launcher_hung = gone is not None
            ended = gone or ended
            for process, _ in ranks_of(self.out).values():
                os.kill(process, signal.SIGKILL)
            self.process.kill()
        self.process.wait()
        texts = []
        for file in (self.stdout, self.stderr):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        if self.struck is None:  # the last line that rank 0 wrote before it waited
            self.struck = time.monotonic() - (time.time() - (self.out / "log.jsonl").stat().st_mtime)
        return Result(self.command, self.process.returncode, *texts), ended - self.struck

    def left(self):
        """Ranks that are still there a moment after the end."""
        deadline = time.monotonic() + 1
        while (left := ranks_of(self.out)) and time.monotonic() < deadline:
            time.sleep(0.02)
        for process, _ in left.values():
            os.kill(process, signal.SIGKILL)
        return left


class Hangs(SystemTest):
    def job(self, name, ranks, fault="", **changes):
        return Job(self.path(name), ranks, fault, {"data": self.synth(), "timeout": TIMEOUT} | TINY | LONG | changes)

    def assert_ended(self, job, rank, phase):
        done, seconds = job.end(4 * (TIMEOUT + GRACE))
        self.assertEqual(job.left(), {}, str(done))
        self.assertLess(seconds, TIMEOUT + GRACE, str(done))
        self.assertEqual(done.code, RANK_FAILED, str(done))
        messages = re.findall(r"(?m)^gpt_mpi: .*", done.err)
        # Rank 0 speaks. Without it all others see the same, and the first verdict keeps them silent, but for a disk that
        # is slow to take it.
        self.assertGreaterEqual(len(messages), 1, str(done))
        if rank != 0:
            self.assertEqual(len(messages), 1, str(done))
        expected = rf"^gpt_mpi: rank {rank} on \S+ (does not answer|stands still) .*({phase})"
        for message in messages:
            self.assertRegex(message, expected, str(done))
        return done

    def verdict(self, job):
        return json.loads((job.out / "verdict.json").read_text(encoding="utf-8"))

    def stop(self, name, ranks, rank, point, condition, phase):
        changes = {"resume": "auto"}
        if point == "load":
            self.train(self.synth(), self.path(name), steps=20, save_every=20)
        if point == "sample":
            changes |= {"steps": 20, "sample_tokens": 30}
        if point.startswith("save."):
            changes["save"] = "sync"  # else the rank stops somewhere in the steps behind
        conditions = ",".join([f"rank={rank}"] + [condition] * bool(condition))
        job = self.job(name, ranks, f"{point}:stop@{conditions}", **changes)
        job.wait_until_a_rank_is_stopped()
        done = self.assert_ended(job, rank, phase)
        if point != "start":  # the folder is not this job's yet
            verdict = self.verdict(job)
            self.assertEqual((verdict["exit_code"], verdict["rank"]), (RANK_FAILED, rank))
            place = f"{verdict['phase']} at step {verdict['step']}"
            self.assertRegex(place, phase.replace("step 33", "step at step 33"))
        return done

    def test_a_stopped_rank_is_named_whatever_the_phase(self):
        for ranks in (2, 4):
            for number, (point, condition, phase) in enumerate(STOPS):
                even = number % 2 == 0
                # Every point once more, with other neighbours, is not worth the time; under sanitizers, where all of
                # it takes four times as long, each point once.
                if (even and ranks == 4) or (not even and ranks == 2 and SANITIZED):
                    continue
                with self.subTest(ranks=ranks, point=point):
                    self.stop(f"{point}{ranks}", ranks, ranks - 1, point, condition, phase)

    def test_a_stopped_root_is_named(self):
        spoke = []
        for ranks, (point, condition, phase) in zip((4, 2, 3), ROOT_STOPS):
            with self.subTest(ranks=ranks, point=point):
                done = self.stop(f"root-{point}", ranks, 0, point, condition, phase)
                if ranks > 2:
                    spoke.append(len(re.findall(r"(?m)^gpt_mpi: ", done.err)))
        if len(spoke) > 1:
            self.assertIn(1, spoke, "where several could speak, they always did")

    def test_a_killed_rank_is_named_whatever_the_phase(self):
        for point, conditions in KILLED:
            with self.subTest(point=point):
                started = time.monotonic()
                job = self.job(f"kill-{point}", 2, f"{point}:kill@rank=1{conditions}")
                job.struck = started
                done, seconds = job.end(4 * (TIMEOUT + GRACE))
                self.assertEqual(job.left(), {}, str(done))
                self.assertLess(seconds, 60 if SANITIZED else 15, str(done))
                self.assertNotEqual(done.code, 0, str(done))
                self.assertRegex(done.err, r"rank 1\b", str(done))

    def test_a_rank_that_hangs_on_a_disk_is_named(self):
        """Its watchdog answers, and so all know that the others wait for it."""
        stuck = [("data.read", "hit=15", "step 15"), ("save.write", "step=40", "save at step 40")]
        for point, condition, phase in stuck:
            with self.subTest(point=point):
                # The save of step 40 is missed when that of step 60 is due.
                job = self.job(point, 3, f"{point}:delay=600000@rank=1,{condition}")
                self.assertIn("stands still", self.assert_ended(job, 1, phase).err)
                self.assertEqual(self.verdict(job)["rank"], 1)

    def test_a_disk_that_takes_no_verdict_keeps_nobody_from_speaking(self):
        job = self.job("mute", 2, "step:stop@rank=1,step=33;verdict:delay=600000")
        job.wait_until_a_rank_is_stopped()
        self.assert_ended(job, 1, "step 33")
        self.assertFalse((job.out / "verdict.json").exists())

    def test_one_process_alone_ends_too(self):
        job = self.job("alone", 1, "eval:delay=600000")
        self.assert_ended(job, 0, "evaluation at step 20")

    def test_a_timeout_of_zero_waits_and_a_short_stop_is_survived(self):
        job = self.job("patient", 2, steps=20000, timeout=0, save_every=0)
        self.assertTrue(job.strike(1, signal.SIGSTOP))
        time.sleep(1.5)
        self.assertIsNone(job.process.poll())
        os.kill(ranks_of(job.out)[1][0], signal.SIGKILL)
        done, _ = job.end(20)
        self.assertNotEqual(done.code, 0)
        job = self.job("short", 2, steps=400)
        self.assertTrue(job.strike(1, signal.SIGSTOP))
        time.sleep(TIMEOUT / 2)
        self.assertTrue(job.strike(1, signal.SIGCONT))
        done, _ = job.end(60)
        self.assertEqual(done.code, 0, str(done))

    def test_random_kills_and_stops(self):
        chance = random.Random(SEED)
        worst, failures, hung = 0.0, [], 0
        figures = {"ended in time": 0, "rank named": 0, "no process left": 0}
        for number in range(KILLS):
            ranks = chance.choice((2, 3, 4))
            rank = chance.randrange(ranks)
            signal_number = chance.choice((signal.SIGKILL, signal.SIGSTOP))
            delay = chance.uniform(0, LATEST * (4 if SANITIZED else 1))
            job = self.job(f"run{number}", ranks)
            time.sleep(delay)
            self.assertTrue(job.strike(rank, signal_number))
            done, seconds = job.end(4 * (TIMEOUT + GRACE))
            found = {
                "ended in time": seconds < TIMEOUT + GRACE and done.code != 0,
                "rank named": re.search(rf"\brank {rank}\b", done.err) is not None,
                "no process left": not job.left(),
            }
            hung += job.launcher_hung
            for what, right in found.items():
                figures[what] += right
            worst = max(worst, seconds)
            if not all(found.values()):
                failures.append(f"{signal_number.name} to rank {rank} of {ranks} after {delay:.2f} s: {found}\n{done}")
        print(
            f"{KILLS} random kills and stops, seed {SEED}: {figures}, "
            f"longest {worst:.2f} s of {TIMEOUT + GRACE}; mpirun itself did not end {hung} times")
        self.assertFalse(failures, "\n".join(failures))
        self.assertLessEqual(hung, max(1, KILLS // 25), "mpirun does not end oftener than Open MPI's own fault explains")


class Verdicts(SystemTest):
    def verdict(self, out):
        return json.loads((out / "verdict.json").read_text(encoding="utf-8"))

    def test_an_error_leaves_a_verdict_and_the_next_start_removes_it(self):
        out = self.path("out")
        done = self.start(self.synth(), out, ranks=2, environment={"GPT_FAULT": "step:throw@rank=1,step=3"}, steps=5)
        self.assertEqual(done.code, FAILED, str(done))
        verdict = self.verdict(out)
        self.assertLessEqual(
            {"exit_code": FAILED, "rank": 1, "step": 3, "phase": "step", "reported_by": 1}.items(), verdict.items()
        )
        self.assertIn("fault injected at 'step'", verdict["reason"])
        self.assertRegex(verdict["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.train(self.synth(), out, ranks=2, steps=5)
        self.assertFalse((out / "verdict.json").exists())

    def test_an_error_that_all_ranks_share_leaves_one_too(self):
        out = self.path("out")
        done = self.start(self.synth(), out, ranks=2, steps=40, lr=9e5, clip=0, warmup=0)
        self.assertEqual(done.code, BAD_NUMBERS, str(done))
        self.assertEqual(self.verdict(out)["exit_code"], BAD_NUMBERS)

        self.assertNotIn("rank", self.verdict(out), "all ranks have it alike")

    def test_the_verdict_names_the_rank_that_had_the_error_whoever_writes_it(self):
        for point, rank in (("save.commit", 0), ("memory", 1)):
            with self.subTest(point=point):
                out = self.path(point)
                fault = f"{point}:throw@rank={rank}"
                done = self.start(self.synth(), out, ranks=3, environment={"GPT_FAULT": fault}, steps=2, save_every=2)
                self.assertNotEqual(done.code, 0, str(done))
                verdict = self.verdict(out)
                self.assertEqual(verdict["rank"], rank, str(verdict))
                self.assertIn(f"rank {rank} on {verdict['host']}: ", verdict["reason"])

    def test_an_error_is_not_held_up_by_a_disk(self):
        """The reader's thread hangs, and the error waits for its end on the way to main."""
        out = self.path("out")
        fault = "data.read:delay=600000@rank=1,hit=3;eval:throw@rank=1"
        started = time.monotonic()
        done = self.start(self.synth(), out, ranks=2, environment={"GPT_FAULT": fault}, steps=6, eval_every=2)
        self.assertLess(time.monotonic() - started, 40 if SANITIZED else 10)
        self.assertEqual(done.code, FAILED, str(done))
        self.assertEqual(done.err.count("fault injected at 'eval'"), 1, str(done))
        self.assertEqual(self.verdict(out)["rank"], 1)


    def test_an_error_while_sums_are_under_way_ends_the_job(self):
        out = self.path("out")
        fault = "backward:throw@rank=1,step=3,hit=2"
        started = time.monotonic()
        done = self.start(self.synth(), out, ranks=3, environment={"GPT_FAULT": fault}, steps=6, bucket_mb=0.001)
        self.assertLess(time.monotonic() - started, 40 if SANITIZED else 10)
        self.assertEqual(done.code, FAILED, str(done))
        self.assertEqual(done.err.count("fault injected at 'backward'"), 1, str(done))
        self.assertEqual(self.verdict(out)["step"], 3)


class Stragglers(SystemTest):
    def test_a_slow_rank_is_reported(self):
        self.assert_reported("step")

    def test_a_rank_whose_parameters_the_others_wait_for_is_reported(self):
        self.assert_reported("update", zero=1)

    def assert_reported(self, point, **changes):
        out = self.path("out")
        fault = {"GPT_FAULT": f"{point}:delay={80 if SANITIZED else 20}@rank=1"}
        done = self.start(self.synth(), out, ranks=3, environment=fault, steps=45, log_every=10, **changes)
        self.assertEqual(done.code, 0, str(done))
        self.assertEqual(len(re.findall(r"(?m)^warning: rank 1 on \S+ is slow", done.out)), 1, str(done))
        reports = Run(out).events("ranks")
        self.assertEqual([report["step"] for report in reports], [10, 20, 30, 40])
        for report in reports:
            self.assertEqual(report["steps"], 10)
            self.assertEqual(sorted(rank["rank"] for rank in report["slowest"]), [0, 1, 2])
            slow, *others = report["slowest"]
            self.assertEqual(slow["rank"], 1)
            self.assertGreater(slow["compute"], 0.02)
            for other in others:
                self.assertGreater(other["wait"], slow["wait"])
                self.assertGreater(other["reduce"], 0)
            self.assertEqual(report["compute"][2], slow["compute"])

    def test_slow_reading_is_told_apart(self):
        """A rank that waits for its batch is slow for another reason than one that computes slowly."""
        out = self.path("out")
        fault = {"GPT_FAULT": "data.read:delay=50@rank=1"}
        done = self.start(self.synth(), out, ranks=2, environment=fault, steps=12, log_every=10)
        self.assertEqual(done.code, 0, str(done))
        (report,) = Run(out).events("ranks")
        ranks = {rank["rank"]: rank for rank in report["slowest"]}
        self.assertGreater(ranks[1]["data"], 0.01)
        self.assertGreaterEqual(ranks[1]["compute"], ranks[1]["data"])
        self.assertLess(ranks[0]["data"], ranks[1]["data"] / 2)
        self.assertEqual(report["data"], [ranks[0]["data"], ranks[0]["data"], ranks[1]["data"]])
        for step in Run(out).events("step"):
            self.assertGreaterEqual(step["data_seconds"], 0)
            self.assertLess(step["data_seconds"], step["step_seconds"])

    def test_one_rank_alone_has_no_others(self):
        run = self.train(self.synth(), self.path("out"), steps=30, log_every=10)
        self.assertEqual(run.events("ranks"), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
