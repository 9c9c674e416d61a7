"""gpt_sample: what it draws, what it refuses, and that a failing sample costs no model."""

import os
import unittest

from harness import BAD_NUMBERS, DAMAGED, USAGE, SystemTest, run


class Sampling(SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = cls.folder / "text.txt"
        text.write_text("the cat sat on the mat. the dog sat on the log.\n" * 200, encoding="utf-8")
        cls.data = cls.folder / "data"
        made = run("gpt_data", "pack", "--input", text, "--out", cls.data, "--tokenizer", "chars", "--shards", 4)
        if made.code != 0:
            raise AssertionError(str(made))
        cls.model = cls.folder / "model"

    def setUp(self):
        if not self.model.exists():
            self.train(self.data, self.model, steps=80, save_every=80)

    def sample(self, *arguments, **more):
        return run("gpt_sample", "--checkpoint", self.model, *arguments, **more)

    def drawn(self, *arguments):
        done = self.sample(*arguments)
        self.assertEqual(done.code, 0, str(done))
        return done.out

    def test_greedy_is_repeatable_and_ignores_the_seed(self):
        first = self.drawn("--prompt", "the ", "--tokens", 60, "--temperature", 0, "--seed", 1)
        again = self.drawn("--prompt", "the ", "--tokens", 60, "--temperature", 0, "--seed", 2)
        self.assertEqual(first, again)
        self.assertIn("the ", first)

    def test_seeds_decide_samples(self):
        draws = {
            self.drawn("--prompt", "the ", "--tokens", 60, "--temperature", 1.5, "--seed", seed) for seed in (1, 2, 3)
        }
        self.assertEqual(len(draws), 3)
        self.assertIn(self.drawn("--prompt", "the ", "--tokens", 60, "--temperature", 1.5, "--seed", 1), draws)

    def test_a_checkpoint_file_is_as_good_as_a_run_folder(self):
        file = next((self.model / "checkpoints").glob("step-*.h5"))
        words = ("--prompt", "the ", "--tokens", 20, "--temperature", 0)
        done = run("gpt_sample", "--checkpoint", file, *words)
        self.assertEqual(done.code, 0, str(done))
        self.assertEqual(done.out, self.drawn(*words))

    def test_bad_values_are_refused(self):
        for option, value in (
            ("--temperature", "-1"),
            ("--temperature", "nan"),
            ("--temperature", "inf"),
            ("--top-k", "-3"),
            ("--top-p", "1.5"),
            ("--top-p", "nan"),
            ("--top-p", "-0.1"),
            ("--tokens", "-1"),
            ("--count", "-1"),
            ("--seed", "-1"),
            ("--seed", "1.5"),
            ("--seed", "18446744073709551616"),
        ):
            with self.subTest(option=option, value=value):
                self.assert_refused(self.sample("--prompt", "the", option, value), USAGE, option)

    def test_top_k_at_its_ends(self):
        everything = self.drawn("--prompt", "the ", "--tokens", 30, "--seed", 5)
        for top_k in ("0", "99999"):
            self.assertEqual(self.drawn("--prompt", "the ", "--tokens", 30, "--seed", 5, "--top-k", top_k), everything)
        greedy = self.drawn("--prompt", "the ", "--tokens", 30, "--temperature", 0)
        self.assertEqual(self.drawn("--prompt", "the ", "--tokens", 30, "--top-k", 1), greedy)

    def test_characters_that_the_model_does_not_know(self):
        done = self.sample("--prompt", "the é€", "--tokens", 5)
        self.assert_refused(done, USAGE, "é")
        self.assertRegex(done.text, r"\b[45]\b", "the position")

    def test_an_empty_prompt(self):
        done = self.sample("--prompt", "", "--tokens", 20, "--seed", 1)
        self.assertEqual(done.code, 0, str(done))
        self.assertGreaterEqual(len(done.out), 20)

    def test_a_prompt_longer_than_the_context_keeps_its_end(self):
        prompt = ("the cat sat on the mat. " * 10)[:96]
        words = ("--tokens", 64, "--temperature", 0)
        done = self.sample("--prompt", prompt, *words)
        self.assertEqual(done.code, 0, str(done))
        self.assertRegex(done.text, r"(?i)context|last")
        self.assertIn(" prompt_tokens=32 ", done.err)
        short = self.sample("--prompt", prompt[-32:], *words)
        self.assertEqual(short.code, 0, str(short))
        self.assertEqual(done.out.rstrip("\n")[-64:], short.out.rstrip("\n")[-64:])

    def test_a_prompt_file_of_three_contexts_and_two_contexts_more(self):
        prompt = self.path("prompt.txt")
        prompt.write_text(("the cat sat on the mat. the dog " * 3)[:96], encoding="utf-8")
        done = self.sample("--prompt-file", prompt, "--tokens", 64, "--temperature", 0)
        self.assertEqual(done.code, 0, str(done))
        self.assertEqual(len(done.out), 96 + 64 + 1)
        self.assertEqual(done.out[:96], prompt.read_text(encoding="utf-8"))
        self.assertEqual(done.out, self.drawn("--prompt", done.out[:96], "--tokens", 64, "--temperature", 0))
        self.assert_refused(self.sample("--prompt-file", prompt, "--prompt", "a"), USAGE, "--prompt-file")
        self.assert_refused(self.sample("--prompt-file", self.path("gone")), USAGE, "--prompt-file", "gone")
        self.assert_refused(self.sample("--prompt-file", ""), USAGE, "--prompt-file", "name a file")

    def test_a_prompt_file_is_read_as_packing_reads_text(self):
        prompt = self.path("prompt.txt")
        words = ("--tokens", 20, "--temperature", 0)
        expected = self.drawn("--prompt", "the cat.\nthe dog", *words)
        prompt.write_bytes(b"\xef\xbb\xbfthe cat.\r\nthe dog")
        self.assertEqual(self.drawn("--prompt-file", prompt, *words), expected)
        prompt.write_bytes(b"the \xe9")
        self.assert_refused(self.sample("--prompt-file", prompt), USAGE, "not valid UTF-8 at byte 4")
        with open(prompt, "wb") as file:
            file.truncate((64 << 20) + 1)
        self.assert_refused(self.sample("--prompt-file", prompt), USAGE, prompt, "at most 67108864")
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        for path in (pipe, "/dev/null", self.folder):
            self.assert_refused(self.sample("--prompt-file", path), USAGE, path, "not a regular file")

    def test_tokens_that_the_tokenizer_lacks_are_never_drawn(self):
        """A model may have more tokens than its dataset; at a high temperature it would draw them all."""
        out = self.path("run")
        done = self.start(self.data, out, steps=1, save_every=1, vocab=300, sample_tokens=300)
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("vocabulary 300", done.out)
        self.assertNotIn("no sample", done.text)
        self.assertGreaterEqual(len(done.out.split("sample:\n", 1)[1]), 300)
        known = set("the cat sat on the mat. the dog sat on the log.\n")
        hot = ("--temperature", 5)
        for more in (hot, (*hot, "--top-k", 299), ("--top-p", 0.99), ("--temperature", 0)):
            drawn = run("gpt_sample", "--checkpoint", out, "--prompt", "the ", "--tokens", 400, *more)
            self.assertEqual(drawn.code, 0, str(drawn))
            self.assertEqual(len(drawn.out), 4 + 400 + 1)
            self.assertLessEqual(set(drawn.out), known)

    def test_samples_do_not_depend_on_their_number(self):
        """Eleven are more than are drawn side by side, and 80 tokens go beyond the context."""
        for precision in ("fp32", "bf16"):
            words = ("--prompt", "the ", "--tokens", 80, "--seed", 7, "--precision", precision)
            all_of_them = self.drawn(*words, "--count", 11)
            self.assertEqual(all_of_them.count("\n---\n"), 10)
            for count in (1, 2, 9):
                some = self.drawn(*words, "--count", count)
                self.assertTrue(all_of_them.startswith(some[:-1]), f"{precision}, {count} samples: {some}")

    def test_precision(self):
        words = ("--prompt", "the ", "--tokens", 40, "--temperature", 0)
        exact = self.drawn(*words, "--precision", "fp32")
        self.assertEqual(exact, self.drawn(*words), "the model was trained in fp32")
        rounded = self.sample(*words, "--precision", "bf16")
        self.assertEqual(rounded.code, 0, str(rounded))
        self.assertIn("precision=bf16", rounded.err)
        self.assertEqual(len(rounded.out), len(exact))
        self.assert_refused(self.sample(*words, "--precision", "fp8"), USAGE, "--precision")
        out = self.path("run")
        self.train(self.data, out, steps=1, save_every=1, precision="bf16")
        done = run("gpt_sample", "--checkpoint", out, *words)
        self.assertIn("precision=bf16", done.err)

    def test_speed(self):
        done = self.sample("--prompt", "the ", "--tokens", 20, "--count", 3, "--threads", 1)
        self.assertEqual(done.code, 0, str(done))
        found = dict(word.split("=") for word in done.err.strip().removeprefix("speed: ").split())
        self.assertEqual(found["prompt_tokens"], "4")
        self.assertEqual((found["generated_tokens"], found["samples"], found["threads"]), ("60", "3", "1"))
        rate = int(found["generated_tokens"]) / float(found["generated_seconds"])
        self.assertAlmostEqual(float(found["generated_tokens_per_second"]), rate, delta=0.01 * rate)
        for words in (("--speed", "false"), ("--tokens", 0), ("--count", 0)):
            self.assertEqual(self.sample("--prompt", "the ", *words).err, "")
        self.assertEqual(self.drawn("--prompt", "the ", "--count", 0), "")

    def test_count(self):
        one = self.drawn("--prompt", "the ", "--tokens", 20, "--seed", 1)
        three = self.drawn("--prompt", "the ", "--tokens", 20, "--seed", 1, "--count", 3)
        self.assertGreater(len(three), 2 * len(one))

    def test_what_is_not_a_checkpoint(self):
        text = self.path("text.h5")
        text.write_text("no HDF5 at all", encoding="utf-8")
        self.assert_refused(run("gpt_sample", "--checkpoint", text, "--prompt", "a"), DAMAGED, text.name)
        gone = self.path("gone")
        done = run("gpt_sample", "--checkpoint", gone, "--prompt", "a")
        self.assertIn(done.code, (USAGE, DAMAGED), str(done))
        self.assertIn(gone.name, done.text)
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        for path in (pipe, "/dev/null"):
            done = run("gpt_sample", "--checkpoint", path, "--prompt", "a")
            self.assert_refused(done, USAGE, f"--checkpoint {path} is not a regular file")

    def test_a_model_whose_logits_are_not_finite(self):
        """Decay by nearly 10⁹ a step: after two steps, which are still saved, products leave f32."""
        out = self.path("run")
        done = self.start(self.data, out, steps=3, save_every=1, lr=9e5, weight_decay=999, warmup=0)
        self.assertEqual(done.code, BAD_NUMBERS, str(done))
        for more in (("--temperature", 0), ("--top-k", 3)):
            drawn = run("gpt_sample", "--checkpoint", out, "--prompt", "the ", "--tokens", 5, *more)
            self.assert_refused(drawn, BAD_NUMBERS, "logit of token", "--checkpoint")

    def test_a_failing_sample_at_the_end_loses_no_model(self):
        out = self.path("run")
        done = self.start(
            self.data, out, steps=4, save_every=4, sample_tokens=20, environment={"GPT_FAULT": "sample:throw"}
        )
        self.assertEqual(done.code, 0, str(done))
        self.assertRegex(done.text, r"(?i)sample")
        self.assertIn("fault injected", done.text)
        self.assertTrue((out / "checkpoints" / "step-00000004.h5").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
