"""What starts a job again, and what does not: exit codes, verdicts, and Slurm's own ends."""

import unittest

from cluster import enter_namespaces, wait_for

enter_namespaces()

from training import FOUR_BY_EIGHT, Run, SlurmTest  # noqa: E402

# A step of rank 0 takes so many milliseconds longer.
SLOWLY = {"GPT_FAULT": "step:delay=50@rank=0"}
ENDLESS = 10**6


class Requeue(SlurmTest):
    def assert_no_step_is_doubled(self, run, steps):
        """log.jsonl has all steps; one that stands twice was voided by the start after it."""
        kept = {}
        for event in run.events():
            if event["event"] == "start":
                kept = {step: attempt for step, attempt in kept.items() if step <= event["step"]}
            elif event["event"] == "step":
                self.assertNotIn(event["step"], kept)
                kept[event["step"]] = event["attempt"]
        self.assertEqual(sorted(kept), list(range(1, steps + 1)))

    def test_nodes_that_die(self):
        """One job loses a node, another the node of its script: both are requeued, resume, and the first ends with the
        bits of a run that nothing happened to."""
        self.need_h5py()
        steps = 300
        jobs, runs = {}, {}
        for name, nodes, environment in (
            ("rank", "n2,n3", SLOWLY),
            ("script", "n0,n1", SLOWLY),
            ("straight", "n1,n2", {}),
        ):
            runs[name] = self.here / name
            jobs[name] = self.submit(
                FOUR_BY_EIGHT, f"--nodelist={nodes}", "--nodes=2", "--ntasks-per-node=2", "--gpus-per-node=2",
                run=runs[name], name=name, environment=environment, steps=steps, save_every=20, timeout=15,
            )  # fmt: skip
        for name, node in (("rank", "n3"), ("script", "n0")):
            self.wait_for_checkpoint(runs[name], 40)
            self.cluster.kill_node(node)
        for job, node in ((jobs["rank"], "n3"), (jobs["script"], "n0")):
            job.wait_for_state("PENDING")
            self.cluster.start_node(node)
        self.assertEqual(jobs["straight"].wait_for_end(), 0, str(jobs["straight"]))
        for name in ("rank", "script"):
            self.assertEqual(jobs[name].wait_for_end(), 0, str(jobs[name]))
            self.assertGreaterEqual(int(jobs[name].field("Restarts")), 1)
            self.assert_no_step_is_doubled(Run(runs[name]), steps)
            self.assertGreaterEqual(len(Run(runs[name]).events("start")), 2)
        self.assertIn("no answer from n3: waiting for Slurm", jobs["rank"].text())
        self.assert_same_state(Run(runs["rank"]).checkpoint(steps), Run(runs["straight"]).checkpoint(steps))

    def small(self, name, *slurm, fault="", settings=None, **changes):
        """A job of two ranks on a node of n0, n1, n2; its run folder has its name."""
        return self.submit(
            FOUR_BY_EIGHT, "--exclude=n3", "--nodes=1", "--ntasks-per-node=2", "--gpus-per-node=0", *slurm,
            run=self.here / name, name=name, environment={"GPT_FAULT": fault} | (settings or {}), **changes,
        )  # fmt: skip

    def test_other_ends(self):
        """Jobs that end in different ways, at the same time."""
        slowly = SLOWLY["GPT_FAULT"]
        limited = self.small("limited", "--time=1", "--signal=USR1@45", fault=slowly, steps=ENDLESS, save_every=10**5)
        asked = self.small("asked", fault=slowly, steps=200, save_every=10**5)
        cancelled = self.small("cancelled", fault=slowly, steps=ENDLESS, save_every=20)
        finished = self.small("finished", steps=5, save_every=5)
        crashing = self.small(
            "crashing", fault="step:kill@rank=1,hit=5", settings={"MAX_CRASHES": "1"},
            steps=100, save_every=3, save="sync",
        )  # fmt: skip
        preempted = self.submit(
            FOUR_BY_EIGHT, "--nodelist=n3", "--nodes=1", "--exclusive", "--ntasks-per-node=1", "--gpus-per-node=0",
            run=self.here / "preempted", name="preempted", environment=SLOWLY, steps=ENDLESS, save_every=10**5,
        )  # fmt: skip

        with self.subTest("a signal asks to stop: it saves and starts again where it stood"):
            self.wait_for_step(self.here / "asked", 5)
            asked.cancel("--signal=USR1")
            asked.wait_for("requeue: stopped (stopped after step")
        with self.subTest("preempted, it saves and is requeued by Slurm"):
            self.wait_for_step(self.here / "preempted", 5)
            urgent = ("--partition=urgent", "--nodelist=n3", "--exclusive", "--output=/dev/null", "--wrap=sleep 1")
            self.assertEqual(self.cluster.ask("sbatch", *urgent, cwd=self.here).returncode, 0)
            preempted.wait_for("preempted: waiting for Slurm")
            self.assertEqual(len(Run(self.here / "preempted").checkpoints()), 1)
        with self.subTest("cancelled, it stays so"):
            self.wait_for_checkpoint(self.here / "cancelled", 20)
            cancelled.cancel()
            cancelled.wait_for_state("CANCELLED")
            self.assertEqual(cancelled.field("Restarts"), "0")
            self.assertNotIn("requeue:", cancelled.text())
        with self.subTest("finished and requeued, it ends at once with 0"):
            self.assertEqual(finished.wait_for_end(), 0, str(finished))
            events = len(Run(self.here / "finished").events())
            self.assertEqual(self.cluster.ask("scontrol", "requeue", finished.number).returncode, 0)
            finished.wait_for(f"finished: {self.here}/finished", times=2)
            self.assertEqual(finished.wait_for_end(), 0, str(finished))
            self.assertEqual(len(Run(self.here / "finished").events()), events)
        with self.subTest("asked, goes on"):
            self.assertEqual(asked.wait_for_end(), 0, str(asked))
            self.assertEqual(asked.field("Restarts"), "1")
            self.assert_no_step_is_doubled(Run(self.here / "asked"), 200)
        with self.subTest("crashes are tried again while there is progress, so often"):
            self.assertEqual(crashing.wait_for_end(), 137, str(crashing))
            self.assertIn("it crashed 2 times (MAX_CRASHES=1)", crashing.text())
            self.assertEqual(crashing.field("Restarts"), "1")
            self.assertEqual(Run(self.here / "crashing").checkpoints()[-1], "step-00000006.h5")
        with self.subTest("preempted, is requeued"):
            wait_for(lambda: preempted.field("Restarts") == "1", lambda: str(preempted))
        with self.subTest("before its time limit it saves and starts again"):
            limited.wait_for("requeue: stopped (stopped after step", seconds=75)
            limited.wait_for("start 2 at step ", seconds=60)


if __name__ == "__main__":
    unittest.main(verbosity=2)
