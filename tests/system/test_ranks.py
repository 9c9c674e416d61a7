"""The number of ranks and where they sit changes how fast a run is, not what it computes."""

import json
import unittest

from harness import SANITIZED, SystemTest, state

STEPS = 20 if SANITIZED else 50
RANKS = (1, 2, 3, 4, 8)
LAYOUTS = ("4", "2,2", "3,1", "1,1,1,1", "@0,1,0,1")


class Ranks(SystemTest):
    def test_losses_agree_at_every_rank_count(self):
        data = self.synth()
        runs = {
            ranks: self.train(data, self.path(f"np{ranks}"), ranks=ranks, steps=STEPS).losses() for ranks in RANKS
        }
        self.assertEqual(len(runs[1]), STEPS)
        for ranks, losses in runs.items():
            self.assertEqual(losses.keys(), runs[1].keys())
            for step, loss in losses.items():
                self.assertAlmostEqual(loss, runs[1][step], delta=1e-4, msg=f"{ranks} ranks, step {step}")

    def test_micro_batches_change_nothing(self):
        data = self.synth()
        whole = self.train(data, self.path("whole"), steps=10).losses()
        for micro in (1, 5):
            parts = self.train(data, self.path(f"micro{micro}"), steps=10, micro_batch=micro, ranks=2).losses()
            for step, loss in parts.items():
                self.assertAlmostEqual(loss, whole[step], delta=1e-4, msg=f"micro-batch {micro}, step {step}")

    def test_a_choice_of_sums_goes_with_the_run(self):
        """Made by measuring once; a resumed run takes it over, and so has the bits of one that never stopped."""
        auto = {"ranks": 3, "node_layout": "2,1", "reduction": "auto", "inter": "auto", "save_every": 5}
        out = self.path("cut")
        first = self.start(self.synth(), out, steps=5, **auto)
        self.assertEqual(first.code, 0, str(first))
        self.assertRegex(first.out, r"sums of [0-9.]+ MiB: hierarchical with ring [0-9.]+ ms, .*flat [0-9.]+ ms; ")
        choice = json.loads((out / "reduction.json").read_text(encoding="utf-8"))
        self.assertEqual((choice["situation"]["ranks"], choice["situation"]["nodes"]), ("3", "2"))
        second = self.start(self.synth(), out, steps=10, **auto)
        self.assertEqual(second.code, 0, str(second))
        self.assertNotIn("sums of", second.out)
        self.assertEqual(json.loads((out / "reduction.json").read_text(encoding="utf-8")), choice)
        third = self.start(self.synth(), out, steps=15, **auto | {"node_layout": "1,1,1"})
        self.assertEqual(third.code, 0, str(third))
        self.assertRegex(third.out, r"the last bits of sums may differ .*: nodes 3 instead of 2, placement changed")

    def test_first_gradients_agree(self):
        """After one step without clipping AdamW's first moment is (1 − β1)·gradient."""
        self.need_h5py()
        import numpy

        data = self.synth()
        arrangements = [(1, {}), (2, {}), (3, {}), (4, {}), (8, {}), (1, {"micro_batch": 5})] + [
            (4, {"reduction": "hierarchical", "node_layout": layout}) for layout in LAYOUTS
        ]
        gradients = []
        for number, (ranks, changes) in enumerate(arrangements):
            run = self.train(data, self.path(str(number)), ranks=ranks, steps=1, clip=0, save_every=1, **changes)
            gradients.append(state(run.checkpoint(1), ["m"])["m"].astype(numpy.float64))
        norm = numpy.linalg.norm(gradients[0])
        self.assertGreater(norm, 0)
        for arrangement, gradient in zip(arrangements, gradients):
            self.assertLess(numpy.linalg.norm(gradient - gradients[0]) / norm, 1e-5, arrangement)

    def test_clipping_is_by_the_norm_over_all_ranks(self):
        self.need_h5py()
        import numpy

        def clipped(ranks):
            run = self.train(self.synth(), self.path(f"np{ranks}"), ranks=ranks, steps=10, clip=0.01, save_every=10)
            norms = {event["step"]: event["grad_norm"] for event in run.events("step")}
            return norms, state(run.checkpoint(10), ["params"])["params"].astype(numpy.float64)

        norms, weights = clipped(1)
        self.assertGreater(min(norms.values()), 0.1, "nothing was clipped")
        for ranks in (2, 4):
            other_norms, other_weights = clipped(ranks)
            self.assertEqual(other_norms.keys(), norms.keys())
            for step, norm in other_norms.items():
                self.assertLess(abs(norm / norms[step] - 1), 1e-5, f"{ranks} ranks, step {step}")
            difference = numpy.linalg.norm(other_weights - weights) / numpy.linalg.norm(weights)
            self.assertLess(difference, 1e-5, f"{ranks} ranks")

    def test_one_checkpoint_has_one_validation_loss(self):
        data = self.synth()
        file = self.train(data, self.path("run"), ranks=2, steps=5, save_every=5).checkpoint(5)
        losses = {}
        for ranks in (1, 2, 4):
            losses[ranks, "flat"] = self.evaluate(data, file, ranks=ranks)
        for layout in LAYOUTS:
            losses[4, layout] = self.evaluate(data, file, ranks=4, reduction="hierarchical", node_layout=layout)
        for arrangement, loss in losses.items():
            self.assertAlmostEqual(loss, losses[1, "flat"], delta=1e-6, msg=arrangement)

    def test_more_ranks_than_sequences_are_refused(self):
        done = self.start(self.synth(), self.path("run"), ranks=4, global_batch=2, steps=1)
        self.assert_refused(done, 2, "global", "2", "4")
        self.assertFalse(self.path("run").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
