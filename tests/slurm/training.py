"""What the tests of job scripts share: a cluster for each class, and small runs."""

import os
import pathlib
import sys

from cluster import Cluster, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))
from harness import TINY, TOP, Run, SystemTest, options, program  # noqa: E402

FOUR_BY_EIGHT = TOP / "slurm" / "train_4x8.sh"
ELASTIC = TOP / "slurm" / "train_elastic.sh"

# A run of 4 ranks on 4 nodes, long enough for something to happen to it; --inter as the pretended network likes it.
STEPS = 400
SLOW = {"steps": STEPS, "save_every": 10, "keep": 3}


class SlurmTest(SystemTest):
    """Each class has a cluster; each test a folder from which it submits."""

    gpus = 8

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = Cluster(cls.gpus)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.start()

    def setUp(self):
        self.here = self.path("here")
        self.here.mkdir()
        self.addCleanup(self.cluster.ask, "scancel", "--user=root")

    def arguments(self, **changes):
        return " ".join(options(TINY | changes))

    def submit(self, script, *slurm, run, data=None, name="job", environment=None, **changes):
        """A job of a script with TINY options and `changes`, on CPUs."""
        settings = {
            "DATA": str(data or self.synth()),
            "RUN": str(run),
            "ARGS": self.arguments(**changes),
            "DEVICE": "cpu",
            "PROGRAM": program("gpt_mpi"),
        }
        return self.cluster.sbatch(
            script, *slurm, cwd=self.here, name=name, environment=settings | (environment or {})
        )

    def wait_for_step(self, run, step, seconds=90):
        """Until the log of a run has that step, or a later one."""
        log = Run(run)

        def reached():
            path = log.folder / "log.jsonl"
            if not path.exists():
                return False
            steps = [int(line.partition('"step":')[2].partition(",")[0]) for line in whole_lines(path)]
            return bool(steps) and steps[-1] >= step

        wait_for(reached, f"step {step} of {run}", seconds)

    def wait_for_checkpoint(self, run, step, seconds=90):
        """Until there is one of that step, or a later one."""
        name = f"step-{step:08d}.h5"
        log = Run(run)
        wait_for(lambda: any(found >= name for found in log.checkpoints()), f"{name} in {run}", seconds)

    def job_log(self, run, event):
        """slurm.log's lines of an event."""
        lines = (pathlib.Path(run) / "slurm.log").read_text(encoding="utf-8").splitlines()
        return [line for line in lines if line.split()[1] == event]

    def assert_exact(self, run):
        """The run's own records say that no window is lost or doubled, over all its starts."""
        done = self.cluster.ask(program("gpt_ckpt"), "ledger", run.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^exact: ")

    def assert_each_window_once(self, run, reference):
        """Every step of a run has consumed the windows that it consumes in a run without faults, whichever rank."""
        self.assert_exact(run)
        ours, theirs = run.windows(), reference.windows()
        self.assertEqual(sorted(ours), sorted(theirs))
        for step, by_rank in theirs.items():
            self.assertEqual(
                sorted(sum(ours[step].values(), [])), sorted(sum(by_rank.values(), [])), f"windows of step {step}"
            )


def whole_lines(path):
    """Of steps."""
    text = path.read_text(encoding="utf-8")
    return [line for line in text[: text.rfind("\n") + 1].splitlines() if line.startswith('{"event":"step"')]


def environment_number(name, default):
    return int(os.environ.get(name, default))
