"""Signals and time limits stop a run at a good place: with a checkpoint, and a code that says so.

GPT_TEST_SIGNALS=50 makes the test with random times that long, and goes on until signals came during the start, steps,
evaluations and saves; without it, it is a short one. GPT_TEST_SEED repeats what was drawn.
"""

import collections
import json
import math
import os
import pathlib
import random
import re
import signal
import subprocess
import time
import unittest

from harness import MPIRUN, SANITIZED, STOPPED, TINY, Run, SystemTest, options, program, ranks_of
from phases import Start, freeze, send

SIGNALS = int(os.environ.get("GPT_TEST_SIGNALS", "2" if SANITIZED else "4"))
SEED = int(os.environ.get("GPT_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
LONG = {"steps": 10**6, "save_every": 50, "eval_every": 30, "eval_windows": 24, "log_every": 0, "keep": 10**6}
LATEST = 8 if SANITIZED else 2  # seconds after the start
PHASES = ("start", "step", "evaluation", "write", "commit", "retention")


class Signals(SystemTest):
    def job(self, name, ranks=None, fault="", **changes):
        out = self.path(name)
        values = {"data": self.synth(), "out": out} | TINY | LONG | changes
        command = [str(MPIRUN), str(ranks)] * bool(ranks) + [program("gpt_mpi"), *options(values)]
        job = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"GPT_FAULT": fault}
        )
        self.addCleanup(self.end, job, out)
        return job, out

    def end(self, job, out):
        send([process for process, _ in ranks_of(out).values()], signal.SIGKILL)
        if job.poll() is None:
            job.kill()
        job.communicate()

    def wait_for(self, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def assert_stopped(self, job, out, reason, timeout=60):
        """Ends with the code and the words for that, and a checkpoint of its last step; returns that step."""
        text, err = job.communicate(timeout=timeout)
        self.assertEqual(job.returncode, STOPPED, text + err)
        found = re.findall(rf"(?m)^gpt_mpi: stopped after step (\d+) of \d+: {reason}", err)
        self.assertEqual(len(found), 1, text + err)
        step = int(found[0])
        run = Run(out)
        self.assertEqual(max(run.losses()), step)
        # One checkpoint more than those that were due.
        expected = sorted({*range(LONG["save_every"], step + 1, LONG["save_every"]), step})
        self.assertEqual(run.checkpoints(), [f"step-{saved:08d}.h5" for saved in expected])
        self.assertEqual(list(run.folder.glob("checkpoints/*.partial")), [])
        verdict = json.loads((out / "verdict.json").read_text(encoding="utf-8"))
        self.assertEqual(verdict["exit_code"], STOPPED)
        self.assertFalse((out / "lease.json").exists())
        return step

    def test_a_signal_to_any_rank_at_any_time(self):
        self.need_h5py()
        chance = random.Random(SEED)
        print(f"{SIGNALS} signals, seed {SEED}")
        came = collections.Counter()
        number = 0
        while number < SIGNALS or (SIGNALS >= 50 and number < 4 * SIGNALS and not all(came[phase] for phase in PHASES)):
            ranks = chance.choice((None, 2, 3))
            rank = chance.randrange(ranks or 1)
            kind = chance.choice((signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM))
            delay = chance.uniform(0, LATEST)
            with self.subTest(ranks=ranks, rank=rank, kind=kind.name, delay=delay):
                start = Start(self.path(f"run{number}"), LONG["eval_every"])
                job, out = self.job(f"run{number}", ranks)
                if ranks:
                    self.wait_for(lambda: rank in ranks_of(out))
                    process = ranks_of(out)[rank][0]
                else:
                    process = job.pid
                self.wait_for(lambda: takes_signals(process))
                time.sleep(delay)
                everyone = [one for one, _ in ranks_of(out).values()] if ranks else [process]
                freeze(everyone)
                came[start.phase()] += 1
                os.kill(process, kind)
                send(everyone, signal.SIGCONT)
                step = self.assert_stopped(job, out, f"{kind.name} came to rank {rank}")
                if number == 0:
                    self.assert_goes_on(out, ranks, step)
            number += 1
        print(f"signals by what the run did: {dict(came)}")
        if SIGNALS >= 50:
            self.assertEqual([phase for phase in PHASES if came[phase] == 0], [])

    def assert_goes_on(self, out, ranks, step):
        changes = {key: LONG[key] for key in ("eval_every", "eval_windows", "keep")} | {"save_every": 50}
        resumed = self.train(self.synth(), out, ranks=ranks, steps=step + 5, **changes)
        straight = self.train(self.synth(), self.path("straight"), ranks=ranks, steps=step + 5, **changes)
        self.assertEqual(resumed.losses(), straight.losses())
        self.assert_same_state(resumed.checkpoint(step + 5), straight.checkpoint(step + 5))

    def test_a_signal_while_something_else_goes_on(self):
        for point, ranks in (
            ("start", 2), ("comm", 2), ("eval", 2), ("save", 2), ("save.write", 2), ("save.write", None),
            ("save.verify", 2),
        )[:: 3 if SANITIZED else 1]:  # fmt: skip
            with self.subTest(point=point, ranks=ranks):
                job, out = self.job(f"{point}{ranks}", ranks, f"{point}:delay=1500@rank=0,hit=1")
                process = job.pid
                if ranks:
                    self.wait_for(lambda: 1 in ranks_of(out))
                    process = ranks_of(out)[1][0]
                self.wait_for(lambda: takes_signals(process))
                # Long enough to be there, and gone before the point is left.
                log = out / "log.jsonl"
                if point not in ("start", "comm"):
                    due = LONG["eval_every"] if point == "eval" else LONG["save_every"]
                    self.wait_for(lambda: log.exists() and f'"step":{due},' in log.read_text(encoding="utf-8"))
                os.kill(process, signal.SIGUSR1)
                self.assert_stopped(job, out, "SIGUSR1 came to rank")

    def test_the_second_signal_ends_it_at_once(self):
        job, out = self.job("twice", fault="save.write:delay=60000")
        self.wait_for(lambda: Run(out).folder.joinpath("checkpoints").exists())
        job.send_signal(signal.SIGUSR1)
        job.send_signal(signal.SIGTERM)
        time.sleep(1)
        self.assertIsNone(job.poll())
        job.send_signal(signal.SIGTERM)
        text, err = job.communicate(timeout=20)
        self.assertEqual(job.returncode, -signal.SIGTERM, text + err)
        self.assertEqual(err.count("a signal asks to stop"), 1, err)
        self.assertEqual(err.count("ended by a signal"), 1, err)
        self.assertIn(f"{out}/checkpoints", err)
        self.assertFalse((out / "verdict.json").exists())

    def test_a_time_limit_stops_the_run_in_time(self):
        for ranks, how in ((None, "option"), (2, "slurm")):
            with self.subTest(ranks=ranks, how=how):
                began = time.time()
                self.train(self.synth(), self.path(f"short{how}"), ranks=ranks, steps=50, save_every=50)
                # As long as this machine takes now for a start, a save and an end, some times over.
                seconds = 4 + math.ceil(4 * (time.time() - began))
                began = time.time()
                if how == "slurm":
                    os.environ["SLURM_JOB_END_TIME"] = str(int(began) + seconds)
                    self.addCleanup(os.environ.pop, "SLURM_JOB_END_TIME", None)
                changes = {"time_limit": seconds} if how == "option" else {}
                job, out = self.job(how, ranks, **changes)
                reason = f"--time-limit {seconds} is near" if how == "option" else "the end of the Slurm job is near"
                step = self.assert_stopped(job, out, reason, timeout=60 + seconds)
                self.assertGreater(step, 10)
                self.assertLess(Run(out).checkpoint(step).stat().st_mtime - began, seconds)

    def test_without_checkpoints_nothing_is_promised(self):
        job, out = self.job("none", save_every=0)
        self.wait_for(lambda: (out / "log.jsonl").exists() and len(Run(out).losses()) > 2)
        job.send_signal(signal.SIGUSR1)
        text, err = job.communicate(timeout=20)
        self.assertEqual(job.returncode, STOPPED, text + err)
        self.assertIn("Nothing was saved (--save-every 0)", err)
        self.assertEqual(Run(out).checkpoints(), [])

    def test_an_evaluation_alone_ends_at_once(self):
        trained = self.train(self.synth(), self.path("trained"), steps=2, save_every=2)
        job, _ = self.job("eval", fault="load:delay=60000", eval_only=True, resume=trained.checkpoint(2))
        self.wait_for(lambda: takes_signals(job.pid))
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=20)
        self.assertEqual(job.returncode, -signal.SIGTERM)


def takes_signals(process):
    """Whether the process has its handler for SIGTERM: the kernel's mask of caught signals has it."""
    try:
        status = pathlib.Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return False
    caught = re.search(r"(?m)^SigCgt:\s*([0-9a-f]+)$", status)
    name = re.search(r"(?m)^Name:\s*(\S+)$", status)
    return name[1] == "gpt_mpi" and bool(int(caught[1], 16) >> (signal.SIGUSR2 - 1) & 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
