"""A step with bad numbers changes nothing, whatever is done about it, and no checkpoint holds one."""

import os
import signal
import subprocess
import time
import unittest

from harness import BAD_NUMBERS, STOPPED, TINY, Run, SystemTest, options, program, state

STEPS = {"steps": 12, "save_every": 2, "keep": 100, "dropout": 0.1}
WINDOWS = [18, 21]  # of each lane in step 7: 12 sequences over 4 shards


VECTORS = "step=7,hit=5"  # of six sections: norms and biases, by which a rank is known among others


def nan(rank, *conditions):
    return {"GPT_FAULT": ";".join(f"gradients:nan@rank={rank},{condition}" for condition in conditions)}


class BadSteps(SystemTest):
    def assert_no_nan(self, run):
        """In no checkpoint, those that were set aside included."""
        self.need_h5py()
        import numpy

        files = sorted((run.folder / "checkpoints").iterdir())
        self.assertGreaterEqual(len(files), len(run.checkpoints()))
        for file in files:
            for values in state(file).values():
                self.assertTrue(numpy.isfinite(values).all(), file.name)

    def test_stop(self):
        for ranks, rank in ((None, 0), (2, 1), (3, 2)):
            with self.subTest(ranks=ranks):
                out = self.path(f"np{ranks}")
                done = self.start(self.synth(), out, ranks=ranks, environment=nan(rank, VECTORS), **STEPS)
                self.assert_refused(
                    done, BAD_NUMBERS, "step 7", "is not a finite number", f"from rank {rank};", "windows 18 to 20")
                run = Run(out)
                self.assertEqual(run.checkpoints(), [f"step-{step:08d}.h5" for step in (2, 4, 6)])
                self.assert_no_nan(run)
                (bad,) = run.events("bad_step")
                self.assertEqual((bad["step"], bad["action"], bad["windows"]), (7, "stop", WINDOWS))
                self.assertEqual(bad["ranks"], [rank])
                # What broke is gone: the same command goes on.
                again = self.train(self.synth(), out, ranks=ranks, **STEPS)
                self.assertEqual(sorted(again.losses()), list(range(1, 13)))

    def test_skip(self):
        straight = self.train(self.synth(), self.path("straight"), **STEPS)
        for ranks, rank in ((None, 0), (3, 1)):
            with self.subTest(ranks=ranks):
                fault = nan(rank, "step=7,hit=1")
                run = self.train(
                    self.synth(), self.path(f"np{ranks}"), ranks=ranks, environment=fault, on_bad_step="skip", **STEPS
                )
                losses = run.losses()
                self.assertEqual(sorted(losses), [step for step in range(1, 13) if step != 7])
                if ranks is None:
                    self.assertEqual([losses[step] for step in range(1, 7)],
                                     [straight.losses()[step] for step in range(1, 7)])  # fmt: skip
                self.assertNotEqual(losses[8], straight.losses()[8])
                self.assertEqual([bad["action"] for bad in run.events("bad_step")], ["skip"])
                self.assert_no_nan(run)

    def test_too_many_in_a_row_end_the_run(self):
        out = self.path("out")
        faults = nan(0, *(f"step={step}" for step in (3, 4, 5)))
        done = self.start(
            self.synth(), out, environment=faults, on_bad_step="skip", max_bad_steps=2, **STEPS)
        self.assert_refused(done, BAD_NUMBERS, "step 5", "and so were 2 before")
        self.assert_no_nan(Run(out))
        faults = nan(0, *(f"step={step}" for step in (3, 4, 6, 7)))
        self.train(self.synth(), self.path("apart"), environment=faults, on_bad_step="skip", max_bad_steps=2, **STEPS)

    def test_rollback(self):
        self.need_h5py()
        import h5py

        for ranks, rank, more in (
            (None, 0, {}),
            (3, 1, {}),
            (2, 1, {"zero": 1}),
            (2, 1, {"reduction": "tree", "micro_batch": 2}),
            (None, 0, {"precision": "bf16", "rounding": "stochastic"}),
        ):
            with self.subTest(ranks=ranks, **more):
                # Step 8 has been computed when step 7 is known to be bad.
                changes = STEPS | {"on_bad_step": "rollback", "ranks": ranks, "save_every": 3} | more
                fault = nan(rank, VECTORS)
                name = "-".join(map(str, (ranks, *more.values())))
                run = self.train(self.synth(), self.path(name), environment=fault, **changes)
                self.assertEqual(sorted(run.losses()), list(range(1, 13)))
                (bad,) = run.events("bad_step")
                self.assertEqual((bad["step"], bad["windows"], bad["ranks"]), (7, WINDOWS, [rank]))
                (back,) = run.events("rollback")
                self.assertEqual((back["step"], back["branch"]), (6, 1))
                with h5py.File(run.checkpoint(12), "r") as file:
                    self.assertEqual(list(file["skipped"][:]), WINDOWS)
                    self.assertEqual((file.attrs["branch"], file.attrs["parent_step"]), (1, 6))
                    self.assertEqual(file.attrs["cursor"], 36)
                self.assert_no_nan(run)
                # 12 steps of 12 sequences, each window once, and not those of the bad step.
                windows = [one for of_rank in run.windows().values() for some in of_rank.values() for one in some]
                self.assertEqual((len(windows), len(set(windows))), (144, 144))
                # The list of what is passed over goes on with the run.
                cut = self.path(f"cut-{name}")
                self.train(self.synth(), cut, environment=fault, **(changes | {"steps": 9}))
                resumed = self.train(self.synth(), cut, **changes)
                self.assert_same_state(resumed.checkpoint(12), run.checkpoint(12))

    def test_rollback_of_several_steps_and_to_nothing(self):
        faults = nan(0, "step=5,hit=1", "step=7,hit=1", "step=8,hit=7")  # six sections: when it comes to step 8 again
        run = self.train(self.synth(), self.path("several"), environment=faults, on_bad_step="rollback", **STEPS)
        self.assertEqual([back["step"] for back in run.events("rollback")], [4, 6, 6])
        self.assertEqual([back["branch"] for back in run.events("rollback")], [1, 2, 3])
        self.assert_no_nan(run)
        done = self.start(
            self.synth(), self.path("nothing"), environment=nan(0, "step=1"), on_bad_step="rollback", **STEPS)
        self.assert_refused(done, BAD_NUMBERS, "no checkpoint to go back to")
        faults = nan(0, "step=5")
        done = self.start(
            self.synth(), self.path("endless"), environment=faults, on_bad_step="rollback", max_bad_steps=3, **STEPS)
        self.assert_refused(done, BAD_NUMBERS, "step 5", "and so were 3 before")

    def test_a_skipped_last_step_leaves_weights_as_they_were_rounded(self):
        """Draws of rounding are those of the last update, whatever steps were skipped since."""
        for ranks, zero in ((None, 0), (2, 0), (2, 1)):
            with self.subTest(ranks=ranks, zero=zero):
                changes = STEPS | {
                    "on_bad_step": "skip", "save_every": 6, "precision": "bf16", "rounding": "stochastic", "zero": zero,
                    "ranks": ranks,
                }  # fmt: skip
                faults = nan(0, "step=5,hit=1", "step=6,hit=1")
                straight = self.train(self.synth(), self.path(f"straight{ranks}{zero}"), environment=faults, **changes)
                out = self.path(f"cut{ranks}{zero}")
                self.train(self.synth(), out, environment=faults, **(changes | {"steps": 6}))
                resumed = self.train(self.synth(), out, **changes)
                for step in range(7, 13):
                    self.assertEqual(resumed.losses()[step], straight.losses()[step], step)
                self.assert_same_state(resumed.checkpoint(12), straight.checkpoint(12))

    def test_a_rollback_waits_for_the_save_that_is_under_way(self):
        for ranks in (None, 2):
            with self.subTest(ranks=ranks):
                fault = nan(0, "step=7,hit=1")
                fault["GPT_FAULT"] += ";save.open:delay=2000@step=6,hit=1"
                run = self.train(
                    self.synth(), self.path(f"np{ranks}"), ranks=ranks, environment=fault, on_bad_step="rollback",
                    **(STEPS | {"save_every": 3}),
                )
                kinds = [(event["event"], event["step"]) for event in run.events() if "step" in event]
                self.assertLess(kinds.index(("save", 6)), kinds.index(("rollback", 6)))
                self.assertGreater(kinds.index(("save", 6)), kinds.index(("bad_step", 7)))

    def test_a_rollback_goes_to_the_save_before_when_the_last_one_fails(self):
        fault = nan(0, "step=7,hit=1")
        fault["GPT_FAULT"] += ";save.commit:throw@step=6,hit=1"
        run = self.train(
            self.synth(), self.path("out"), environment=fault, on_bad_step="rollback", **(STEPS | {"save_every": 3})
        )
        self.assertEqual([back["step"] for back in run.events("rollback")], [3])
        self.assertEqual(sorted(set(run.losses())), list(range(1, 13)))

    def test_a_signal_while_the_run_goes_back_stops_it_behind_that(self):
        self.need_h5py()
        import h5py

        out = self.path("out")
        changes = {"data": self.synth(), "out": out} | TINY | STEPS
        changes |= {"steps": 10**6, "save_every": 6, "on_bad_step": "rollback", "log_every": 0}
        fault = nan(0, "step=7,hit=1")
        fault["GPT_FAULT"] += ";load:delay=2000@hit=1"
        with subprocess.Popen(
            [program("gpt_mpi"), *options(changes)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=os.environ | fault,
        ) as job:
            try:
                log, deadline = out / "log.jsonl", time.monotonic() + 60
                while not (log.exists() and '"bad_step"' in log.read_text(encoding="utf-8")):
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.02)
                job.send_signal(signal.SIGUSR1)
                _, err = job.communicate(timeout=60)
            finally:
                job.kill()
        self.assertEqual(job.returncode, STOPPED, err)
        run = Run(out)
        self.assertEqual([back["step"] for back in run.events("rollback")], [6])
        last = run.folder / "checkpoints" / run.checkpoints()[-1]
        with h5py.File(last, "r") as file:
            self.assertEqual(list(file["skipped"][:]), WINDOWS)
            self.assertEqual(file.attrs["branch"], 1)

    def test_rollback_stays_on_its_branch(self):
        """Not to the end of a branch that was left."""
        out = self.path("out")
        old = self.train(self.synth(), out, **STEPS)
        run = self.train(
            self.synth(), out, resume=old.checkpoint(4), environment=nan(0, "step=6,hit=1"), on_bad_step="rollback",
            **(STEPS | {"save_every": 12}),
        )
        self.assertEqual([back["step"] for back in run.events("rollback")], [4])

    def test_a_stop_after_a_rollback_keeps_what_is_passed_over(self):
        self.need_h5py()
        import h5py

        out = self.path("out")
        fault = nan(0, "step=7,hit=1")
        fault["GPT_FAULT"] += ";step:kill@step=9"
        done = self.start(self.synth(), out, environment=fault, on_bad_step="rollback", save="sync", **(STEPS | {"save_every": 6}))
        self.assertNotEqual(done.code, 0)
        run = self.train(self.synth(), out, on_bad_step="rollback", **(STEPS | {"save_every": 6}))
        with h5py.File(run.checkpoint(12), "r") as file:
            self.assertEqual(list(file["skipped"][:]), WINDOWS)

    def test_a_spike_is_a_bad_step(self):
        """A learning rate that is far too high makes the loss jump; the detector has come with the checkpoint."""
        changes = {"spike_z": 6, "save_every": 30}
        out = self.path("out")
        run = self.train(self.synth(), out, steps=30, **changes)
        done = self.start(self.synth(), out, steps=60, lr=3, **changes)
        self.assert_refused(done, BAD_NUMBERS, "is a spike")
        (bad,) = run.events("bad_step")
        self.assertLess(bad["step"], 45)
        self.assertLess(run.losses()[30], 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
