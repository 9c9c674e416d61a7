"""gpt_ckpt: what it says of checkpoints, whole and damaged, and --keep-every, which leaves more of them."""

import json
import shutil
import unittest

from harness import DAMAGED, FAILED, USAGE, SystemTest, run

STEPS = {"steps": 6, "save_every": 2, "keep": 9}


def flip(file, byte):
    """One bit of a file; a negative place counts from its end."""
    content = bytearray(file.read_bytes())
    content[byte] ^= 16
    file.write_bytes(content)


class GptCkpt(SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.trained = None

    def setUp(self):
        if self.trained is None:
            type(self).trained = self.train(self.synth(), self.folder / "trained", **STEPS)

    def copy_of_run(self):
        return type(self.trained)(self.copy_of(self.trained.folder))

    def ckpt(self, *words):
        return run("gpt_ckpt", *words)

    def told(self, *words, code=0):
        done = self.ckpt(*words, "--json", "true")
        self.assertEqual(done.code, code, str(done))
        return json.loads(done.out)

    def state_byte(self, file, name, byte=0):
        """Where a byte of a flat tensor lies in the file."""
        self.need_h5py()
        import h5py

        with h5py.File(file, "r") as checkpoint:
            return checkpoint["state"][name].id.get_offset() + byte

    def test_a_list_tells_what_every_file_is(self):
        copy = self.copy_of_run()
        folder = copy.folder / "checkpoints"
        flip(copy.checkpoint(6), -100)
        (folder / "step-00000008.h5.partial").write_bytes(b"begun")
        shutil.copy(copy.checkpoint(2), folder / "step-00000002.h5.set-aside-1")
        (folder / "step-00000001.h5").write_bytes(b"somebody's")
        (folder / "step-00000003.h5").write_bytes(copy.checkpoint(4).read_bytes()[:3000])
        told = self.told("list", copy.folder)
        self.assertEqual(told["chosen"], "step-00000004.h5")
        self.assertEqual(
            {file["name"]: file["kind"] for file in told["files"]},
            {
                "step-00000004.h5": "valid",
                "step-00000002.h5": "valid",
                "step-00000006.h5": "broken",
                "step-00000001.h5": "foreign",
                "step-00000003.h5": "broken",
                "step-00000002.h5.set-aside-1": "set aside",
                "step-00000008.h5.partial": "partial",
            },
        )
        first = told["files"][0]
        self.assertEqual((first["step"], first["branch"], first["parent_step"]), (4, 0, -1))
        self.assertEqual(first["bytes"], copy.checkpoint(4).stat().st_size)
        table = self.ckpt("list", folder)
        self.assertEqual(table.code, 0, str(table))
        self.assertRegex(table.out, r"(?m)^step-00000004\.h5 +valid +4 +0 +- .*a start goes on from it$")
        self.assertRegex(table.out, r"(?m)^step-00000006\.h5 +broken .*commit record is damaged$")
        resumed = self.train(self.synth(), copy.folder, **STEPS)
        self.assertEqual([event["step"] for event in resumed.events("resume")], [4])

    def test_a_list_of_nothing_and_of_what_nothing_can_be_made_of(self):
        empty = self.path("empty")
        (empty / "checkpoints").mkdir(parents=True)
        self.assertIn("begin anew", self.ckpt("list", empty).out)
        (empty / "checkpoints" / "step-00000002.h5").write_bytes(b"")
        done = self.ckpt("list", empty)
        self.assertIn("would stop", done.out, str(done))
        self.assert_refused(self.ckpt("list", self.path("none")), USAGE, self.path("none"))

    def test_inspection_shows_what_was_trained(self):
        self.need_h5py()
        import h5py
        import numpy

        file = self.trained.checkpoint(6)
        told = self.told("inspect", file)
        self.assertEqual(told["step"], 6)
        self.assertEqual(told["model"]["width"], 32)
        self.assertEqual(told["skipped"], [])
        self.assertIn("global-batch = 12", told["configuration"])
        self.assertEqual({state["name"] for state in told["state"]}, {"params", "m", "v"})
        figures = {entry["name"]: entry for state in told["state"] if state["name"] == "params"
                   for entry in state["parameters"]}
        with h5py.File(file, "r") as checkpoint:
            self.assertEqual(set(figures), set(checkpoint["parameters"]))
            self.assertEqual(int(told["run_id"], 16), int(checkpoint.attrs["run_id"], 16))
            for name, entry in figures.items():
                values = checkpoint["parameters"][name][...].astype(numpy.float64)
                self.assertEqual(entry["shape"], list(values.shape))
                self.assertEqual((entry["min"], entry["max"]), (values.min(), values.max()))
                self.assertAlmostEqual(entry["mean"], values.mean(), delta=1e-9)
                self.assertAlmostEqual(entry["rms"], (values**2).mean() ** 0.5, delta=1e-9)
                self.assertEqual(entry["not_finite"], 0)
        text = self.ckpt("inspect", file, "--state", "v")
        self.assertEqual(text.code, 0, str(text))
        for part in ("h.1.mlp.c_fc.weight", "(128, 32)", "state/v", "cursor", "dropout"):
            self.assertIn(part, text.out)
        self.assertNotIn("state/params", text.out)
        self.assert_refused(self.ckpt("inspect", file, "--state", "w"), USAGE, "--state w", "m, params, v")

    def test_verification_finds_what_is_damaged(self):
        whole = self.ckpt("verify", self.trained.folder)
        self.assertEqual(whole.code, 0, str(whole))
        self.assertEqual(whole.out.count("is whole"), 3, str(whole))
        copy = self.copy_of_run()
        flip(copy.checkpoint(2), self.state_byte(copy.checkpoint(2), "m", 5))
        flip(copy.checkpoint(4), 1000)
        told = self.told("verify", copy.folder, code=DAMAGED)
        found = {entry["file"].rsplit("/", 1)[-1]: entry for entry in told}
        self.assertTrue(found["step-00000006.h5"]["whole"])
        block = found["step-00000002.h5"]["damage"][0]
        self.assertEqual((block["state"], block["block"]), ("m", 0))
        self.assertIn("wte.weight", block["parameters"])
        self.assertIn("outside the state", found["step-00000004.h5"]["damage"][0]["what"])
        done = self.ckpt("verify", copy.checkpoint(6), copy.checkpoint(2))
        self.assert_refused(done, DAMAGED, "1 of 2 files is damaged", copy.checkpoint(2), "block 0 of 1")
        self.assertIn("step-00000006.h5 is whole", done.out)
        for place in (0, 50, -4096, -4000, -1):
            with self.subTest(place=place):
                file = self.path(f"flip{place}.h5")
                shutil.copy(self.trained.checkpoint(6), file)
                flip(file, place)
                self.assert_refused(self.ckpt("verify", file), DAMAGED, file)
                self.assert_refused(self.ckpt("inspect", file), DAMAGED, file)
                self.assert_refused(self.ckpt("diff", self.trained.checkpoint(6), file), DAMAGED, file)

    def test_differences_have_an_exit_code(self):
        a, b = self.trained.checkpoint(4), self.trained.checkpoint(6)
        same = self.ckpt("diff", a, a)
        self.assertEqual(same.code, 0, str(same))
        other = self.ckpt("diff", a, b)
        self.assertEqual(other.code, FAILED, str(other))
        self.assertEqual(other.err, "")
        self.assertRegex(other.out, r"(?m)^step +4 +6$")
        self.assertRegex(other.out, r"(?m)^params +wte\.weight +\d+ +\d+ +0 +\S+ +\S+$")
        told = self.told("diff", a, b, code=FAILED)
        self.assertEqual({field["field"] for field in told["header"]}, {"step", "last_update", "cursor"})
        self.assertEqual(told["configuration"], [])
        again = self.train(self.synth(), self.path("again"), **STEPS | {"log_every": 2})
        told = self.told("diff", b, again.checkpoint(6), code=FAILED)
        self.assertTrue(all(tensor["equal"] for tensor in told["state"]))
        self.assertLessEqual({"run_id"}, {field["field"] for field in told["header"]})
        self.assertEqual({field["field"] for field in told["configuration"]}, {"out", "log-every"})
        self.assertTrue(self.told("diff", b, again.checkpoint(6), "--what", "state")["same"])

    def test_words_that_make_no_command_are_refused(self):
        for words in ((), ("compare",), ("verify",), ("inspect",), ("diff", self.trained.checkpoint(2)),
                      ("list", self.trained.folder, "--jsn", "true"), ("verify", self.path("none.h5"))):
            with self.subTest(words=words):
                self.assert_refused(self.ckpt(*words), USAGE)
        for command in ("list", "inspect", "verify", "diff"):
            done = self.ckpt(command, "--help")
            self.assertEqual(done.code, 0, str(done))
            self.assertIn("--json", done.out)

    def test_checkpoints_of_the_longer_interval_stay(self):
        kept = self.train(self.synth(), self.path("run"), steps=10, save_every=1, keep=2, keep_every=4)
        self.assertEqual(kept.checkpoints(), [f"step-{step:08d}.h5" for step in (4, 8, 9, 10)])
        self.assertEqual(self.ckpt("verify", kept.folder).code, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
