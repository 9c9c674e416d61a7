"""A job that outlives its nodes: it goes on with those that are left, in the same allocation, and takes nodes back."""

import contextlib
import os
import random
import signal
import time
import unittest

from cluster import NODES, enter_namespaces, wait_for

enter_namespaces()

from training import ELASTIC, Run, SlurmTest, environment_number  # noqa: E402

ROUNDS = environment_number("GPT_TEST_SLURM_ROUNDS", 0)
SEED = environment_number("GPT_TEST_SEED", 0) or random.SystemRandom().randrange(1, 10**9)
# One rank a node; limits that suit a cluster whose nodes answer at once.
SETTINGS = {"TASKS_PER_NODE": "1", "GROW_S": "3", "SILENCE_S": "4", "PROBE_S": "3"}
# Seconds from a fault to training: 15 on a machine that has nothing else to do.
LIMIT = environment_number("GPT_TEST_SLURM_LIMIT", 60)


class Elastic(SlurmTest):
    def job(self, run, delay=50, environment=None, options=(), **changes):
        """A run of which rank 0 makes a step last `delay` milliseconds."""
        values = {"save_every": 20, "timeout": 20} | changes
        settings = SETTINGS | {"GPT_FAULT": f"step:delay={delay}@rank=0" if delay else ""} | (environment or {})
        return self.submit(ELASTIC, *options, run=run, environment=settings, **values)

    def setUp(self):
        super().setUp()
        self.addCleanup(self.heal)

    def heal(self):
        """All nodes are there again, and idle."""
        self.cluster.ask("scancel", "--user=root")
        for node in NODES:
            self.cluster.wake_node(node)
            if node not in self.cluster.daemons:
                self.cluster.start_node(node)
        self.cluster.wait_for_nodes(NODES, states=("idle",))

    def wait_for_training_on(self, run, job, nodes, seconds, after=0):
        """Until a start later than attempt `after` has made a step on so many ranks. Returns its attempt."""

        def attempt():
            with contextlib.suppress(OSError, ValueError):
                starts = {event["attempt"]: event["ranks"] for event in Run(run).events("start")}
                for event in Run(run).events("step"):
                    if event["attempt"] > after and starts[event["attempt"]] == nodes:
                        return event["attempt"]
            return None

        return wait_for(attempt, lambda: f"training on {nodes} nodes\n{job}", seconds)

    def test_nodes_die_and_come_back(self):
        """4 nodes, 3, and again 4 when the lost one is back; no window is lost or doubled."""
        run, steps = self.here / "run", 250
        job = self.job(run, steps=steps)
        first = self.wait_for_training_on(run, job, 4, 60)
        self.wait_for_checkpoint(run, 20)
        self.cluster.kill_node("n2")
        killed = time.monotonic()
        second = self.wait_for_training_on(run, job, 3, LIMIT, first)
        print(f"training on 3 nodes {time.monotonic() - killed:.1f} s after the fault")
        self.cluster.start_node("n2")
        self.wait_for_training_on(run, job, 4, 30, second)
        self.assertEqual(job.wait_for_end(), 0, str(job))
        self.assertEqual(job.field("Restarts"), "0")
        batches = {event["global_batch"] for event in Run(run).events("start")}
        self.assertEqual(batches, {12})
        straight = self.train(self.synth(), self.here / "straight", steps=steps)
        self.assert_each_window_once(Run(run), straight)

    def test_too_few_nodes(self):
        """3 nodes of 4, 2, then one: it waits until Slurm has given the lost ones up, and is requeued. The second of
        them is the script's, and the others requeue the job; it starts when two nodes are there, and grows by another
        requeue."""
        run = self.here / "run"
        job = self.job(run, steps=2000, environment={"GROW": "requeue"})
        attempt = self.wait_for_training_on(run, job, 4, 60)
        self.wait_for_checkpoint(run, 20)
        self.cluster.kill_node("n3")
        attempt = self.wait_for_training_on(run, job, 3, LIMIT, attempt)
        self.cluster.kill_node("n2")
        attempt = self.wait_for_training_on(run, job, 2, LIMIT, attempt)
        self.cluster.kill_node("n1")
        job.wait_for("requeue: fewer than 2 nodes", seconds=60)
        self.cluster.start_node("n1")
        attempt = self.wait_for_training_on(run, job, 2, 60, attempt)
        self.cluster.start_node("n2")
        self.cluster.start_node("n3")
        self.wait_for_training_on(run, job, 4, 90, attempt)
        self.assertIn("requeue for 4 nodes", job.text())
        self.assertGreaterEqual(int(job.field("Restarts")), 2)

    def test_a_rank_that_hangs_and_a_smaller_batch(self):
        """Its node answers, but is left out. Of 16 sequences for 4 nodes 12 on 3, and three quarters of the learning
        rate."""
        run = self.here / "run"
        changes = {"global_batch": 16, "lr": 4e-3, "warmup": 0, "timeout": 8, "steps": 2000}
        job = self.job(run, environment={"ON_RESIZE": "shrink"}, **changes)
        attempt = self.wait_for_training_on(run, job, 4, 60)
        self.wait_for_checkpoint(run, 20)
        (rank,) = self.cluster.processes("n1", "gpt_mpi")
        os.kill(rank, signal.SIGSTOP)
        self.wait_for_training_on(run, job, 3, LIMIT, attempt)
        self.assertIn("n1 is left out", job.text())
        self.assertIn(" nodes=n1 ", self.job_log(run, "exclude")[0])
        self.assertRegex(job.text(), r"training on 3 nodes from step \d+: n0 n2 n3\n")
        batches = [event["global_batch"] for event in Run(run).events("start")]
        rates = [event["lr"] for event in Run(run).events("step")]
        self.assertEqual((batches[0], batches[-1]), (16, 12))
        self.assertAlmostEqual(rates[0], 4e-3, places=6)
        self.assertAlmostEqual(rates[-1], 3e-3, places=6)

    def test_the_node_of_the_script_dies(self):
        """The others requeue the job. GPT_TEST_SLURM_ROUNDS=20: then nodes in use die or hang at random times."""
        run = self.here / "run"
        job = self.job(run, steps=10**6, environment={"GROW": "requeue", "BLAME_S": "15"}, options=("--time=120",))
        self.wait_for_training_on(run, job, 4, 60)
        self.wait_for_checkpoint(run, 20)
        script = job.field("BatchHost")
        self.cluster.kill_node(script)
        wait_for(lambda: self.job_log(run, "requeue"), lambda: str(job), 120)
        self.assertIn(f"{script}, which ran the job script, was lost", self.job_log(run, "requeue")[0])
        lines = len(Run(run).events("step"))
        self.cluster.start_node(script)
        wait_for(lambda: self.trains_on_all(run, lines), lambda: str(job), 120)
        self.strike_at_random(run, job)

    def strike_at_random(self, run, job):
        chance = random.Random(SEED)
        print(f"{ROUNDS} rounds, seed {SEED}")
        for number in range(ROUNDS):
            time.sleep(chance.uniform(0, 6))
            node = chance.choice(NODES)
            fault = chance.choice((self.cluster.kill_node, self.cluster.kill_node, self.cluster.hang_node))
            where = "of the script" if node == job.field("BatchHost") else "of ranks only"
            phase = job.text().rstrip().splitlines()[-1]
            step = Run(run).events("step")[-1]["step"]
            print(f"round {number}: {fault.__name__} {node}, {where}, after step {step}: {phase}", flush=True)
            fault(node)
            struck = time.monotonic()
            time.sleep(chance.uniform(0, 25))
            self.cluster.wake_node(node)
            if node not in self.cluster.daemons:
                self.cluster.start_node(node)
            lines = len(Run(run).events("step"))
            wait_for(lambda: self.trains_on_all(run, lines), lambda: str(job), 240)
            print(f"  on 4 nodes again {time.monotonic() - struck:.1f} s after the fault", flush=True)

    def trains_on_all(self, run, lines):
        """Whether the newest step is one of 4 ranks, and behind so many others in the log."""
        with contextlib.suppress(ValueError):
            steps = Run(run).events("step")
            ranks = {event["attempt"]: event["ranks"] for event in Run(run).events("start")}
            return len(steps) > lines + 1 and ranks[steps[-1]["attempt"]] == 4
        return False


if __name__ == "__main__":
    unittest.main(verbosity=2)
