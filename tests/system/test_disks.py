"""A disk that is full, becomes read-only or goes away costs checkpoints and never the run, which goes on, says so on rank 0,
and ends with its own code when too many in a row have failed.

The disks are small file systems in memory, mounted here: that takes root.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
import unittest

from harness import MPIRUN, SANITIZED, SAVING_FAILED, TINY, Result, Run, SystemTest, options, program, ranks_of

EVERY_TWO = {"steps": 10, "save_every": 2, "keep": 1, "log_every": 0, "save_failures": 3}
WAYS = ((None, "async"), (2, "async"), (2, "sync"))


def mount(*words):
    return subprocess.run(["mount", *map(str, words)], capture_output=True, text=True, check=False)


class Disks(SystemTest):
    runs = {}  # that nothing disturbed, by ranks

    def disk(self, folder, size):
        """An empty file system of `size` bytes at the folder."""
        folder.mkdir(parents=True)
        done = mount("-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", folder)
        self.need(done.returncode == 0, f"no file system can be mounted here: {done.stderr}")
        self.addCleanup(subprocess.run, ["umount", "-l", str(folder)], capture_output=True, check=False)

    def undisturbed(self, ranks):
        """The run, and the size of its checkpoints."""
        if ranks not in self.runs:
            self.runs[ranks] = self.train(self.synth(), self.path(f"straight{ranks}"), ranks=ranks, **EVERY_TWO)
        return self.runs[ranks], self.runs[ranks].checkpoint(10).stat().st_size

    def stopped_job(self, out, ranks, step, change, **changes):
        """A job whose ranks stand still before that step while `change` is made; its end."""
        values = {"data": self.synth(), "out": out} | TINY | EVERY_TWO | {"save": "sync"} | changes
        command = [str(MPIRUN), str(ranks or 1), program("gpt_mpi"), *options(values)]
        environment = os.environ | {"GPT_FAULT": f"step:stop@step={step}"}
        with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as errors:
            job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=errors, env=environment)
            try:
                deadline = time.monotonic() + (240 if SANITIZED else 60)
                while [state for _, state in ranks_of(out).values()] != ["T"] * (ranks or 1):
                    self.assertIsNone(job.poll(), "it ended before that step")
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.01)
                change()
                for process, _ in ranks_of(out).values():
                    os.kill(process, signal.SIGCONT)
                code = job.wait(timeout=240 if SANITIZED else 60)
            finally:
                for process, _ in ranks_of(out).values():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                if job.poll() is None:
                    job.kill()
                    job.wait()
            said.seek(0)
            errors.seek(0)
            return Result(command, code, said.read(), errors.read())

    def assert_gave_up(self, done, *words):
        """It went on twice, and then said once why it ends."""
        self.assertEqual(done.out.count("the run goes on"), 2, str(done))
        self.assert_refused(done, SAVING_FAILED, *words)

    def assert_goes_on(self, out, ranks, step, straight):
        """The checkpoint of that step is whole: the same command goes on from it, to where it would have come."""
        self.need_h5py()
        again = self.train(self.synth(), out, ranks=ranks, **EVERY_TWO)
        self.assertEqual([event["step"] for event in again.events("resume")], [step])
        self.assert_same_state(again.checkpoint(10), straight.checkpoint(10))

    def test_a_disk_that_is_full_at_the_second_save(self):
        for ranks, save in WAYS:
            with self.subTest(ranks=ranks, save=save):
                straight, size = self.undisturbed(ranks)
                out = self.path(f"run{ranks}{save}")
                folder = out / "checkpoints"
                self.disk(folder, int(1.7 * size))
                done = self.start(self.synth(), out, ranks=ranks, save=save, **EVERY_TWO)
                self.assert_gave_up(done, "step-00000008.h5", "No space left on device")
                run = Run(out)
                self.assertEqual([event["step"] for event in run.events("save")], [2])
                self.assertEqual([event["step"] for event in run.events("save_failed")], [4, 6, 8])
                self.assertEqual([path.name for path in folder.iterdir()], ["step-00000002.h5"])
                self.assertEqual(mount("-o", f"remount,size={4 * size}", folder).returncode, 0)
                self.assert_goes_on(out, ranks, 2, straight)

    def test_a_folder_that_becomes_read_only(self):
        for ranks in (None, 2):
            with self.subTest(ranks=ranks):
                straight, size = self.undisturbed(ranks)
                out = self.path(f"run{ranks}")
                folder = out / "checkpoints"
                self.disk(folder, 4 * size)

                def become_read_only(folder=folder):
                    done = mount("-o", "remount,ro", folder)
                    self.assertEqual(done.returncode, 0, done.stderr)

                done = self.stopped_job(out, ranks, 3, become_read_only)
                self.assert_gave_up(done, "step-00000008.h5", "Read-only file system")
                self.assertEqual(Run(out).checkpoints(), ["step-00000002.h5"])
                self.assertEqual(mount("-o", "remount,rw", folder).returncode, 0)
                self.assert_goes_on(out, ranks, 2, straight)

    def test_a_folder_that_vanishes_is_made_anew(self):
        """What was in it is gone, and the run needs it no more."""
        out = self.path("run")
        away = self.path("away")
        done = self.stopped_job(out, 2, 3, lambda: (out / "checkpoints").rename(away))
        self.assertEqual(done.code, 0, str(done))
        self.assertEqual([path.name for path in away.iterdir()], ["step-00000002.h5"])
        self.assertEqual(Run(out).checkpoints(), ["step-00000010.h5"])

    def test_a_link_whose_folder_vanishes(self):
        straight, _ = self.undisturbed(2)
        out, there, away = self.path("run"), self.path("there"), self.path("away")
        there.mkdir()
        out.mkdir()
        (out / "checkpoints").symlink_to(there)
        done = self.stopped_job(out, 2, 3, lambda: there.rename(away))
        self.assert_gave_up(done, "step-00000008.h5", f"it is a link to {there}, which is gone")
        away.rename(there)
        self.assert_goes_on(out, 2, 2, straight)

    def test_a_run_folder_that_vanishes(self):
        """The lease in it as well: nobody took the folder over, so that is no reason to stop before it comes back."""
        straight, _ = self.undisturbed(2)
        out, away = self.path("run"), self.path("away")
        done = self.stopped_job(out, 2, 3, lambda: out.rename(away))
        self.assert_gave_up(done, f"the run folder {out} is gone")
        self.assertFalse(out.exists())
        away.rename(out)
        self.assert_goes_on(out, 2, 2, straight)

    def test_a_folder_on_another_device(self):
        for ranks in (None, 2):
            with self.subTest(ranks=ranks):
                straight, size = self.undisturbed(ranks)
                out, there = self.path(f"run{ranks}"), self.path(f"there{ranks}")
                self.disk(there, 4 * size)
                out.mkdir()
                (out / "checkpoints").symlink_to(there)
                self.assertNotEqual(there.stat().st_dev, out.stat().st_dev)
                run = self.train(self.synth(), out, ranks=ranks, **(EVERY_TWO | {"steps": 6}))
                self.assertEqual([path.name for path in there.iterdir()], ["step-00000006.h5"])
                self.assertEqual(run.events("save_failed"), [])
                self.assert_goes_on(out, ranks, 6, straight)


if __name__ == "__main__":
    unittest.main(verbosity=2)
