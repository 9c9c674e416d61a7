"""The whole path in seconds: a corpus, training on two ranks, resuming, a sample."""

import unittest

from harness import Run, SystemTest, run


class Smoke(SystemTest):
    def test_a_model_learns_resumes_and_speaks(self):
        data = self.synth()
        out = self.path("run")
        trained = self.train(data, out, ranks=2, steps=60, save_every=30, eval_every=30, eval_windows=0)
        losses = trained.losses()
        self.assertEqual(sorted(losses), list(range(min(losses), min(losses) + 60)))
        values = [losses[step] for step in sorted(losses)]
        self.assertLess(sum(values[-10:]) / 10, 0.8 * values[0])
        self.assertEqual(trained.checkpoints(), ["step-00000030.h5", "step-00000060.h5"])

        self.train(data, out, ranks=2, steps=80, save_every=30)
        self.assertEqual([event["step"] for event in trained.events("resume")], [60])
        self.assertEqual(len(trained.losses()), 80)

        sample = run("gpt_sample", "--checkpoint", out, "--prompt", "the", "--tokens", 40, "--seed", 1)
        self.assertEqual(sample.code, 0, str(sample))
        self.assertTrue(sample.out.lstrip().startswith("the"), str(sample))
        self.assertGreater(len(sample.out), 30)

    def test_bf16_follows_fp32_and_either_resumes_the_other(self):
        data, losses = self.synth(), {}
        for precision in ("fp32", "bf16"):
            run = self.train(data, self.path(precision), steps=40, save_every=40, precision=precision)
            losses[precision] = [loss for _, loss in sorted(run.losses().items())]
        far = max(abs(one - other) for one, other in zip(losses["fp32"], losses["bf16"], strict=True))
        self.assertLess(far, 0.02)
        self.assertGreater(far, 0.0)
        for precision in ("fp32", "bf16"):
            run = self.train(data, self.path(precision), steps=45, precision={"fp32": "bf16", "bf16": "fp32"}[precision])
            self.assertEqual([event["step"] for event in run.events("resume")], [40])
            last = [run.losses()[step] for step in sorted(run.losses())]
            self.assertLess(abs(last[-1] - last[39]), 0.3)

    def test_bf16_without_its_instructions_is_right_and_warned_of(self):
        data, losses, warning = self.synth(), {}, "warning: --precision bf16: this CPU has no instructions"
        for limit in ("DEFAULT", "AVX512_CORE", "AVX2"):
            out = self.path(limit)
            done = self.start(data, out, steps=10, precision="bf16", environment={"ONEDNN_MAX_CPU_ISA": limit})
            self.assertEqual(done.code, 0, str(done))
            if limit == "AVX2":
                self.assertEqual(done.out.count(warning), 1, str(done))
            losses[limit] = [loss for _, loss in sorted(Run(out).losses().items())]
        for limit in ("AVX512_CORE", "AVX2"):
            far = max(abs(one - other) for one, other in zip(losses["DEFAULT"], losses[limit], strict=True))
            self.assertLess(far, 0.02, limit)
        wide = self.start(data, self.path("fp32"), steps=2, environment={"ONEDNN_MAX_CPU_ISA": "AVX2"})
        self.assertNotIn("no instructions", wide.out)

    def test_a_synthetic_corpus_says_the_lowest_loss(self):
        data = self.synth()
        inspected = run("gpt_data", "inspect", "--data", data)
        self.assertEqual(inspected.code, 0, str(inspected))
        self.assertIn("entropy", inspected.text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
