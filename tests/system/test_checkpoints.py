"""Which checkpoints a run leaves, and that what it says of them is true."""

import unittest

from harness import SystemTest


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

    def test_some_windows_give_another_figure_than_all(self):
        run = self.train(self.synth(), self.path("some"), steps=2, eval_every=2, eval_windows=3, save_every=2)
        all_windows = self.evaluate(self.synth(), run.checkpoint(2))
        self.assertNotAlmostEqual(run.events("eval")[0]["val_loss"], all_windows, places=5)
        self.assertAlmostEqual(run.events("eval")[0]["val_loss"], all_windows, delta=0.5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
