"""A run that was cut short and resumed is the run that never stopped."""

import re
import shutil
import unittest

from harness import TINY, SystemTest, run

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
        for ranks, precision, rounding in (
            (1, "fp32", "nearest"),
            (2, "fp32", "nearest"),
            (3, "fp32", "nearest"),
            (2, "bf16", "nearest"),
            (2, "bf16", "stochastic"),
        ):
            name = f"{ranks}{precision}{rounding}"
            with self.subTest(name):
                hard = HARD | {"precision": precision, "rounding": rounding}
                straight = self.train(
                    self.data(), self.path(f"straight{name}"), ranks=ranks, steps=20, save_every=20, **hard
                )
                out = self.path(f"cut{name}")
                cut = self.train(self.data(), out, ranks=ranks, steps=10, save_every=10, **hard)
                epochs = {epoch for by_rank in cut.windows().values() for _, _, epoch in sum(by_rank.values(), [])}
                self.assertGreater(len(epochs), 1, "no epoch ended")
                resumed = self.train(self.data(), out, ranks=ranks, steps=20, save_every=10, **hard)
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

        straight = self.train(self.data(), self.path("straight"), ranks=4, steps=20)
        expected = consumed(straight)
        self.assertEqual(len(expected), 20)
        saved = self.train(self.data(), self.path("saved"), ranks=4, steps=10, save_every=10)
        for ranks in (3, 1, 8):
            with self.subTest(ranks=ranks):
                out = self.path(f"np{ranks}")
                shutil.copytree(saved.folder, out)
                resumed = self.train(self.data(), out, ranks=ranks, steps=20, save_every=10)
                event = resumed.events("resume")[-1]
                self.assertEqual((event["step"], event["ranks"]), (10, ranks))
                self.assertEqual(consumed(resumed), expected)
                for step, loss in resumed.losses().items():
                    self.assertAlmostEqual(loss, straight.losses()[step], delta=1e-4)

    def test_a_killed_run_repeats_and_loses_nothing(self):
        straight = self.train(self.data(), self.path("straight"), ranks=2, steps=16, save_every=5)
        out = self.path("killed")
        killed = self.start(
            self.data(),
            out,
            ranks=2,
            steps=16,
            save_every=5,
            save="sync",
            environment={"GPT_FAULT": "step:kill@rank=1,step=13"},
        )
        self.assertNotEqual(killed.code, 0, str(killed))
        resumed = self.train(self.data(), out, ranks=2, steps=16, save_every=5)
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

    def test_other_seeds_and_tokenizers_are_refused(self):
        out = self.path("run")
        self.train(self.data(), out, steps=2, save_every=2)
        done = self.start(self.data(), out, steps=4, seed=8)
        self.assert_refused(done, 2, "seed: 7 in the checkpoint, 8 now")
        packed = {}
        for name, text in (("abc", "abcdefgh\n"), ("xyz", "stuvwxyz\n")):
            source = self.path(name + ".txt")
            source.write_text(text * 400, encoding="utf-8")
            packed[name] = self.path(name)
            made = run(
                "gpt_data", "pack", "--input", source, "--out", packed[name], "--tokenizer", "chars", "--shards", 4
            )
            self.assertEqual(made.code, 0, str(made))
        self.train(packed["abc"], self.path("run2"), steps=2, save_every=2)
        done = self.start(packed["xyz"], self.path("run2"), steps=4)
        self.assert_refused(done, 2, "tokenizer: ", "dataset: ")
        self.assertNotIn("vocab", done.err)

    def test_batch_rate_and_intervals_may_change_and_windows_stay_exactly_once(self):
        out = self.path("run")
        parts = [
            {"steps": 4, "global_batch": 12},
            {"steps": 9, "global_batch": 8, "lr": 1e-3, "save_every": 5, "ranks": 3},
            {"steps": 12, "global_batch": 20, "micro_batch": 2, "save_every": 1},
        ]
        for part in parts:
            changed = self.train(self.data(), out, **({"save_every": 4, "keep": 9} | part))
        self.assertEqual([event["step"] for event in changed.events("resume")], [4, 9])
        self.assertEqual(changed.checkpoints(), [f"step-{step:08d}.h5" for step in (4, 5, 9, 10, 11, 12)])
        rates = {event["step"]: event["lr"] for event in changed.events("step")}
        self.assertEqual([rates[step] for step in (9, 10)], [1e-3, 3e-3])

        def by_lane(run):
            lanes = {}
            for _, by_rank in sorted(run.windows().items()):
                for rank in sorted(by_rank):
                    for lane, index, epoch in by_rank[rank]:
                        lanes.setdefault(lane, []).append((epoch, index))
            return lanes

        straight = by_lane(self.train(self.data(), self.path("straight"), steps=20))
        consumed = by_lane(changed)
        self.assertEqual(sorted(consumed), [0, 1, 2, 3])
        for lane, windows in consumed.items():
            self.assertEqual(len(windows), 4 * 3 + 5 * 2 + 3 * 5)
            self.assertEqual(windows, straight[lane][: len(windows)], f"lane {lane}")
            self.assertEqual(len(set(windows)), len(windows), f"lane {lane}")
            self.assertGreater(windows[-1][0], 0, "no epoch ended")

    def test_epochs_set_the_number_of_steps(self):
        done = self.start(self.data(), self.path("told"), steps=1)
        windows = int(re.search(r"(\d+) windows an epoch", done.out)[1])
        for epochs, out in ((1, self.path("one")), (2.5, self.path("more"))):
            epoch_run = self.train(self.data(), out, epochs=epochs, steps=None)
            steps = int(epochs * windows / TINY["global_batch"])
            self.assertEqual(sorted(epoch_run.losses()), list(range(1, steps + 1)))
            self.assertEqual([event["step"] for event in epoch_run.events("end")], [steps])
        first = [w for by_rank in epoch_run.windows().values() for w in sum(by_rank.values(), []) if w[2] == 0]
        self.assertEqual(len(set(first)), windows, "an epoch is every window")
        self.assertEqual(len(first), windows, "once")
        self.assert_refused(self.start(self.data(), self.path("both"), steps=3, epochs=1), 2, "--steps", "--epochs")

    def test_epochs_count_from_the_beginning_whatever_the_batches_were(self):
        data, out = self.synth(tokens=3_000, shards=4), self.path("run")
        windows = int(re.search(r"(\d+) windows an epoch", self.start(data, self.path("told"), steps=1).out)[1])
        self.train(data, out, steps=4, save_every=4)
        run = self.train(data, out, steps=None, epochs=2, global_batch=4, save_every=4)
        consumed = [window for by_rank in run.windows().values() for window in sum(by_rank.values(), [])]
        self.assertEqual(len(consumed), 2 * windows)
        self.assertEqual(len(set(consumed)), 2 * windows)

    def test_resuming_an_older_checkpoint_begins_a_branch_that_later_starts_follow(self):
        self.need_h5py()
        import h5py

        def place(file):
            with h5py.File(file, "r") as checkpoint:
                return tuple(int(checkpoint.attrs[name]) for name in ("step", "branch", "parent_step"))

        out = self.path("run")
        run = self.train(self.data(), out, steps=12, save_every=4)
        run_id = self.run_id(run.checkpoint(12))
        old, trunk = run.checkpoint(8).read_bytes(), run.losses()
        self.assertEqual(place(run.checkpoint(12)), (12, 0, -1))
        self.train(self.data(), out, steps=8, save_every=2, resume=run.checkpoint(4), lr=1e-4, keep=9)
        self.assertEqual(run.events("resume")[-1]["step"], 4)
        self.assertEqual(place(run.checkpoint(8)), (8, 1, 4))
        kept = [path.read_bytes() for path in (out / "checkpoints").iterdir()]
        self.assertIn(old, kept, "the trunk's step 8 was overwritten")
        # Without --lr the rate is that of the checkpoint: the branch's.
        self.train(self.data(), out, steps=10, save_every=2, lr=None, keep=9)
        self.assertEqual(run.events("resume")[-1]["step"], 8)
        self.assertEqual(run.events("step")[-1]["lr"], 1e-4)
        self.assertEqual(place(run.checkpoint(10)), (10, 1, 4))
        self.assertEqual(self.run_id(run.checkpoint(10)), run_id)
        self.assertEqual(place(run.checkpoint(12)), (12, 0, -1))
        self.assertNotEqual(run.losses()[8], trunk[8])

    def run_id(self, file):
        import h5py

        with h5py.File(file, "r") as checkpoint:
            return checkpoint.attrs["run_id"]

    def test_resume_none_does_not_destroy_a_run(self):
        self.need_h5py()
        out = self.path("run")
        run = self.train(self.data(), out, steps=4, save_every=2)
        before = {name: (out / "checkpoints" / name).read_bytes() for name in run.checkpoints()}
        first = self.run_id(run.checkpoint(4)), run.losses()
        self.train(self.data(), out, steps=4, save_every=2, resume="none", lr=1e-4)
        kept = {path.read_bytes() for path in (out / "checkpoints").iterdir()}
        self.assertLessEqual(set(before.values()), kept)
        self.assertEqual(run.events("resume"), [])
        self.assertNotEqual(self.run_id(run.checkpoint(4)), first[0])
        self.assertNotEqual(run.losses()[4], first[1][4])
        # The newest is the new run's.
        self.train(self.data(), out, steps=6, save_every=6, lr=None)
        self.assertEqual(run.events("resume")[-1]["step"], 4)
        self.assertEqual(run.events("step")[-1]["lr"], 1e-4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
