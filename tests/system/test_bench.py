"""gpt_bench measures, with and without ranks, and refuses what it cannot measure."""

import unittest

from harness import USAGE, SystemTest, run

TINY_STEP = ("--preset", "char-cpu", "--context", 8, "--vocab", 64, "--global-batch", 2, "--steps", 2, "--rounds", 1)
ROW = r"(?m)^ +gpt_mpi +([0-9.]+) ms least +([0-9.]+) ms median +(\d+) tokens/s$"


class Bench(SystemTest):
    def test_a_row_of_step_times(self):
        for ranks in (None, 2):
            with self.subTest(ranks=ranks):
                done = run("gpt_bench", "step", *TINY_STEP, "--threads", 1, "--python", "none", ranks=ranks)
                self.assertEqual(done.code, 0, str(done))
                self.assertIn(f"batch 2 x 8, fp32, {ranks or 1} rank", done.out)
                self.assertRegex(done.out, ROW)

    def test_what_cannot_be_measured(self):
        for words, part in (
            ((), "step"),
            (("walk",), "walk"),
            (("step", "--preset", "gpt9"), "gpt9"),
            (("step", "--global-batch", 0), "--global-batch"),
            (("step", "--rounds", 0), "--rounds"),
        ):
            with self.subTest(words=words):
                self.assert_refused(run("gpt_bench", *words), USAGE, part)


if __name__ == "__main__":
    unittest.main(verbosity=2)
