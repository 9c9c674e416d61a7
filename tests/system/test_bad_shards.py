"""Datasets that do not fit, or are damaged: all ranks stop together and say which file, and why."""

import fcntl
import unittest

from harness import DAMAGED, FAILED, USAGE, SystemTest, run


class Unfit(SystemTest):
    def pack(self, text, name="data", **changes):
        source = self.path("text.txt")
        source.write_bytes(text)
        data = self.path(name)
        values = {"tokenizer": "bytes", "shards": 1, "val-fraction": 0.1} | changes
        words = [word for key, value in values.items() for word in (f"--{key}", value)]
        return data, run("gpt_data", "pack", "--input", source, "--out", data, *words)

    def test_a_dataset_too_small_for_a_window(self):
        data, made = self.pack(b"abcdefghij" * 20, **{"shards": 8})
        self.assertEqual(made.code, 0, str(made))
        done = self.start(data, self.path("out"), ranks=8, global_batch=8, steps=1)
        self.assert_refused(done, USAGE, "33", "tokens")
        self.assertFalse(self.path("out").exists())

    def test_a_validation_part_too_small_for_a_window(self):
        data, made = self.pack(b"abcdefghij" * 40, **{"val-fraction": 0.05})
        self.assertEqual(made.code, 0, str(made))
        done = self.start(data, self.path("out"), global_batch=2, steps=1, eval_every=1)
        self.assert_refused(done, USAGE, "val", "33")

    def test_every_token_of_a_shard_is_used_or_counted(self):
        """Shard lengths about B·T and 2·B·T: each window once, nothing read past the end, the rest counted."""
        context, batch = 32, 2
        length = batch * context
        for tokens in (length, length + 1, length + 2, 2 * length + 1):
            with self.subTest(tokens=tokens):
                data, made = self.pack(
                    bytes(range(256)) * 2, name=f"d{tokens}", **{"val-fraction": (512 - tokens) / 512}
                )
                self.assertEqual(made.code, 0, str(made))
                windows = (tokens - 1) // context
                out = self.path(f"out{tokens}")
                ran = self.train(data, out, global_batch=1, steps=2 * windows)
                seen = [
                    (epoch, index)
                    for step in ran.windows().values()
                    for by_rank in step.values()
                    for _, index, epoch in by_rank
                ]
                self.assertEqual(sorted(seen), [(epoch, index) for epoch in (0, 1) for index in range(windows)])

    def test_shard_counts_and_rank_counts_need_not_match(self):
        data = self.synth(shards=4)
        for ranks in (3, 6, 1):
            with self.subTest(ranks=ranks):
                ran = self.train(data, self.path(f"np{ranks}"), ranks=ranks, steps=2)
                for by_rank in ran.windows().values():
                    self.assertEqual(len(by_rank), ranks)
                    lanes = {lane for windows in by_rank.values() for lane, _, _ in windows}
                    self.assertEqual(lanes, set(range(4)))

    def test_a_batch_that_shards_do_not_divide_names_those_that_fit(self):
        done = self.start(self.synth(shards=4), self.path("out"), global_batch=10, steps=1)
        self.assert_refused(done, USAGE, "--global-batch 10", "8", "12", "reshard")


class Damaged(SystemTest):
    """Four shards on four ranks: rank 2 alone reads shard 2."""

    def shard(self, data):
        return data / "train-00002-of-00004.h5"

    def assert_all_stop(self, data, *parts):
        out = self.path("out")
        done = self.start(data, out, ranks=4, steps=3, timeout=60)
        self.assert_refused(done, DAMAGED, "rank 2", self.shard(data).name, *parts)
        return done

    def test_a_shard_that_is_gone(self):
        data = self.copy_of(self.synth())
        self.shard(data).unlink()
        self.assert_all_stop(data)

    def test_a_truncated_shard(self):
        data = self.copy_of(self.synth())
        size = self.shard(data).stat().st_size
        with open(self.shard(data), "r+b") as file:
            file.truncate(size * 9 // 10)
        self.assert_all_stop(data)

    def test_an_empty_shard(self):
        data = self.copy_of(self.synth())
        self.shard(data).write_bytes(b"")
        self.assert_all_stop(data)

    def test_a_text_file_in_its_place(self):
        data = self.copy_of(self.synth())
        self.shard(data).write_text("In the beginning was the word.\n" * 1000, encoding="utf-8")
        self.assert_all_stop(data)

    def test_a_folder_in_its_place(self):
        data = self.copy_of(self.synth())
        self.shard(data).unlink()
        self.shard(data).mkdir()
        self.assert_all_stop(data)

    def test_another_dataset_s_shard(self):
        data = self.copy_of(self.synth())
        other = self.synth(seed=77)
        self.shard(data).write_bytes(self.shard(other).read_bytes())
        self.assert_all_stop(data)

    def test_a_dataset_under_another_name(self):
        self.need_h5py()
        import h5py

        data = self.copy_of(self.synth())
        with h5py.File(self.shard(data), "r+") as shard:
            shard.move("tokens", "ids")
        self.assert_all_stop(data, "tokens")

    def test_tokens_of_another_type(self):
        self.need_h5py()
        import h5py
        import numpy

        for kind in (numpy.float32, numpy.int8, numpy.uint32):
            with self.subTest(kind=kind.__name__):
                data = self.copy_of(self.synth(), kind.__name__)
                with h5py.File(self.shard(data), "r+") as shard:
                    tokens = shard["tokens"][...].astype(kind)
                    del shard["tokens"]
                    shard["tokens"] = tokens
                self.assert_all_stop(data)

    def test_a_token_outside_the_vocabulary(self):
        self.need_h5py()
        import h5py

        data = self.copy_of(self.synth())
        with h5py.File(self.shard(data), "r+") as shard:
            shard["tokens"][5] = 255
        done = self.start(data, self.path("out"), ranks=4, steps=60, timeout=60)
        self.assertEqual(done.code, DAMAGED, str(done))
        self.assertIn(self.shard(data).name, done.text)
        self.assertRegex(done.text, r"255\b.*\b5\b|\b5\b.*255")
        checked = run("gpt_data", "verify", "--data", data)
        self.assertEqual(checked.code, DAMAGED, str(checked))
        self.assertIn(self.shard(data).name, checked.text)

    def test_a_vocabulary_larger_than_the_model_s(self):
        done = self.start(self.synth(), self.path("out"), vocab=5, steps=1)
        self.assert_refused(done, USAGE, "--vocab 5")
        self.train(self.synth(), self.path("larger"), vocab=300, steps=1)

    def test_a_locked_shard_is_read_all_the_same(self):
        data = self.copy_of(self.synth())
        with open(self.shard(data), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            for number, locking in enumerate(({}, {"HDF5_USE_FILE_LOCKING": "FALSE"}, {"HDF5_USE_FILE_LOCKING": "TRUE"})):
                out = self.path(f"out{number}")
                done = self.start(data, out, ranks=4, steps=1, environment=locking)
                if locking.get("HDF5_USE_FILE_LOCKING") == "TRUE" and done.code != 0:
                    self.assert_refused(done, FAILED, self.shard(data).name, "HDF5_USE_FILE_LOCKING")
                else:
                    self.assertEqual(done.code, 0, str(done))


if __name__ == "__main__":
    unittest.main(verbosity=2)
