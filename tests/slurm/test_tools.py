"""Chains, sweeps, and where a run is."""

import re
import unittest

from cluster import enter_namespaces, wait_for

enter_namespaces()

from training import FOUR_BY_EIGHT, TOP, Run, SlurmTest, program  # noqa: E402
from harness import USAGE  # noqa: E402

TINY_NODES = ("--nodes=1", "--ntasks-per-node=1")


class Tools(SlurmTest):
    def settings(self, run, **changes):
        return {
            "DATA": str(self.synth()),
            "RUN": str(run),
            "ARGS": self.arguments(**changes),
            "DEVICE": "cpu",
            "PROGRAM": program("gpt_mpi"),
        }

    def tool(self, name, *arguments, environment=None, timeout=120):
        command = [TOP / "slurm" / name, *arguments]
        return self.cluster.ask(*command, environment=environment, timeout=timeout, cwd=self.here)

    def test_a_chain_ends_itself_when_the_run_is_finished(self):
        """The first part is stopped by its time, the second finishes, the third does not start."""
        run = self.here / "run"
        environment = self.settings(run, steps=300, save_every=1000) | {"GPT_FAULT": "step:delay=50"}
        done = self.tool("chain.sh", 3, *TINY_NODES, environment=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        parts = re.findall(r"part \d of 3: job (\d+)", done.stdout)
        self.assertEqual(len(parts), 3)
        self.wait_for_step(run, 3)
        self.cluster.ask("scancel", "--signal=USR1", parts[0])
        wait_for(lambda: self.state(parts[2]) == "CANCELLED", lambda: [self.state(part) for part in parts], 90)
        wait_for(lambda: self.state(parts[1]) == "COMPLETED", lambda: [self.state(part) for part in parts], 20)
        self.assertEqual(self.state(parts[0]), "FAILED")  # its exit code is 3: stopped
        self.assertEqual(sorted(Run(run).losses()), list(range(1, 301)))
        self.assertEqual(len(Run(run).events("start")), 2)

    def test_a_chain_ends_when_it_cannot_go_on(self):
        done = self.tool("chain.sh", 2, *TINY_NODES, environment=self.settings(self.here / "run", heads=5))
        parts = re.findall(r"job (\d+)", done.stdout)
        wait_for(lambda: self.state(parts[1]) == "CANCELLED", lambda: self.state(parts[1]), 60)

    def state(self, job):
        found = re.search(r"JobState=(\S+)", self.cluster.ask("scontrol", "show", "job", job).stdout)
        return found[1] if found else ""

    def test_a_sweep_of_learning_rates(self):
        run = self.here / "sweep"
        environment = self.settings(run, lr=None, steps=8, eval_every=4, eval_windows=4)
        rates = ["1e-4", "1e-3", "3e-3", "1e-2"]
        done = self.tool("sweep.sh", *rates, "--", *TINY_NODES, environment=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = [line.split() for line in done.stdout.splitlines() if re.match(r"\de-\d ", line)]
        self.assertEqual([row[0] for row in rows], rates, done.stdout)
        for rate, step, loss, validation, state in rows:
            log = Run(run / f"lr-{rate}")
            self.assertEqual((step, state), ("8", "finished"), done.stdout)
            self.assertEqual(float(loss), log.losses()[8])
            self.assertEqual(float(validation), log.events("eval")[-1]["val_loss"])
            (written,) = re.findall(r"(?m)^lr = (\S+)$", (log.folder / "config.ini").read_text(encoding="utf-8"))
            self.assertEqual(float(written), float(rate))
        again = self.tool("sweep.sh", "--table", run)
        self.assertEqual(again.stdout, done.stdout[done.stdout.index("rate ") :])
        print(again.stdout)

    def test_the_status_of_a_run(self):
        run = self.here / "run"
        job = self.submit(
            FOUR_BY_EIGHT, "--nodes=2", "--ntasks-per-node=1", "--time=10", run=run,
            environment={"GPT_FAULT": "step:delay=50"}, steps=1000, save_every=5,
        )  # fmt: skip
        self.wait_for_checkpoint(run, 5)
        for name in (run, job.number):
            with self.subTest(name=name):
                shown = self.tool("status.sh", name).stdout
                print(shown)
                for line in (
                    rf"run +{run}",
                    r"state +running",
                    rf"job {job.number} +RUNNING on n\[0-1\] \(2 nodes\), \d+:\d\d of its time left",
                    r"step +\d+ of 1000",
                    r"loss +\d\.\d+, validation -",
                    r"tokens/s +\d+\S* on 2 ranks",
                    r"checkpoint +.*/step-\d{8}\.h5, \d+ s ago",
                    r"restarts +0",
                    r"excluded +no nodes",
                ):
                    self.assertRegex(shown, rf"(?m)^{line}$")
        job.cancel()

    def test_wrong_arguments(self):
        for words, part in (
            (("chain.sh",), "usage: slurm/chain.sh"),
            (("chain.sh", "0"), "usage: slurm/chain.sh"),
            (("sweep.sh",), "usage: slurm/sweep.sh"),
            (("sweep.sh", "fast"), "'fast' is not a learning rate"),
            (("sweep.sh", "--table", "/nowhere"), "there is no folder /nowhere"),
            (("status.sh",), "usage: slurm/status.sh"),
            (("status.sh", "999999"), "job 999999 is not known"),
            (("status.sh", "nowhere"), "neither a run folder nor"),
            (("train_4x8.sh",), "usage: sbatch slurm/train_4x8.sh"),
            (("train_elastic.sh",), "usage: sbatch slurm/train_elastic.sh"),
        ):
            with self.subTest(words=words):
                done = self.tool(*words)
                self.assertEqual(done.returncode, USAGE, done.stderr)
                self.assertIn(part, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
