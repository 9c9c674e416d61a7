"""--reduction tree: training has the same bits on every number of ranks."""

import shutil
import unittest

from harness import SystemTest

# 9 leaves, which few rank counts divide.
LEAVES = {"reduction": "tree", "global_batch": 36, "micro_batch": 4, "dropout": 0.2, "bucket_mb": 0.05}


class Tree(SystemTest):
    def data(self):
        return self.synth(tokens=8_000, shards=4)

    def assert_same_run(self, first, second, step):
        self.assertEqual(first.losses(), second.losses())
        norms = [[event["grad_norm"] for event in run.events("step")] for run in (first, second)]
        self.assertEqual(*norms)
        self.assert_same_state(first.checkpoint(step), second.checkpoint(step))

    def test_every_number_of_ranks_gives_the_same_bits(self):
        self.need_h5py()
        alone = self.train(self.data(), self.path("alone"), steps=10, save_every=10, **LEAVES)
        for ranks, changes in (
            (2, {}),
            (3, {"zero": "1"}),
            (4, {"node_layout": "@0,1,0,1", "bucket_mb": 25}),
            (5, {"node_layout": "3,2"}),
            (8, {"zero": "1"}),
        ):
            with self.subTest(ranks=ranks, **changes):
                run = self.train(
                    self.data(),
                    self.path(f"np{ranks}"),
                    ranks=ranks,
                    steps=10,
                    save_every=10,
                    **(LEAVES | changes),
                )
                self.assert_same_run(alone, run, 10)

    def test_rounding_draws_the_same_on_every_number_of_ranks(self):
        self.need_h5py()
        rounding = LEAVES | {"precision": "bf16", "rounding": "stochastic", "steps": 6, "save_every": 3, "keep": 9}
        alone = self.train(self.data(), self.path("alone"), **rounding)
        nearest = self.train(self.data(), self.path("nearest"), **(rounding | {"rounding": "nearest"}))
        self.assertNotEqual(alone.losses(), nearest.losses())
        for ranks, changes in ((2, {}), (2, {"zero": "1"}), (3, {"zero": "1", "bucket_mb": 25})):
            with self.subTest(ranks=ranks, **changes):
                run = self.train(self.data(), self.path(f"{ranks}{changes}"), ranks=ranks, **(rounding | changes))
                self.assert_same_run(alone, run, 6)
        resumed = self.train(
            self.data(), self.path("resumed"), ranks=2, zero="1", resume=alone.checkpoint(3), **rounding
        )
        self.assertEqual(resumed.events("resume")[-1]["step"], 3)
        self.assert_same_state(alone.checkpoint(6), resumed.checkpoint(6))

    def test_a_run_resumed_on_other_ranks_has_the_same_bits(self):
        self.need_h5py()
        alone = self.train(self.data(), self.path("alone"), steps=10, save_every=5, **LEAVES)
        for ranks in (2, 3):
            out = self.path(f"np{ranks}")
            shutil.copytree(alone.folder, out)
            resumed = self.train(
                self.data(), out, ranks=ranks, steps=10, save_every=5, resume=alone.checkpoint(5), **LEAVES
            )
            self.assertEqual(resumed.events("resume")[-1]["step"], 5)
            self.assert_same_state(alone.checkpoint(10), resumed.checkpoint(10))

    def test_its_checkpoints_are_evaluated_however_the_optimizer_was_to_be_divided(self):
        run = self.train(self.data(), self.path("run"), steps=2, save_every=2, **LEAVES)
        alone = self.evaluate(self.data(), run.checkpoint(2))
        divided = self.evaluate(self.data(), run.checkpoint(2), ranks=2, zero="node")
        self.assertAlmostEqual(alone, divided, places=6)

    def test_a_short_last_leaf_counts_as_one(self):
        self.need_h5py()
        short = LEAVES | {"micro_batch": 5}
        runs = [
            self.train(self.data(), self.path(f"np{ranks}"), ranks=ranks, steps=5, save_every=5, **short)
            for ranks in (1, 3)
        ]
        self.assert_same_run(*runs, 5)

    def test_fewer_leaves_than_ranks_are_refused_with_what_to_do(self):
        done = self.start(self.data(), self.path("run"), ranks=3, steps=5, **(LEAVES | {"micro_batch": 18}))
        self.assert_refused(done, 2, "--reduction tree", "2 leaves", "3 ranks", "--micro-batch 12 or less")


if __name__ == "__main__":
    unittest.main(verbosity=2)
