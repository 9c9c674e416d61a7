"""A run that was cut short and resumed is the run that never stopped."""

import shutil
import unittest

from harness import SystemTest

# Dropout draws random numbers, steps have several micro-batches, the warm-up ends after the cut; the dataset is so
# small that epochs end inside both halves.
HARD = {"dropout": 0.2, "micro_batch": 4, "warmup": 15, "schedule": "constant"}


class Resume(SystemTest):
    def data(self):
        return self.synth(tokens=3_000, shards=4)

    def assert_same_run(self, straight, resumed):
        self.assertEqual(straight.losses(), resumed.losses())
        self.assert_same_state(straight.checkpoint(20), resumed.checkpoint(20))

    def test_ten_and_ten_are_twenty(self):
        self.need_h5py()
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                straight = self.train(
                    self.data(), self.path(f"straight{ranks}"), ranks=ranks, steps=20, save_every=20, **HARD
                )
                out = self.path(f"cut{ranks}")
                cut = self.train(self.data(), out, ranks=ranks, steps=10, save_every=10, log_samples=True, **HARD)
                epochs = {epoch for by_rank in cut.windows().values() for _, _, epoch in sum(by_rank.values(), [])}
                self.assertGreater(len(epochs), 1, "no epoch ended")
                resumed = self.train(self.data(), out, ranks=ranks, steps=20, save_every=10, **HARD)
                self.assertEqual([event["step"] for event in resumed.events("resume")], [10])
                self.assert_same_run(straight, resumed)

    def test_a_schedule_goes_on_where_it_was(self):
        """The newest checkpoint is lost, and the run resumes from the one before."""
        self.need_h5py()
        for schedule in ("cosine", "linear", "wsd"):
            with self.subTest(schedule=schedule):
                changes = HARD | {"schedule": schedule, "warmup": 3}
                out = self.path(schedule)
                run = self.train(self.data(), out, steps=20, save_every=10, **changes)
                losses, kept = run.losses(), self.path(schedule + ".h5")
                shutil.move(run.checkpoint(20), kept)
                again = self.train(self.data(), out, steps=20, save_every=10, **changes)
                self.assertEqual([event["step"] for event in again.events("resume")], [10])
                self.assertEqual(losses, again.losses())
                self.assert_same_state(kept, again.checkpoint(20))

    def test_other_rank_counts_consume_the_same_windows(self):
        def consumed(run):
            return {step: sorted(sum(by_rank.values(), [])) for step, by_rank in run.windows().items()}

        straight = self.train(self.data(), self.path("straight"), ranks=4, steps=20, log_samples=True)
        expected = consumed(straight)
        self.assertEqual(len(expected), 20)
        saved = self.train(self.data(), self.path("saved"), ranks=4, steps=10, save_every=10, log_samples=True)
        for ranks in (3, 1, 8):
            with self.subTest(ranks=ranks):
                out = self.path(f"np{ranks}")
                shutil.copytree(saved.folder, out)
                resumed = self.train(self.data(), out, ranks=ranks, steps=20, save_every=10, log_samples=True)
                event = resumed.events("resume")[-1]
                self.assertEqual((event["step"], event["ranks"]), (10, ranks))
                self.assertEqual(consumed(resumed), expected)
                for step, loss in resumed.losses().items():
                    self.assertAlmostEqual(loss, straight.losses()[step], delta=1e-4)

    def test_a_killed_run_repeats_and_loses_nothing(self):
        straight = self.train(self.data(), self.path("straight"), ranks=2, steps=16, log_samples=True, save_every=5)
        out = self.path("killed")
        killed = self.start(
            self.data(),
            out,
            ranks=2,
            steps=16,
            log_samples=True,
            save_every=5,
            environment={"GPT_FAULT": "step:kill@rank=1,step=13"},
        )
        self.assertNotEqual(killed.code, 0, str(killed))
        resumed = self.train(self.data(), out, ranks=2, steps=16, log_samples=True, save_every=5)
        self.assertEqual([event["step"] for event in resumed.events("resume")], [10])
        self.assertEqual(resumed.windows(), straight.windows())
        self.assertEqual(resumed.losses(), straight.losses())

    def test_another_model_or_dataset_is_refused_field_by_field(self):
        out = self.path("run")
        run = self.train(self.data(), out, steps=2, save_every=2)
        before = run.checkpoint(2).read_bytes()
        for field, changes in {"width": {"width": 64}, "layers": {"layers": 3}, "context": {"context": 16}}.items():
            done = self.start(self.data(), out, steps=4, **changes)
            self.assert_refused(done, 2, field, str(changes[field]))
        other = self.synth(tokens=3_000, shards=4, seed=99)
        self.assert_refused(self.start(other, out, steps=4), 2, "dataset")
        self.assertEqual(run.checkpoint(2).read_bytes(), before)

    def test_resume_none_does_not_destroy_a_run(self):
        out = self.path("run")
        run = self.train(self.data(), out, steps=4, save_every=2)
        before = {name: (out / "checkpoints" / name).read_bytes() for name in run.checkpoints()}
        self.start(self.data(), out, steps=4, save_every=2, resume="none")
        kept = {path.read_bytes() for path in (out / "checkpoints").iterdir()}
        self.assertLessEqual(set(before.values()), kept)


if __name__ == "__main__":
    unittest.main(verbosity=2)
