"""Runs that are killed resume on their own, and end as the run that nobody disturbed: bit for bit.

GPT_TEST_KILL_RUNS=50 makes it long; GPT_TEST_SEED repeats what was drawn. Half of the runs are killed inside a save, at a
fault point that is drawn; the others at a moment that is drawn from the time which an undisturbed run takes, whatever goes
on then: what it was is read from their files while they stand still. One more kill of each run is placed at a phase that was
not hit often enough, and runs go on until every phase was.
"""

import collections
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import MPIRUN, SANITIZED, TINY, SystemTest, options, program, ranks_of
from phases import Start, events_of, freeze, send

RUNS = int(os.environ.get("GPT_TEST_KILL_RUNS", "4" if SANITIZED else "12"))
SEED = int(os.environ.get("GPT_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
OFTEN = 0 if SANITIZED else 2  # times that every phase has to be hit
RANKS = 2
STEPS, SAVE_EVERY, EVAL_EVERY = 240, 20, 30
CHANGES = {
    "steps": STEPS, "save_every": SAVE_EVERY, "eval_every": EVAL_EVERY, "eval_windows": 24, "keep": 2, "dropout": 0.1,
    "log_every": 0,
}  # fmt: skip
# Where a kill is placed: points, and how many steps lie between two times that they are passed (0: once a start). Those of
# ROOT are passed by rank 0 only.
IN_SAVE = {
    "copy": (("save.copy",), SAVE_EVERY),
    "write": (("save.open", "save.write", "save.close"), SAVE_EVERY),
    "commit": (("save.sync", "save.commit", "save.rename"), SAVE_EVERY),
    "retention": (("save.verify", "save.retire"), SAVE_EVERY),
}
PHASES = IN_SAVE | {
    "start": (("start", "comm"), 0),
    "load": (("load",), 0),
    "step": (("step", "backward", "update"), 1),
    "reduction": (("comm.block",), 1),
    "evaluation": (("eval",), EVAL_EVERY),
}
ROOT = {"save.sync", "save.commit", "save.rename", "save.retire"}
# Open MPI 4.1 with PMIx 4.2 sometimes hangs at its own end when ranks die inside MPI_Init. They are gone then; it gets so
# many seconds more.
LAUNCHER_ENDS = 5


class Kills(SystemTest):
    def setUp(self):
        self.need_h5py()
        self.chance = random.Random(SEED)
        self.hits = collections.Counter()
        print(f"{RUNS} runs, seed {SEED}", flush=True)
        began = time.monotonic()
        self.straight = self.train(self.synth(), self.path("straight"), ranks=RANKS, **CHANGES)
        self.whole = time.monotonic() - began

    def rare(self, among=PHASES):
        """A phase that was not hit often enough, one of those hit least; None: there is none."""
        least = min(self.hits[phase] for phase in among)
        if least >= OFTEN:
            return None
        return self.chance.choice([phase for phase in among if self.hits[phase] == least])

    def test_a_killed_run_ends_as_if_nothing_had_been(self):
        number = 0
        while number < RUNS or self.rare() is not None:
            self.assertLess(number, 3 * RUNS, f"too few phases were hit: {dict(self.hits)}")
            first = None
            if number % 2 == 0:
                first = self.rare(IN_SAVE) or self.chance.choice(list(IN_SAVE))
            second = self.rare() or self.chance.choice(list(PHASES))
            if number >= RUNS:  # to be killed while it loads, a run has to have something
                first = "step" if second == "load" else self.rare() or "step"
            plan = [first, second]
            with self.subTest(run=number, plan=plan):
                self.kill_and_resume(number, plan)
            number += 1
        print(f"{number} runs, kills by phase: {dict(self.hits)}", flush=True)

    def kill_and_resume(self, number, plan):
        out = self.path(f"run{number}")
        for phase in plan:
            self.kill(number, out, phase)
        run = self.train(self.synth(), out, ranks=RANKS, **CHANGES)
        self.assert_same_state(run.checkpoint(STEPS), self.straight.checkpoint(STEPS))
        losses = {event["step"]: event["loss"] for event in events_of(out) if event["event"] == "step"}
        self.assertEqual(losses, self.straight.losses())
        evaluations = {event["step"]: event["val_loss"] for event in events_of(out) if event["event"] == "eval"}
        self.assertEqual(evaluations, {e["step"]: e["val_loss"] for e in self.straight.events("eval")})
        shutil.rmtree(out)

    def kill(self, number, out, phase):
        """One start that is killed in that phase; None: at a moment of its time, whatever it does then."""
        done = max((int(name.name[5:13]) for name in out.glob("checkpoints/step-????????.h5")), default=0)
        everyone = self.chance.random() < 0.5
        rank = self.chance.randrange(RANKS)
        if phase == "load" and not 0 < done < STEPS:
            phase = "start"
        if phase is None:
            how, hit = self.kill_by_the_clock(out, done, everyone, rank)
        else:
            how, hit = self.kill_at_a_point(out, done, phase, everyone, rank)
        print(f"run {number}: {hit or 'not hit: it had ended'}; {how}; {done} steps were saved", flush=True)
        if hit is not None:
            self.hits[hit] += 1

    def launch(self, out, fault=""):
        values = {"data": self.synth(), "out": out} | TINY | CHANGES
        said = tempfile.TemporaryFile()
        self.addCleanup(said.close)
        job = subprocess.Popen(
            [str(MPIRUN), str(RANKS), program("gpt_mpi"), *options(values)],
            stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, env=os.environ | {"GPT_FAULT": fault},
        )  # fmt: skip
        self.addCleanup(self.end, job, out)
        return job, said

    def end(self, job, out):
        send([process for process, _ in ranks_of(out).values()], signal.SIGKILL)
        if job.poll() is None:
            job.kill()
            job.wait()

    def kill_at_a_point(self, out, done, phase, everyone, rank):
        points, between = PHASES[phase]
        point = self.chance.choice(points)
        conditions = []
        if point in ROOT:
            conditions.append("rank=0")
        elif not everyone:
            conditions.append(f"rank={rank}")
        if between > 0:
            due = [step for step in range(between, STEPS + 1, between) if step > done]
            if not due:
                return f"{phase} is over", None
            conditions.append(f"step={self.chance.choice(due)}")
        fault = f"{point}:kill@" + ",".join(conditions) if conditions else f"{point}:kill"
        job, said = self.launch(out, fault)
        code = self.wait_for_end(job, out)
        said.seek(0)
        self.assertNotEqual(code, 0, f"{fault}: {said.read().decode(errors='replace')}")
        return fault, phase

    def kill_by_the_clock(self, out, done, everyone, rank):
        start = Start(out, EVAL_EVERY)
        delay = self.chance.uniform(0, self.whole) * (1 - done / STEPS / 2)
        job, _ = self.launch(out)
        time.sleep(delay)
        wanted = set(range(RANKS)) if everyone else {rank}
        while job.poll() is None and not wanted <= set(ranks_of(out)):
            time.sleep(0.002)
        ranks = {rank: process for rank, (process, _) in ranks_of(out).items()}
        freeze(ranks.values())
        hit = start.phase() if job.poll() is None and wanted <= set(ranks) else None
        send([process for rank, process in ranks.items() if rank in wanted], signal.SIGKILL)
        send(ranks.values(), signal.SIGCONT)
        code = self.wait_for_end(job, out)
        if hit == "end" or code == 0:  # nothing was left to be lost
            hit = None
        return f"{'all ranks' if everyone else f'rank {rank}'} {delay:.2f} s after the launch", hit

    def wait_for_end(self, job, out):
        deadline = time.monotonic() + (240 if SANITIZED else 60)
        seen, gone = False, None
        while job.poll() is None:
            now = time.monotonic()
            self.assertLess(now, deadline, "it hangs")
            if ranks_of(out):
                seen, gone = True, None
            elif gone is None:
                gone = now
            elif seen and now - gone > LAUNCHER_ENDS:
                job.kill()
                job.wait()
            time.sleep(0.01)
        while ranks_of(out):
            self.assertLess(time.monotonic(), deadline, "a rank is left")
            time.sleep(0.01)
        return job.returncode


if __name__ == "__main__":
    unittest.main(verbosity=2)
