"""What ranks record of their reads proves that no window is lost or seen twice, whatever happened to the run."""

import json
import re
import shutil
import unittest

from harness import DAMAGED, USAGE, Run, SystemTest, ledger_groups, run

SHARDS = 4
# (ranks, global batch, the fault that kills this start)
STARTS = [
    (4, 12, "step:kill@rank=2,step=5"),
    (4, 12, "update:kill@rank=0,step=8"),
    (3, 8, "save.write:kill@rank=1,step=12"),
    (8, 12, "backward:kill@rank=7,step=17"),
    (2, 20, "save.commit:kill@rank=0,step=22"),
    (2, 12, None),
]


def group_offsets(raw):
    """(first byte, byte behind the last, kind) of each group."""
    offset, found = 0, []
    for kind, _, _, payload in ledger_groups(raw):
        found.append((offset, offset + 32 + len(payload), kind))
        offset = found[-1][1]
    return found


class Ledger(SystemTest):
    def data(self):
        return self.synth(tokens=3_000, shards=SHARDS)  # an epoch takes fewer than 8 steps

    def ledger(self, out, *options):
        return run("gpt_ckpt", "ledger", out, *options)

    def assert_exact(self, out, *options):
        done = self.ledger(out, *options)
        self.assertEqual(done.code, 0, str(done))
        self.assertRegex(done.out, r"(?m)^exact: ")
        return done.out

    def assert_found(self, out, *parts):
        done = self.ledger(out)
        self.assert_refused(done, DAMAGED, "is not exact", *parts)
        return done

    def epochs_read(self, text):
        """epoch -> windows read, as printed."""
        read = {}
        for first, last, count in re.findall(r"(?m)^  epochs? (\d+)(?: to (\d+), each)?: (\d+) of", text):
            for epoch in range(int(first), int(last or first) + 1):
                read[epoch] = int(count)
        return read

    def check_windows(self, result):
        """The records themselves, read by other code than the program's; how many of each epoch."""
        seen = {}
        for by_rank in result.windows().values():
            for lane, index, epoch in sum(by_rank.values(), []):
                key = epoch, lane, index
                self.assertNotIn(key, seen)
                seen[key] = True
        counts = {}
        for epoch, _, _ in seen:
            counts[epoch] = counts.get(epoch, 0) + 1
        return counts

    killed = None  # a run folder that tests share and do not change

    def killed_run(self):
        """Five starts that are killed and one that finishes, each on other ranks or with another batch."""
        if Ledger.killed is not None:
            return Ledger.killed
        out = self.path("killed")
        for ranks, batch, fault in STARTS:
            fault = {"GPT_FAULT": fault} if fault else None
            done = self.start(
                self.data(), out, ranks=ranks, global_batch=batch, steps=30, save_every=2, environment=fault
            )
            self.assertEqual(done.code == 0, fault is None, str(done))
        Ledger.killed = out
        return out

    def windows_per_shard(self, out):
        raw = (out / "reads" / "start-000001.bin").read_bytes()
        return json.loads(next(ledger_groups(raw))[3])["windows_per_lane"]

    def test_five_kills_and_resizes_lose_nothing(self):
        out = self.killed_run()
        text = self.assert_exact(out)
        self.assertIn("in 6 starts", text)
        self.assertIn("behind the checkpoint from which a later start went on", text)
        counts = self.check_windows(Run(out))
        self.assertEqual(self.epochs_read(text), counts)
        self.assertGreater(len(counts), 3)
        self.assertEqual({counts[epoch] for epoch in range(max(counts))}, {SHARDS * self.windows_per_shard(out)})

    def test_one_record_changed_is_found(self):
        out = self.killed_run()
        files = sorted((out / "reads").glob("start-*.bin"))
        self.assertGreaterEqual(len(files), 2)
        last = files[-1].read_bytes()
        begin, end, _ = next(group for group in group_offsets(last) if group[2] == 2)

        def changed(name, raw):
            copy = self.path(name)
            shutil.copytree(out, copy)
            target = copy / "reads" / files[-1].name
            target.unlink()
            if raw is not None:
                target.write_bytes(raw)
            return copy

        flipped = bytearray(last)
        flipped[(begin + 32 + end) // 2] ^= 4
        self.assert_found(changed("flipped", bytes(flipped)), "without a record: step ")
        self.assert_found(changed("again", last + last[begin:end]), "read again: window ")
        self.assert_found(changed("cut", last[: begin + 40]), "saved, but not recorded", "step-00000030.h5")
        self.assert_found(changed("gone", None), "saved, but not recorded")
        # What no step that counts needs is a note.
        torn = self.assert_exact(changed("torn", last + last[begin : end - 1]))
        self.assertIn("are no records", torn)

    def test_the_first_start_is_needed_too(self):
        out = self.path("run")
        self.train(self.data(), out, steps=4, save_every=4)
        self.train(self.data(), out, ranks=2, steps=8, save_every=4)
        self.assert_exact(out)
        (out / "reads" / "start-000001.bin").unlink()
        self.assert_found(out, "all of steps 1 to 4")

    def test_a_rollback_counts_its_steps_out_and_lists_what_is_passed_over(self):
        out = self.path("run")
        changes = {"steps": 24, "save_every": 5, "on_bad_step": "rollback", "save": "sync"}
        fault = "gradients:nan@rank=1,step=7,hit=1"
        done = self.start(
            self.data(), out, ranks=2, environment={"GPT_FAULT": fault + ";step:kill@rank=1,step=13"}, **changes
        )
        self.assertNotEqual(done.code, 0, str(done))
        self.train(self.data(), out, ranks=3, **changes)
        text = self.assert_exact(out)
        self.assertIn(
            "passed over: places 18 to 20 of each shard's order: 12 windows, read for step 7 and counted out", text
        )
        self.assertIn("1 step of attempt 1", text)
        self.assertIn("rolled back", text)
        counts = self.epochs_read(text)
        self.assertEqual(sum(counts.values()), 24 * 12)
        self.assertEqual(counts[0], SHARDS * (self.windows_per_shard(out) - 3))
        self.assertEqual(counts, self.check_windows(Run(out)))

    def test_a_step_that_is_left_out_is_named(self):
        out = self.path("run")
        fault = {"GPT_FAULT": "gradients:nan@step=3,hit=1"}
        self.train(self.data(), out, environment=fault, steps=8, save_every=4, on_bad_step="skip")
        self.assertIn("left out (--on-bad-step skip), their windows count as read: step 3\n", self.assert_exact(out))

    def test_branches_are_followed_each_by_itself(self):
        out = self.path("run")
        result = self.train(self.data(), out, steps=12, save_every=4, keep=9)
        self.train(self.data(), out, ranks=2, steps=10, save_every=2, keep=9, resume=result.checkpoint(4))
        self.assertIn("branch 1, to step 10", self.assert_exact(out))
        self.assertIn("branch 0, to step 12", self.assert_exact(out, "--branch", 0))
        self.assert_refused(self.ledger(out, "--branch", 5), USAGE, "no records of branch 5")

    def test_a_disk_that_fails_while_recording_fails_the_save(self):
        for ranks in (None, 3):
            with self.subTest(ranks=ranks):
                out = self.path(f"np{ranks}")
                fault = {"GPT_FAULT": "ledger.write:throw@step=4"}
                result = self.train(self.data(), out, ranks=ranks, environment=fault, steps=8, save_every=2)
                (failed,) = result.events("save_failed")
                self.assertEqual(failed["step"], 4)
                self.assertIn("what was read cannot be recorded", failed["reason"])
                self.assert_exact(out)

    def test_without_checkpoints_records_are_there_at_the_end(self):
        out = self.path("run")
        result = self.train(self.data(), out, ranks=2, steps=9)
        self.assertEqual(sum(self.check_windows(result).values()), 9 * 12)
        self.assert_exact(out)

    def test_a_run_that_goes_on_from_another_folder_says_so(self):
        first = self.train(self.data(), self.path("first"), steps=4, save_every=4)
        out = self.path("second")
        self.train(self.data(), out, steps=12, save_every=4, resume=first.checkpoint(4))
        text = self.assert_exact(out)
        self.assertIn("steps 1 to 4 are not in these records: a run in another folder took them", text)

    def test_no_records_at_all(self):
        self.assert_refused(self.ledger(self.path("none")), USAGE, "has no records")


if __name__ == "__main__":
    unittest.main(verbosity=2)
