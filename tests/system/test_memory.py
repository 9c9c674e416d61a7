"""Memory: what is computed again instead of kept, what the program says it needs, and when it refuses to start."""

import os
import pathlib
import re
import resource
import unittest

from harness import FAILED, SANITIZED, USAGE, SystemTest, run

# Dropout, accumulation with a ragged end, several buckets.
HARD = {"dropout": 0.2, "micro_batch": 2, "eval_every": 5, "eval_windows": 3, "bucket_mb": 0.05}
# 57 M parameters: 0.9 GB with gradients and moments.
LARGE = {"layers": 8, "width": 768, "heads": 12, "context": 64, "global_batch": 4, "micro_batch": 4, "steps": 1}


class Recomputing(SystemTest):
    def data(self):
        return self.synth(tokens=3_000, shards=4)

    def test_runs_are_the_same_bits_whatever_is_computed_again(self):
        self.need_h5py()
        cases = {
            "fp32": {"ranks": None},
            "bf16": {"ranks": 2, "precision": "bf16"},
            "tree": {"ranks": 2, "reduction": "tree"},
            "zero": {"ranks": 2, "zero": "1"},
        }
        for name, case in cases.items():
            changes = HARD | {"steps": 8, "save_every": 8} | case
            kept = self.train(self.data(), self.path(f"{name}-none"), **changes)
            for recompute in ("attention", "block"):
                with self.subTest(case=name, recompute=recompute):
                    out = self.path(f"{name}-{recompute}")
                    run = self.train(self.data(), out, recompute=recompute, **changes)
                    self.assertEqual(run.losses(), kept.losses())
                    for kind, value in (("step", "grad_norm"), ("eval", "val_loss")):
                        self.assertEqual(
                            [event[value] for event in run.events(kind)],
                            [event[value] for event in kept.events(kind)],
                        )
                    self.assert_same_state(run.checkpoint(8), kept.checkpoint(8))
                    self.assertLess(
                        run.events("memory")[-1]["activation_bytes"], kept.events("memory")[-1]["activation_bytes"]
                    )

    def test_a_run_goes_on_in_another_mode(self):
        self.need_h5py()
        changes = HARD | {"save_every": 4}
        straight = self.train(self.data(), self.path("straight"), steps=8, **changes)
        out = self.path("changed")
        self.train(self.data(), out, steps=4, recompute="block", **changes)
        done = self.start(self.data(), out, steps=8, recompute="attention", **changes)
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("changed: --recompute: attention, was block", done.out)
        self.assert_same_state(out / "checkpoints" / "step-00000008.h5", straight.checkpoint(8))

    def test_other_modes_are_refused(self):
        done = self.start(self.data(), self.path("none"), recompute="all")
        self.assert_refused(done, USAGE, "--recompute all", "none, attention, block")


class Report(SystemTest):
    def test_memory_is_what_the_report_says(self):
        """Activations are most of it: 8 sequences of 256 positions."""
        model = {"layers": 6, "width": 256, "heads": 4, "context": 256, "global_batch": 8, "micro_batch": 8, "steps": 2}
        data = self.synth(tokens=20_000, shards=4)
        small = self.train(data, self.path("small"), steps=2)
        base = small.events("end")[-1]["peak_bytes"]
        for precision in ("fp32", "bf16"):
            for recompute in ("none", "attention", "block"):
                with self.subTest(precision=precision, recompute=recompute):
                    run = self.train(
                        data, self.path(precision + recompute), precision=precision, recompute=recompute, **model
                    )
                    said = sum(bytes for name, bytes in run.events("memory")[-1].items() if name.endswith("_bytes"))
                    peak = run.events("end")[-1]["peak_bytes"] - base
                    if not SANITIZED:  # sanitizers have memory of their own beside each buffer
                        self.assertLess(peak, 1.04 * said + 15e6)
                        self.assertGreater(peak, 0.96 * said - 15e6)


class Refusal(SystemTest):
    """A limit of the process stands for those that clusters set: what the system says of these is read in the same
    way."""

    def limited(self, bytes):
        return lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes, bytes))

    def setUp(self):
        # Sanitizers reserve terabytes of addresses.
        if SANITIZED:
            self.skipTest("no limit of addresses under sanitizers")

    def start_limited(self, bytes, ranks=None, out=None, **changes):
        data = self.synth(tokens=20_000, shards=4)
        return self.start(data, out or self.path("run"), ranks=ranks, before=self.limited(bytes), **(LARGE | changes))

    def test_what_does_not_fit_is_not_begun(self):
        for ranks in (None, 2):
            with self.subTest(ranks=ranks):
                out = self.path("run")
                done = self.start_limited(1_200_000_000, ranks=ranks, out=out)
                self.assert_refused(
                    done, USAGE, "not enough memory", "RLIMIT_AS", "available of 1200.0 MB", "--recompute block",
                    "--micro-batch", "parameters", "--memory-check warn",
                )
                self.assertEqual("--zero 1" in done.err, ranks is not None)
                self.assertNotIn("what others hold", done.err)
                self.assertFalse(out.exists())

    def test_steps_that_do_not_fit_are_not_measured(self):
        step = ("step", "--context", 64, "--global-batch", 4, "--threads", 1, "--python", "none", "--rounds", 1)
        for ranks in (None, 2):
            done = run("gpt_bench", *step, ranks=ranks, before=self.limited(1_200_000_000))
            self.assert_refused(
                done, USAGE, "not enough memory", "RLIMIT_AS", "--recompute block", "--memory-check warn", times=1
            )
            self.assertNotIn("--zero", done.err)
            self.assertEqual(done.out, "")
        done = run("gpt_bench", *step, "--memory-check", "warn", before=self.limited(1_200_000_000))
        self.assertIn("warning: not enough memory", done.out, str(done))
        self.assertEqual(done.code, FAILED, str(done))

    def test_a_warning_is_enough_for_who_knows_better(self):
        done = self.start_limited(1_200_000_000, memory_check="warn")
        self.assertIn("warning: not enough memory", done.out, str(done))
        self.assertEqual(done.code, FAILED, str(done))
        self.assertIn("no memory for", done.err)

    def test_what_is_offered_helps(self):
        """Between what a run needs as it is, 700 MB of activations mostly, and what it needs with blocks computed
        again."""
        changes = {"layers": 4, "width": 128, "heads": 2, "context": 256, "global_batch": 64, "micro_batch": 64}
        done = self.start_limited(2_000_000_000, recompute="block", out=self.path("roomy"), **changes)
        self.assertEqual(done.code, 0, str(done))
        begin = 2e9 - 1e6 * float(re.search(r"needed by 1 rank, ([0-9.]+) MB available", done.out)[1])
        limit = int(begin + 450e6)
        self.assert_refused(self.start_limited(limit, **changes), USAGE, "--recompute block (saves")
        done = self.start_limited(limit, recompute="block", out=self.path("smaller"), **changes)
        self.assertEqual(done.code, 0, str(done))

    def test_a_control_group_is_a_limit(self):
        group = self.new_group(600_000_000)

        def enter():
            (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

        out = self.path("run")
        data = self.synth(tokens=20_000, shards=4)
        done = self.start(data, out, ranks=2, before=enter, **(LARGE | {"layers": 4}))
        self.assert_refused(
            done, USAGE, "not enough memory", "control group limit", "needed by 2 ranks", "600.0 MB", "fewer ranks a node"
        )
        self.assertFalse(out.exists())

    def new_group(self, limit):
        """A control group of its own inside this process's, with a limit."""
        for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
            _, controllers, own = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            parent = pathlib.Path("/sys/fs/cgroup" + ("/memory" if controllers else "")) / own.lstrip("/")
            group = parent / f"gpt-test-{os.getpid()}"
            try:
                group.mkdir()
                self.addCleanup(group.rmdir)
                (group / ("memory.limit_in_bytes" if controllers else "memory.max")).write_text(
                    str(limit), encoding="ascii"
                )
            except OSError:
                continue
            return group
        return self.skipTest("this process may not limit control groups")


if __name__ == "__main__":
    unittest.main(verbosity=2)
