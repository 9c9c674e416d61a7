"""Ranks whose weights are not the same are found before a checkpoint holds them."""

import unittest

from harness import BAD_NUMBERS, USAGE, Run, SystemTest

STEPS = {"steps": 10, "keep": 100, "log_every": 0}


def flip(rank, step):
    return {"GPT_FAULT": f"weights:flip@rank={rank},step={step}"}


class Replicas(SystemTest):
    def test_a_flipped_bit_is_found_and_named(self):
        most, none = "of rank 1 are not those of ranks 0, 2", "ranks 0, 1 hold different weights wte.weight"
        for ranks, words, more in (
            (2, none, {}),
            (3, most, {}),
            (3, most, {"reduction": "tree", "micro_batch": 4}),
            (3, "wte.weight (fp32) " + most, {"precision": "bf16"}),
        ):
            with self.subTest(ranks=ranks, **more):
                out = self.path("-".join(map(str, (ranks, *more.values()))))
                done = self.start(
                    self.synth(), out, ranks=ranks, environment=flip(1, 3), check_replicas=5, save_every=10,
                    **(STEPS | more),
                )
                self.assert_refused(done, BAD_NUMBERS, "step 5", "wte.weight", words)
                run = Run(out)
                self.assertEqual(run.checkpoints(), [])
                (found,) = run.events("replicas")
                self.assertEqual((found["step"], found["ranks"]), (5, [1] if ranks == 3 else [0, 1]))
                self.assertTrue(found["parameter"].startswith("wte.weight"))

    def test_a_copy_that_came_from_its_owner_is_compared_too(self):
        for precision in ("fp32", "bf16"):
            with self.subTest(precision=precision):
                # Rank 0 owns the first weight, and sends it anew after the next update.
                done = self.start(
                    self.synth(), self.path(precision), ranks=3, environment=flip(2, 4), zero=1, check_replicas=4,
                    precision=precision, **STEPS,
                )
                self.assert_refused(done, BAD_NUMBERS, "step 4", "wte.weight of rank 2 are not those of ranks 0, 1")

    def test_before_each_save_weights_are_compared(self):
        for save in ("async", "sync"):
            with self.subTest(save=save):
                out = self.path(save)
                changes = {"save_every": 2, "check_replicas": 1000, "save": save}
                done = self.start(self.synth(), out, ranks=3, environment=flip(0, 5), **(STEPS | changes))
                self.assert_refused(done, BAD_NUMBERS, "step 6", "rank 0 are not those of ranks 1, 2")
                self.assertEqual(Run(out).checkpoints(), ["step-00000002.h5", "step-00000004.h5"])
                again = self.train(self.synth(), out, ranks=3, **(STEPS | changes))
                self.assertEqual(max(again.losses()), 10)

    def test_what_is_the_same_stays_so(self):
        straight = self.train(self.synth(), self.path("straight"), ranks=2, **STEPS)
        for zero, precision in ((0, "fp32"), (1, "fp32"), (0, "bf16"), (1, "bf16")):
            with self.subTest(zero=zero, precision=precision):
                changes = {"check_replicas": 3, "zero": zero, "precision": precision, "save_every": 6}
                run = self.train(self.synth(), self.path(f"{zero}{precision}"), ranks=2, **(STEPS | changes))
                compared = run.events("replicas")
                self.assertEqual([event["step"] for event in compared], [3, 6, 9, 10])
                self.assertTrue(all("ranks" not in event for event in compared))
                if precision == "fp32" and zero == 0:
                    self.assertEqual(run.losses(), straight.losses())
        alone = self.train(self.synth(), self.path("alone"), check_replicas=1, **STEPS)
        self.assertEqual(alone.events("replicas"), [])

    def test_a_negative_interval_is_refused(self):
        done = self.start(self.synth(), self.path("out"), check_replicas=-1, **STEPS)
        self.assert_refused(done, USAGE, "--check-replicas -1")


if __name__ == "__main__":
    unittest.main(verbosity=2)
