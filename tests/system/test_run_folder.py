"""A run folder belongs to one job at a time."""

import os
import signal
import subprocess
import time
import unittest

from harness import TINY, USAGE, SystemTest, options, program


class RunFolder(SystemTest):
    def hold(self, out):
        """A run that goes on until it is killed; returns when it trains."""
        values = {"data": self.synth(), "out": out} | TINY | {"steps": 100_000_000}
        holder = subprocess.Popen(
            [program("gpt_mpi"), *options(values)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        log = out / "log.jsonl"
        deadline = time.monotonic() + 60
        while not (log.exists() and '"event":"step"' in log.read_text(encoding="utf-8")):
            self.assertIsNone(holder.poll(), "the holder ended")
            self.assertLess(time.monotonic(), deadline, "the holder does not train")
            time.sleep(0.05)
        return holder

    def test_a_second_run_is_refused_and_names_the_holder(self):
        out = self.path("run")
        holder = self.hold(out)
        before = (out / "config.ini").read_bytes()
        done = self.start(self.synth(), out, ranks=2, steps=5)
        self.assert_refused(done, USAGE, out.name, holder.pid)
        self.assertIsNone(holder.poll(), "the holder was disturbed")
        self.assertEqual((out / "config.ini").read_bytes(), before)

    def test_a_killed_holder_is_followed_at_once(self):
        out = self.path("run")
        holder = self.hold(out)
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        started = time.monotonic()
        run = self.train(self.synth(), out, steps=5)
        self.assertLess(time.monotonic() - started, 30)
        self.assertEqual({event["attempt"] for event in run.events("start")}, {1, 2})

    def test_a_finished_run_gives_its_folder_back(self):
        out = self.path("run")
        self.train(self.synth(), out, steps=2, save_every=2)
        self.train(self.synth(), out, steps=4, save_every=2)

    def test_folders_are_made_with_their_parents(self):
        self.train(self.synth(), self.path("a") / "b" / "c", ranks=4, steps=1)

    def test_a_folder_that_cannot_be_made(self):
        blocked = self.path("file")
        blocked.write_text("not a folder", encoding="utf-8")
        done = self.start(self.synth(), blocked / "run", ranks=2, steps=1)
        self.assert_refused(done, USAGE, blocked.name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
