"""Which checkpoints a run leaves, and that what it says of them is true."""

import json
import signal
import subprocess
import time
import unittest

from harness import FAILED, SAVING_FAILED, STOPPED, TINY, USAGE, Run, SystemTest, options, program


class Checkpoints(SystemTest):
    def test_the_newest_are_kept(self):
        run = self.train(self.synth(), self.path("run"), steps=10, save_every=2, keep=2)
        self.assertEqual(run.checkpoints(), ["step-00000008.h5", "step-00000010.h5"])
        self.assertEqual([event["step"] for event in run.events("save")], [2, 4, 6, 8, 10])

    def test_the_last_step_is_saved_though_no_multiple(self):
        out = self.path("run")
        run = self.train(self.synth(), out, steps=7, save_every=3, keep=9)
        self.assertEqual(run.checkpoints(), [f"step-{step:08d}.h5" for step in (3, 6, 7)])
        done = self.start(self.synth(), out, steps=7, save_every=3, keep=9)
        self.assertIn("finished", done.out, str(done))

    def test_training_goes_on_while_a_checkpoint_is_written(self):
        self.need_h5py()
        changes = {"steps": 40, "save_every": 20, "dropout": 0.1}
        for ranks, zero in ((None, "0"), (2, "0"), (2, "1")):
            with self.subTest(ranks=ranks, zero=zero):
                slow = {"GPT_FAULT": "save.open:delay=1500@step=20"}
                name = f"{ranks}-{zero}-"
                run = self.train(
                    self.synth(), self.path(name + "async"), ranks=ranks, zero=zero, environment=slow, **changes
                )
                events = [(event["event"], event["step"]) for event in run.events() if "step" in event]
                self.assertGreater(events.index(("save", 20)), events.index(("step", 21)))
                self.assertGreater(run.events("save")[0]["seconds"], 1.4)
                waiting = self.train(
                    self.synth(), self.path(name + "sync"), ranks=ranks, zero=zero, save="sync", environment=slow,
                    **changes,
                )
                events = [(event["event"], event["step"]) for event in waiting.events() if "step" in event]
                self.assertLess(events.index(("save", 20)), events.index(("step", 21)))
                self.assertGreater(waiting.events("save")[0]["stall_seconds"], 1.4)
                for step in (20, 40):
                    self.assert_same_state(run.checkpoint(step), waiting.checkpoint(step))

    def test_a_run_survives_saves_that_fail(self):
        for ranks in (None, 2):
            with self.subTest(ranks=ranks):
                fault = {"GPT_FAULT": "save.commit:throw@step=4;save.commit:throw@step=6"}
                run = self.train(
                    self.synth(), self.path(f"some{ranks}"), ranks=ranks, environment=fault, steps=10, save_every=2, keep=9
                )
                self.assertEqual(run.checkpoints(), [f"step-{step:08d}.h5" for step in (2, 8, 10)])
                failed = run.events("save_failed")
                self.assertEqual([event["step"] for event in failed], [4, 6])
                self.assertIn("fault injected at 'save.commit'", failed[0]["reason"])

    def test_too_many_failed_saves_in_a_row_end_the_run(self):
        for ranks, save in ((None, "async"), (2, "async"), (2, "sync")):
            with self.subTest(ranks=ranks, save=save):
                out = self.path(f"{ranks}-{save}")
                done = self.start(
                    self.synth(), out, ranks=ranks, environment={"GPT_FAULT": "save.commit:throw"}, steps=10**6,
                    save_every=20, save_failures=2, save=save, log_every=0,
                )
                self.assert_refused(done, SAVING_FAILED, "step-00000040.h5", "fault injected at 'save.commit'")
                self.assertEqual(done.out.count("the run goes on"), 1, str(done))
                run = Run(out)
                self.assertEqual([event["step"] for event in run.events("save_failed")], [20, 40])
                self.assertEqual(list(run.folder.glob("checkpoints/*")), [])

    def test_an_error_while_a_checkpoint_is_written_ends_the_job(self):
        """A process that runs alone finishes it; with others it is given up."""
        for ranks in (None, 2):
            with self.subTest(ranks=ranks):
                fault = {"GPT_FAULT": "save.write:delay=700@step=2,hit=1;step:throw@step=3,rank=0"}
                out = self.path(f"np{ranks}")
                done = self.start(self.synth(), out, ranks=ranks, environment=fault, steps=6, save_every=2)
                self.assert_refused(done, FAILED, "fault injected at 'step'")
                if ranks is None:
                    self.assertEqual(Run(out).checkpoints(), ["step-00000002.h5"])
                resumed = self.train(self.synth(), out, ranks=ranks, steps=6, save_every=2)
                self.assertEqual(sorted(resumed.losses()), list(range(1, 7)))

    def test_what_the_disk_damages_or_refuses_is_found_and_never_chosen(self):
        """And the run goes on: the next save is another matter."""
        for ranks, fault, words in (
            (2, "save.write:flip@step=4", "is damaged"),
            (None, "save.write:short@step=4", "is damaged"),
            (2, "save.commit:flip@step=4", "commit record"),
            (2, "save.write:full@rank=1,step=4", "No space left on device"),
            (2, "save.sync:ioerror@step=4", "Input/output error"),
        ):
            with self.subTest(fault=fault):
                out = self.path(fault.replace(":", "-"))
                run = self.train(
                    self.synth(), out, ranks=ranks, environment={"GPT_FAULT": fault}, steps=6, save_every=2, keep=9
                )
                self.assertEqual(run.checkpoints(), ["step-00000002.h5", "step-00000006.h5"])
                (failed,) = run.events("save_failed")
                self.assertEqual(failed["step"], 4)
                self.assertIn(words, failed["reason"])

    def test_an_error_of_the_thread_that_saves_is_told_with_its_own_place(self):
        """A rank that fails alone in a collective call of HDF5 ends the job, while its main thread trains."""
        out = self.path("out")
        done = self.start(
            self.synth(), out, ranks=2, environment={"GPT_FAULT": "save.open:throw@rank=1,step=50"}, steps=10**6,
            save_every=50, log_every=0,
        )
        self.assertEqual(done.code, SAVING_FAILED, str(done))
        verdict = json.loads((out / "verdict.json").read_text(encoding="utf-8"))
        self.assertEqual((verdict["rank"], verdict["phase"], verdict["step"]), (1, "save", 50))

    def test_partial_files_of_killed_saves_do_not_pile_up(self):
        out = self.path("out")
        for step in (2, 4):
            fault = {"GPT_FAULT": f"save.commit:kill@step={step}"}
            done = self.start(self.synth(), out, environment=fault, steps=8, save_every=2, save="sync")
            self.assertNotEqual(done.code, 0)
            self.assertEqual([path.name for path in out.glob("checkpoints/*.partial*")], [f"step-{step:08d}.h5.partial"])
        run = self.train(self.synth(), out, steps=8, save_every=2)
        self.assertEqual(list(out.glob("checkpoints/*.partial*")), [])
        self.assertEqual(max(run.losses()), 8)

    def test_a_folder_that_is_gone_for_a_moment_costs_a_save(self):
        out, aside = self.path("out"), self.path("aside")
        changes = {"steps": 10**6, "save_every": 20, "save_failures": 10**6, "log_every": 0}
        values = {"data": self.synth(), "out": out} | TINY | changes
        with subprocess.Popen(
            [program("gpt_mpi"), *options(values)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as job:
            try:
                self.wait_for(job, lambda: (out / "log.jsonl").exists() and Run(out).events("save"))
                out.rename(aside)
                self.wait_for(job, lambda: Run(aside).events("save_failed"))
                self.assertFalse(out.exists())
                (aside / "lease.json").unlink()
                aside.rename(out)
                failed = Run(out).events("save_failed")[-1]["step"]
                self.wait_for(job, lambda: Run(out).events("save")[-1]["step"] > failed)
                self.assertTrue((out / "lease.json").exists())
                job.send_signal(signal.SIGUSR1)
                _, err = job.communicate(timeout=60)
            finally:
                job.kill()
        self.assertEqual(job.returncode, STOPPED, err)

    def wait_for(self, job, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertIsNone(job.poll(), "it ended")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_the_interval_follows_from_what_saves_cost(self):
        for ranks, save in ((None, "sync"), (2, "async")):
            with self.subTest(ranks=ranks, save=save):
                slow = {"GPT_FAULT": "step:delay=1"}
                run = self.train(
                    self.synth(), self.path(f"np{ranks}"), ranks=ranks, environment=slow, steps=1500, save_every="auto",
                    mtbf="1s", save=save, log_every=0,
                )
                saves, intervals = run.events("save"), run.events("save_interval")
                self.assertGreaterEqual(len(saves), 2)
                self.assertEqual(saves[-1]["step"], 1500)
                self.assertEqual([event["step"] for event in intervals], [event["step"] for event in saves])
                for event in intervals:
                    self.assertEqual(event["mtbf_seconds"], 1)
                    self.assertGreater(event["cost_seconds"], 0)
                longest = max(event["seconds"] + event["verify_seconds"] for event in saves)
                self.assertGreaterEqual(intervals[-1]["seconds"], longest)

    def test_without_failures_a_short_run_is_saved_at_its_end(self):
        out = self.path("run")
        run = self.train(self.synth(), out, steps=5, save_every="auto")
        self.assertEqual([event["step"] for event in run.events("save")], [5])
        self.assertRegex((out / "config.ini").read_text(encoding="utf-8"), r"(?m)^save-every = auto$")
        for option, value in (("save_every", "-1"), ("save_every", "often"), ("mtbf", "0"), ("mtbf", "1w")):
            done = self.start(self.synth(), self.path("refused"), steps=1, **{option: value})
            self.assert_refused(done, USAGE, f"--{option.replace('_', '-')} {value}")

    def test_the_last_checkpoint_is_tried_again(self):
        fault = {"GPT_FAULT": "save.commit:throw@step=4,hit=1"}
        run = self.train(self.synth(), self.path("run"), environment=fault, steps=4, save_every=4)
        self.assertEqual(run.checkpoints(), ["step-00000004.h5"])

    def test_a_checkpoint_that_reads_back_wrong_deletes_nothing_and_is_set_aside(self):
        fault = {"GPT_FAULT": "save.verify:throw@step=4"}
        out = self.path("last")
        done = self.start(
            self.synth(), out, environment=fault, steps=4, save_every=2, keep=1, save_failures=1)
        self.assert_refused(done, SAVING_FAILED, "not what the disk holds")
        self.assertEqual(Run(out).checkpoints(), ["step-00000002.h5"])
        self.assertTrue((out / "checkpoints" / "step-00000004.h5.set-aside-1").exists())
        again = self.train(self.synth(), out, steps=4, save_every=2, keep=1)
        self.assertEqual([event["step"] for event in again.events("resume")], [2])
        self.assertEqual(again.checkpoints(), ["step-00000004.h5"])
        trusting = self.train(
            self.synth(), self.path("trusting"), environment=fault, steps=6, save_every=2, keep=1, verify_saves="false"
        )
        self.assertEqual(trusting.events("save_failed"), [])

    def test_save_every_0_saves_nothing(self):
        run = self.train(self.synth(), self.path("run"), steps=3, save_every=0)
        self.assertEqual(run.checkpoints(), [])
        self.assertEqual(run.events("save"), [])
        self.assertEqual([event["step"] for event in run.events("end")], [3])

    def test_losses_of_evaluations_are_those_of_the_checkpoints(self):
        data = self.synth()
        for ranks in (None, 2):
            with self.subTest(ranks=ranks):
                run = self.train(
                    data, self.path(f"np{ranks}"), ranks=ranks, steps=7, save_every=3, eval_every=3, eval_windows=0,
                    keep=9, dropout=0.1,
                )
                evaluations = {event["step"]: event["val_loss"] for event in run.events("eval")}
                self.assertEqual(sorted(evaluations), [3, 6, 7])
                self.assertEqual(len(set(evaluations.values())), 3)
                for step in (3, 7):
                    alone = self.evaluate(data, run.checkpoint(step))
                    self.assertAlmostEqual(alone, evaluations[step], delta=1e-6, msg=f"step {step}")

    def test_an_evaluation_rounds_weights_as_training_did(self):
        run = self.train(
            self.synth(), self.path("run"), steps=6, save_every=3, eval_every=3, eval_windows=0, keep=9,
            precision="bf16", rounding="stochastic",
        )
        for event in run.events("eval"):
            file = run.checkpoint(event["step"])
            self.assertAlmostEqual(self.evaluate(self.synth(), file), event["val_loss"], delta=1e-7)
            nearest = self.evaluate(self.synth(), file, rounding="nearest")
            self.assertNotAlmostEqual(nearest, event["val_loss"], delta=1e-6)

    def test_some_windows_give_another_figure_than_all(self):
        run = self.train(self.synth(), self.path("some"), steps=2, eval_every=2, eval_windows=3, save_every=2)
        all_windows = self.evaluate(self.synth(), run.checkpoint(2))
        self.assertNotAlmostEqual(run.events("eval")[0]["val_loss"], all_windows, places=5)
        self.assertAlmostEqual(run.events("eval")[0]["val_loss"], all_windows, delta=0.5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
