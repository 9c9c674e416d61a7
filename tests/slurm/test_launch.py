"""gpt_mpi under srun, and the job script for a fixed number of nodes: who starts, on what, and what is refused."""

import shlex
import unittest

from cluster import enter_namespaces, wait_for

enter_namespaces()

from training import FOUR_BY_EIGHT, STEPS, Run, SlurmTest, options, program  # noqa: E402
from harness import STOPPED, TINY, USAGE  # noqa: E402


class OnGpuNodes(SlurmTest):
    def test_srun_alone(self):
        """No option at all: the dataset is found, ranks know of each other; it stops when it is asked to."""
        (self.here / "datasets").mkdir()
        (self.here / "datasets" / "demo").symlink_to(self.synth(tokens=200_000, shards=32))
        script = self.here / "plain.sh"
        script.write_text(f"#!/bin/bash\nexec srun --nodes=4 {program('gpt_mpi')}\n", encoding="utf-8")
        job = self.cluster.sbatch(script, "--nodes=4", cwd=self.here)
        run = self.here / "runs" / "default"
        self.wait_for_step(run, 2, seconds=120)
        job.cancel("--signal=USR1")
        self.assertEqual(job.wait_for_end(), STOPPED, str(job))
        start = Run(run).events("start")[0]
        self.assertEqual((start["ranks"], start["nodes"]), (4, 4), str(job))
        self.assertEqual(len(Run(run).checkpoints()), 1)
        print(job.text())

    def test_tasks_that_do_not_know_of_each_other_are_refused(self):
        done = self.cluster.ask("srun", "--nodes=4", "--mpi=none", program("gpt_mpi"), cwd=self.here)
        self.assertEqual(done.returncode, USAGE, done.stderr)
        self.assertIn("--mpi=pmix", done.stderr)
        self.assertEqual(list(self.here.iterdir()), [])

    def test_mpirun_inside_an_allocation(self):
        run = self.here / "run"
        values = {"data": self.synth(), "out": run} | TINY | {"steps": 3}
        script = self.here / "mpirun.sh"
        command = shlex.join(["mpirun", "-n", "4", program("gpt_mpi"), *options(values)])
        script.write_text(f"#!/bin/bash\n{command}\n", encoding="utf-8")
        job = self.cluster.sbatch(script, "--nodes=2", "--ntasks-per-node=2", cwd=self.here)
        self.assertEqual(job.wait_for_end(), 0, str(job))
        start = Run(run).events("start")[0]
        self.assertEqual((start["ranks"], start["nodes"]), (4, 2))

    def test_four_nodes_with_eight_ranks_each(self):
        run = self.here / "run"
        job = self.submit(FOUR_BY_EIGHT, run=run, data=self.synth(tokens=200_000, shards=32), steps=5, global_batch=32)
        self.assertEqual(job.wait_for_end(), 0, str(job))
        start = Run(run).events("start")[0]
        self.assertEqual((start["ranks"], start["nodes"]), (32, 4), str(job))
        self.assertIn(f"run folder {run} ", job.text())
        self.assertIn(f"finished: {run}", job.text())
        self.assertEqual(len(Run(run).losses()), 5)
        print(job.text())

    def test_granted_gpus_are_not_left_idle(self):
        """No GPU can be used here: the job ends, says so, and is not started again."""
        run = self.here / "run"
        one = ("--nodes=1", "--ntasks-per-node=1")
        job = self.submit(FOUR_BY_EIGHT, *one, run=run, environment={"DEVICE": ""}, steps=2)
        self.assertNotEqual(job.wait_for_end(), 0, str(job))
        self.assertIn("refused: the job: GPU: rank 0 sees no GPU", job.text())
        self.assertEqual(job.field("Restarts"), "0")
        self.assertIn("not started again", job.text())
        self.assertFalse((run / "log.jsonl").exists())

    def test_settings_that_cannot_be(self):
        for settings, message in (
            ({"SITE": "atlantis"}, "there is no .*/slurm/env/atlantis.sh; there are: debian.sh template.sh"),
            ({"PROGRAM": "/nowhere/gpt_mpi"}, "there is no program /nowhere/gpt_mpi"),
            ({"ARGS": "--stepps 3"}, "stepps"),
        ):
            with self.subTest(settings=settings):
                job = self.submit(
                    FOUR_BY_EIGHT,
                    "--nodes=1",
                    "--ntasks-per-node=2",
                    run=self.here / "run",
                    name=next(iter(settings)),
                    environment=settings,
                )
                self.assertEqual(job.wait_for_end(), USAGE, str(job))
                self.assertRegex(job.text(), message)
                self.assertEqual(job.field("Restarts"), "0")

    def test_a_site_file(self):
        """It chooses how srun starts ranks, and what stands before the program."""
        site = self.here / "site.sh"
        site.write_text("MPI_TYPE=pmix\nSRUN_OPTIONS=(--label)\nWRAPPER=(env GPT_SITE=1)\n", encoding="utf-8")
        job = self.submit(
            FOUR_BY_EIGHT,
            "--nodes=2",
            "--ntasks-per-node=1",
            run=self.here / "run",
            environment={"SITE": str(site), "MPI_TYPE": "none"},
            steps=2,
        )
        self.assertEqual(job.wait_for_end(), 0, str(job))
        self.assertRegex(job.text(), r"(?m)^0: step 2/2")

    def test_a_killed_rank_takes_the_others_with_it(self):
        run = self.here / "run"
        job = self.submit(
            FOUR_BY_EIGHT,
            "--nodes=4",
            "--ntasks-per-node=1",
            run=run,
            environment={"GPT_FAULT": "step:kill@rank=2,step=3", "MAX_IDLE": "1"},
            steps=STEPS,
        )
        self.assertNotEqual(job.wait_for_end(seconds=60), 0, str(job))
        self.assertIn("saved nothing new: 1", job.text())
        wait_for(lambda: set(self.cluster.states().values()) == {"idle"}, lambda: str(job), 30)


class WithoutGpus(SlurmTest):
    gpus = 0

    def test_a_cluster_that_knows_no_gpus(self):
        run = self.here / "run"
        job = self.submit(
            FOUR_BY_EIGHT, "--gpus-per-node=0", "--ntasks-per-node=2", run=run, steps=3, global_batch=12
        )
        self.assertEqual(job.wait_for_end(), 0, str(job))
        self.assertEqual(Run(run).events("start")[0]["ranks"], 8)


if __name__ == "__main__":
    unittest.main(verbosity=2)
