"""gpt_bench measures, with and without ranks, checks what it measures, and refuses what it cannot measure."""

import json
import math
import os
import pathlib
import re
import shutil
import unittest

from harness import BAD_NUMBERS, FAILED, MPIRUN, SAVING_FAILED, TOP, USAGE, SystemTest, execute, program, run

TINY_STEP = ("--preset", "char-cpu", "--context", 8, "--vocab", 64, "--global-batch", 2, "--steps", 2, "--rounds", 1)
TINY_MODEL = ("--preset", "char-cpu", "--context", 8, "--vocab", 64, "--micro-batch", 1)
ROW = r"(?m)^ +gpt_mpi +([0-9.]+) ms least +([0-9.]+) ms median +(\d+) tokens/s, memory at most [1-9]\d*\.\d MB$"
EVERY_WAY = ("--what", "mpi,flat,hierarchical,tree", "--inter", "mpi,ring", "--wire", "fp32", "fp32,bf16", "bf16")
BETWEEN = ("mpi/fp32", "direct/fp32,bf16", "direct/bf16", "ring/fp32")  # what these come to, in this order


class Bench(SystemTest):
    def bench(self, *words, ranks=None, environment=None):
        """A run that has to succeed, and what it wrote with --json."""
        file = self.path("figures.json")
        done = run("gpt_bench", *words, "--json", file, ranks=ranks, environment=environment)
        self.assertEqual(done.code, 0, str(done))
        return done, json.loads(file.read_text(encoding="utf-8"))


class Step(Bench):
    def test_a_row_of_step_times(self):
        for ranks in (None, 2):
            with self.subTest(ranks=ranks):
                done = run("gpt_bench", "step", *TINY_STEP, "--threads", 1, "--python", "none", ranks=ranks)
                self.assertEqual(done.code, 0, str(done))
                self.assertIn(f"batch 2 x 8, fp32, {ranks or 1} rank", done.out)
                self.assertRegex(done.out, ROW)

    def test_what_cannot_be_measured(self):
        for words, part in (
            ((), "step, peers, generate, comm"),
            (("walk",), "walk"),
            (("step", "--walk", 1), "walk"),
            (("comm", "--memory", "--iterations", 3), "--memory lacks its value before --iterations"),
            (("comm", "walk"), "belongs to no option"),
            (("step", "--preset", "gpt9"), "gpt9"),
            (("step", "--global-batch", -1), "--global-batch"),
            (("step", "--micro-batch", -1), "--micro-batch"),
            (("step", "--rounds", 0), "--rounds"),
            (("step", "--precision", "fp8"), "--precision"),
            (("step", "--rounding", "stochastic"), "--rounding stochastic with --precision fp32"),
            (("step", "--attention", "flash"), "--attention"),
            (("step", "--attention", "cudnn"), "--attention cudnn with --device cpu"),
        ):
            with self.subTest(words=words):
                self.assert_refused(run("gpt_bench", *words), USAGE, part)

    def test_bf16_is_judged_by_its_own_peak(self):
        words = ("--precision", "bf16", "--micro-batch", 2, "--threads", 1, "--rounds", 2, "--python", "none")
        done, figures = self.bench("step", *TINY_STEP[:6], *words)
        self.assertIn("batch 2 x 8, bf16, 1 rank", done.out)
        self.assertEqual(figures["precision"], "bf16")
        self.assertEqual(figures["rounding"], "nearest")
        found = figures["operators"]
        # seven numbers of each weight, and of those in matrices (4 blocks and the embeddings) a copy in bf16
        matrices, vectors = 4 * 12 * 128**2 + (128 + 8) * 128, 7 * 1024
        self.assertEqual(found["optimizer_bytes"], 30 * matrices + 28 * vectors)
        bound = found["product_flops"] / found["peak_bf16_flops"] + found["optimizer_bytes"] / found["peak_bytes_per_s"]
        self.assertAlmostEqual(found["bound_s"] / bound, 1, places=6)
        for row in found["operations"]:
            if row["flops"] > 0:
                self.assertEqual(row["operands"], "bf16", row)

    def test_bf16_without_instructions_is_warned_of(self):
        """The library multiplies with what it is allowed to use."""
        old = {"ONEDNN_MAX_CPU_ISA": "AVX2"}
        generate = ("generate", "--preset", "char-cpu", "--context", 32, "--prompt", 4, "--tokens", 4, "--rounds", 1)
        alone = ("--threads", 1, "--python", "none")
        for words in (("step", *TINY_STEP, *alone), (*generate, *alone), ("scaling", *TINY_MODEL, "--rounds", 1)):
            for precision, times in (("fp32", 0), ("bf16", 1)):
                done = run("gpt_bench", *words, "--precision", precision, environment=old)
                self.assertEqual(done.code, 0, str(done))
                warning = "gpt_bench: warning: --precision bf16: this CPU has no instructions for it"
                self.assertEqual(done.err.count(warning), times, str(done))

    def test_where_the_time_goes(self):
        # char-cpu: 4 blocks of width 128; here 16 positions, a context of 8 and 64 tokens
        flops = 16 * (6 * (4 * 12 * 128**2 + 64 * 128) + 6 * 4 * 128 * 8)
        for ranks, words, calls in (
            (None, ("--global-batch", 2), 1),
            (None, ("--micro-batch", 2), 1),
            (None, ("--micro-batch", 1, "--global-batch", 2), 2),
            (2, ("--micro-batch", 2), 1),
        ):
            with self.subTest(words=words, ranks=ranks):
                options = (*TINY_STEP[:6], *words, "--threads", 1, "--rounds", 2, "--steps", 2, "--python", "none")
                done, figures = self.bench("step", *options, ranks=ranks)
                self.assertEqual(figures["global_batch"], 2 * (ranks or 1))
                self.assertEqual(len(figures["gpt_mpi"]["times_s"]), 4)
                found = figures["operators"]
                rows = {row["operation"]: row for row in found["operations"]}
                self.assertAlmostEqual(sum(row["flops"] for row in rows.values()), flops)
                self.assertEqual(found["product_flops"], flops)
                self.assertEqual(rows["attention"]["calls"], 4 * calls)
                self.assertEqual(rows["linear 128 x 512"]["flops"], 4 * 2 * 16 * 128 * 512)
                # seven numbers of each parameter; the layout pads sections
                parameters = 4 * (12 * 128**2 + 13 * 128) + (128 + 8 + 2) * 128
                self.assertEqual(found["optimizer_bytes"] % 28, 0)
                self.assertGreaterEqual(found["optimizer_bytes"], 28 * parameters)
                self.assertLess(found["optimizer_bytes"], 28 * 1.05 * parameters)
                share = sum(row["share"] for row in rows.values()) + found["between_s"] / found["step_s"]
                self.assertAlmostEqual(share, 1, places=6)
                bound = flops / found["peak_f32_flops"] + found["optimizer_bytes"] / found["peak_bytes_per_s"]
                self.assertAlmostEqual(found["bound_s"] / bound, 1, places=6)
                self.assertAlmostEqual(found["of_bound"], bound / figures["gpt_mpi"]["least_s"], places=6)
                self.assertGreater(found["peak_bf16_flops"], 0)
                for name in (*rows, "between operations"):
                    self.assertRegex(done.out, rf"(?m)^  {re.escape(name)} +\d* +[0-9.]+ +[0-9.]+ %")
                self.assertRegex(done.out, r"(?m)^the bound is [0-9.]+ % of the least step of gpt_mpi, [0-9.]+ ms$")
                order = [float(ms) for ms in re.findall(r"(?m)^  \S.* +\d+ +([0-9.]+) +[0-9.]+ % +[0-9.]+ G", done.out)]
                self.assertEqual(len(order), len(rows))
                self.assertEqual(order, sorted(order, reverse=True))

    def test_without_operators(self):
        done, figures = self.bench("step", *TINY_STEP, "--operators", "false", "--python", "none")
        self.assertRegex(done.out, ROW)
        self.assertNotIn("bound", done.out)
        self.assertNotIn("operators", figures)

    def test_generation(self):
        words = ("--preset", "char-cpu", "--context", 32, "--vocab", 64, "--prompt", 4, "--tokens", 20, "--rounds", 2)
        for more in ((), ("--precision", "bf16", "--sequences", 3)):
            done, figures = self.bench("generate", *words, *more, "--threads", 1, "--python", "none")
            self.assertRegex(done.out, r"(?m)^ +gpt_mpi +[0-9.]+ ms least .* tokens/s$")
            self.assertEqual(len(figures["gpt_mpi"]["times_s"]), 2)
            tokens = 20 * (3 if more else 1)
            own = figures["gpt_mpi"]
            self.assertAlmostEqual(own["tokens_per_s"], tokens / own["least_s"], delta=1)
            self.assertEqual(figures["weight_bytes"], (2 if more else 4) * (4 * 198272 + 64 * 128 + 256))
            self.assertAlmostEqual(figures["of_read"], figures["weight_bytes_per_s"] / figures["read_bytes_per_s"])
            self.assertLess(figures["steps_least_s"], own["least_s"])
        for more, part in (
            (("--context", 32), "--context"), (("--sequences", 9), "--sequences"), (("--rounds", 0), "--rounds"),
            (("--precision", "fp8"), "--precision"), (("--prompt", 0), "--prompt"),
        ):
            self.assert_refused(run("gpt_bench", "generate", *words[:2], *more), USAGE, part)
        self.assert_refused(run("gpt_bench", "generate", *words, ranks=2), USAGE, "without mpirun")

    def test_without_pytorch_it_is_timed_alone(self):
        python = self.path("bin") / "python3"
        python.parent.mkdir()
        python.write_text("#!/bin/sh\necho 'Traceback (most recent call last):' >&2\nexit 1\n", encoding="utf-8")
        python.chmod(0o755)
        script = ("--peer-script", TOP / "tests" / "peers" / "torch_step.py")
        path = {"PATH": f"{python.parent}:{os.environ['PATH']}"}
        done = run("gpt_bench", "step", *TINY_STEP, *script, environment=path)
        self.assertEqual(done.code, 0, str(done))
        self.assertRegex(done.out, ROW)
        self.assertIn("notice: python3 has no PyTorch", done.err)
        self.assertNotIn("Traceback", done.err)
        for name, part in ((python, "has no PyTorch"), ("/nowhere/python", "/nowhere/python cannot be started")):
            done = run("gpt_bench", "step", *TINY_STEP, *script, "--python", name)
            self.assert_refused(done, USAGE, part)
            self.assertNotIn("Traceback", done.err)

    def test_help(self):
        for words in ((), ("step",), ("peers",), ("generate",), ("comm",), ("scaling",), ("model",)):
            with self.subTest(words=words):
                done = run("gpt_bench", *words, "--help")
                self.assertEqual(done.code, 0, str(done))
                self.assertIn("gpt_bench " + " ".join(words), done.out)


class Outputs(Bench):
    COMMANDS = (
        ("step", *TINY_STEP, "--python", "none"),
        ("peers", "--works", "char-cpu:2x8", "--python", "/nowhere/python"),
        ("generate", "--preset", "char-cpu", "--tokens", 20, "--python", "none"),
        ("comm", "--sizes", "4K"),
        ("scaling", *TINY_MODEL),
        ("model", "--step-ms", 1),
    )

    def test_a_file_that_cannot_be_written_is_refused_before_measuring(self):
        for command in self.COMMANDS:
            for file in (self.path("gone") / "figures.json", self.folder):
                with self.subTest(command=command, file=file):
                    done = run("gpt_bench", *command, "--json", file)
                    self.assert_refused(done, USAGE, f"--json {file}: cannot be written")
                    self.assertEqual(done.out, "")
        done = run("gpt_bench", "scaling", *TINY_MODEL, "--plot", self.folder, ranks=2)
        self.assert_refused(done, USAGE, f"--plot {self.folder}: cannot be written", times=1)

    def test_trying_changes_nothing(self):
        there, new, link = self.path("there.json"), self.path("new.json"), self.path("link.json")
        there.write_text("figures", encoding="utf-8")
        link.symlink_to(new)
        for file in (there, new, link):
            done = run("gpt_bench", "scaling", *TINY_MODEL, "--json", file, "--plot", self.folder)
            self.assert_refused(done, USAGE, "--plot")
        self.assertEqual(there.read_text(encoding="utf-8"), "figures")
        self.assertFalse(new.exists())
        self.assertTrue(link.is_symlink())
        done = run("gpt_bench", "model", "--step-ms", 1, "--json", "/dev/stdout")
        self.assertEqual(done.code, 0, str(done))
        self.assertIn('"predictions"', done.out)


class Peers(Bench):
    """Beside a Python that only pretends: it answers with times that are known."""

    WORDS = ("peers", "--works", "char-cpu:2x8", "--threads", 1, "--steps", 2, "--rounds", 5)
    PYTHON = """#!/usr/bin/python3
import json, os, pathlib, sys, time
words = sys.argv[1:]
if words[0] == "-c":
    sys.exit(0 if words[1].split()[-1] in {has!r} else 1)
kind = "jax" if "jax" in words[0] else "compiled" if "--compile" in words else "eager"
with open({log!r}, "a") as log:
    print(json.dumps([kind, *words[1:]]), file=log)
if kind in {silent!r}:
    pathlib.Path({log!r} + "-silent").write_text(str(os.getpid()))
    time.sleep(100)
if kind in {fails!r}:
    sys.exit(3)
print(json.dumps({{"peer": "a " + kind}}), flush=True)
for number, line in enumerate(sys.stdin):
    if number == {rounds}:
        sys.exit(3)
    print(json.dumps([{seconds!r}[kind] + number, 90.0]), flush=True)
    {last_words}
"""

    def python(self, has=("torch", "jax"), fails=(), silent=(), rounds=100, last_words="", **seconds):
        """The pretender, and the file that it notes its calls in."""
        folder = self.path("bin")
        folder.mkdir(exist_ok=True)
        log = folder / "log"
        log.write_text("", encoding="utf-8")
        for script in ("torch_step.py", "jax_step.py"):
            (folder / script).write_text("", encoding="utf-8")
        seconds = {"eager": 60.0, "compiled": 50.0, "jax": 55.0} | seconds
        text = self.PYTHON.format(
            has=has, fails=fails, silent=silent, rounds=rounds, last_words=last_words, log=str(log), seconds=seconds
        )
        (folder / "python3").write_text(text, encoding="utf-8")
        (folder / "python3").chmod(0o755)
        return ("--python", folder / "python3", "--peer-scripts", folder), log

    def test_the_least_times_are_compared_with_the_best_peer(self):
        python, log = self.python()
        done, figures = self.bench(*self.WORDS, *python)
        calls = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        self.assertEqual([call[0] for call in calls], ["eager", "compiled", "jax"] * 2)
        for call in calls:
            given = dict(zip(call[1:17:2], call[2:17:2]))
            self.assertEqual(given, {"--layers": "4", "--heads": "4", "--width": "128", "--context": "8",
                                     "--vocabulary": "65", "--batch": "2", "--threads": "1", "--steps": "2"})  # fmt: skip
        self.assertEqual(["--bf16" in call for call in calls], [False] * 3 + [True] * 3)
        self.assertEqual([row["precision"] for row in figures["results"]], ["fp32", "bf16"])
        for row in figures["results"]:
            self.assertEqual(len(row["gpt_mpi"]["times_s"]), 2 * 5)
            self.assertEqual(row["best"], "compiled")
            self.assertAlmostEqual(row["ratio"] * min(row["gpt_mpi"]["times_s"]) / 50, 1, places=6)
            self.assertEqual({kind: peer["least_s"] for kind, peer in row["peers"].items()},
                             {"eager": 60, "compiled": 50, "jax": 55})  # fmt: skip
            times = [50.0, 90.0, 51.0, 90.0, 52.0, 90.0, 53.0, 90.0, 54.0, 90.0]
            self.assertEqual(row["peers"]["compiled"]["times_s"], times)
            self.assertEqual(row["peers"]["jax"]["name"], "a jax")
        table = r"(?m)^char-cpu 2x8 (fp32|bf16) +[0-9.]+ +60000.00 +50000.00 +55000.00  [0-9.]+ \(compiled\)$"
        self.assertEqual(re.findall(table, done.out), ["fp32", "bf16"])
        self.assertIn("1 thread, dropout 0, least of 5 rounds", done.out)

    def test_works_and_precisions_are_chosen(self):
        python, log = self.python(jax=40.0)
        words = ("peers", "--works", "char-cpu:2x8,char-cpu:3x4", "--precision", "bf16", "--peers", "jax,eager")
        _, figures = self.bench(*words, "--rounds", 1, "--threads", 1, *python)
        self.assertEqual([(row["batch"], row["context"]) for row in figures["results"]], [(2, 8), (3, 4)])
        self.assertEqual([row["best"] for row in figures["results"]], ["jax", "jax"])
        self.assertNotIn("compiled", log.read_text(encoding="utf-8"))
        for row in figures["results"]:
            self.assertGreaterEqual(row["steps"], 2)  # by the time of a step
            self.assertEqual(len(row["gpt_mpi"]["times_s"]), row["steps"])

    def test_a_peer_that_fails_is_left_out(self):
        python, _ = self.python(fails=("compiled",))
        done, figures = self.bench(*self.WORDS, *python)
        self.assertEqual({row["best"] for row in figures["results"]}, {"jax"})
        self.assertIn("char-cpu 2x8 bf16: compiled is left out: the peer ended", done.err)
        self.assertRegex(done.out, r"(?m)^char-cpu 2x8 fp32 +[0-9.]+ +60000.00 +- +55000.00 ")
        python, _ = self.python(fails=("eager", "compiled", "jax"))
        done = run("gpt_bench", *self.WORDS, *python)
        self.assert_refused(done, FAILED, "no peer could be measured for char-cpu 2x8 fp32, char-cpu 2x8 bf16")
        self.assertRegex(done.out, r"(?m)^char-cpu 2x8 fp32 +[0-9.]+ +- +- +-  -$")

    def test_a_peer_that_ends_early_counts_for_nothing(self):
        for rounds, last_words in ((2, ""), (100, "sys.exit(3)")):  # asked in vain; gone before it is asked
            python, _ = self.python(rounds=rounds, last_words=last_words)
            done = run("gpt_bench", *self.WORDS, *python)
            self.assert_refused(done, FAILED, "no peer could be measured for char-cpu 2x8 fp32, char-cpu 2x8 bf16")
            self.assertRegex(done.out, r"(?m)^char-cpu 2x8 fp32 +[0-9.]+ +- +- +-  -$")
            self.assertIn("notice: char-cpu 2x8 fp32: eager is left out: the peer ended", done.err)

    def test_a_peer_is_announced_and_not_waited_for_without_end(self):
        python, log = self.python(silent=("eager",))
        words = (*TINY_STEP, "--threads", 1, "--python", python[1], "--peer-script", python[3] / "torch_step.py")
        done = run("gpt_bench", "step", *words, "--peer-timeout", 2)
        self.assert_refused(done, FAILED, "the peer has not answered for 2 s", "--peer-timeout")
        said = f"notice: starting the peer, {python[1]} {python[3]}/torch_step.py: this may take minutes, at most 2 s"
        self.assertIn(said, done.err)
        silent = int(pathlib.Path(f"{log}-silent").read_text(encoding="utf-8"))
        self.assertRaises(ProcessLookupError, os.kill, silent, 0)
        done, figures = self.bench(*self.WORDS, "--precision", "fp32", "--peer-timeout", 2, *python)
        self.assertIn("eager is left out: the peer has not answered", done.err)
        self.assertEqual(figures["results"][0]["best"], "compiled")
        for command in ("step", "peers", "generate"):
            self.assert_refused(run("gpt_bench", command, "--peer-timeout", 0), USAGE, "--peer-timeout 0")

    def test_what_python_lacks(self):
        python, _ = self.python(has=("torch",))
        done, figures = self.bench(*self.WORDS, *python)
        self.assertIn("has no JAX: measured without it", done.err)
        self.assertEqual(sorted(figures["results"][0]["peers"]), ["compiled", "eager"])
        self.assert_refused(run("gpt_bench", *self.WORDS, "--peers", "jax", *python), USAGE, "has no JAX")
        python, _ = self.python(has=())
        done = run("gpt_bench", *self.WORDS, *python)
        self.assert_refused(done, USAGE, "has no PyTorch", "has no JAX", "--python")
        done = run("gpt_bench", *self.WORDS, *python[2:], "--python", "/nowhere/python")
        self.assert_refused(done, USAGE, "/nowhere/python cannot be started")
        self.assertEqual(done.err.count("cannot be started"), 1)
        done = run("gpt_bench", *self.WORDS, *python[:2], "--peer-scripts", "/nowhere")
        self.assert_refused(done, USAGE, "there is no /nowhere/torch_step.py")

    def test_what_cannot_be_compared(self):
        for words, part in (
            (("--works", "gpt9:4x64"), "gpt9"),
            (("--works", "gpt2"), "--works gpt2: use PRESET"),
            (("--works", "gpt2:4"), "PRESET:SEQUENCESxTOKENS"),
            (("--works", "gpt2:0x4"), "PRESET:SEQUENCESxTOKENS"),
            (("--works", "gpt2:4x64x"), "PRESET:SEQUENCESxTOKENS"),
            (("--precision", "fp8"), "--precision fp8"),
            (("--peers", "tensorflow"), "eager,compiled,jax"),
            (("--rounds", 0), "--rounds"),
            (("--steps", -1), "--steps"),
        ):
            with self.subTest(words=words):
                self.assert_refused(run("gpt_bench", "peers", *words), USAGE, part)
        self.assert_refused(run("gpt_bench", *self.WORDS, ranks=2), USAGE, "without mpirun")


class Sums(Bench):
    def test_every_way_gives_the_sums(self):
        for ranks, layout in ((1, ""), (2, "1,1"), (4, "2,2"), (4, "3,1"), (4, "2,1,1"), (4, "@0,1,0,1")):
            with self.subTest(layout=layout):
                sizes = (4, 4096, 1000000)
                _, figures = self.bench(
                    "comm", *EVERY_WAY, "--sizes", ",".join(map(str, sizes)), "--iterations", 2, "--warmup", 1,
                    "--node-layout", layout, ranks=ranks,
                )  # fmt: skip
                rows = figures["results"]
                hierarchical = BETWEEN if figures["nodes"] > 1 else ("fp32", "bf16")
                ways = ["mpi", "flat", *(f"hierarchical/{way}" for way in hierarchical), "tree"]
                self.assertEqual([one["name"] for one in figures["implementations"]], ways)
                self.assertEqual([row["implementation"] for row in rows], ways * len(sizes) * 2)
                self.assertEqual({row["wrong"] for row in rows}, {0})
                self.assertEqual({row["bytes"] for row in rows}, set(sizes))
                self.assertEqual(figures["ranks"], ranks)
                self.assertEqual(sum(figures["ranks_per_node"]), ranks)
                self.assertEqual(len(figures["hosts"]), ranks)
                for row in rows:
                    self.assertEqual(len(row["times_s"]), 2)
                    self.assertLessEqual(row["least_s"], row["median_s"])
                    self.assertAlmostEqual(row["algbw_bytes_per_s"], row["bytes"] / row["median_s"], delta=1)
                    share = 2 * (ranks - 1) / ranks
                    self.assertAlmostEqual(row["busbw_bytes_per_s"], row["algbw_bytes_per_s"] * share, delta=1)

    def test_layouts_are_named(self):
        done, figures = self.bench("comm", "--sizes", "4K", "--repeat", 1, "--node-layout", "2,1,1", ranks=4)
        self.assertIn("4 ranks on 3 nodes (2+1+1)", done.out)
        self.assertEqual(figures["ranks_per_node"], [2, 1, 1])

    def test_how_sums_are_formed_is_said(self):
        layout = ("--sizes", "64K", "--repeat", 1, "--node-layout", "2,2")
        ways = ("--what", "mpi,flat,hierarchical,tree")
        done, figures = self.bench("comm", *layout, *ways, ranks=4)
        keys = ("block_bytes", "window", "shared_memory")
        said = {one["name"]: [one.get(key) for key in keys] for one in figures["implementations"]}
        default = [2 * 32768, 16, True]
        expected = {"mpi": [None] * 3, "flat": [None] * 3, "hierarchical/ring/fp32": default, "tree": default}
        self.assertEqual(said, expected)
        blocks = "hierarchical/ring/fp32, tree: blocks of 64 KiB of a lane, 16 under way, shared memory inside nodes"
        self.assertIn(f"# {blocks}\n", done.out)
        ways = ("--what", "hierarchical", "--block", "8K", "--window", 3, "--shared-memory", "false")
        done, figures = self.bench("comm", *layout, *ways, ranks=4)
        self.assertEqual([figures["implementations"][0][key] for key in keys], [8192, 3, False])
        self.assertIn("blocks of 8 KiB of a lane, 3 under way, messages inside nodes\n", done.out)
        done, figures = self.bench("comm", *layout[:-1], "1,1", "--what", "hierarchical", ranks=2)
        self.assertEqual([figures["implementations"][0][key] for key in keys], [65536, 16, None])
        self.assertIn("blocks of 64 KiB of a lane, 16 under way\n", done.out)
        done, figures = self.bench("comm", *layout[:-1], "2,1", "--what", "tree", ranks=3)  # rank by rank
        self.assertEqual([figures["implementations"][0][key] for key in keys], [3 * 32768, 16, False])

    def test_too_little_shared_memory_is_said(self):
        """What the table and the file say is what was measured, not what was planned."""
        probe = execute(["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"])
        if probe.code != 0:
            self.skipTest(f"nothing can be mounted here: {probe.err}")

        def bench(*words):
            file = self.path("small.json")
            mounted = 'mount -t tmpfs -o size=12m tmpfs /dev/shm && exec "$@"'
            command = [MPIRUN, 2, program("gpt_bench"), "comm", *words, "--json", file]
            done = execute(["unshare", "--mount", "bash", "-c", mounted, "bash", *map(str, command)])
            self.assertEqual(done.code, 0, str(done))
            return done, json.loads(file.read_text(encoding="utf-8"))

        once = ("--repeat", 1, "--what", "hierarchical")
        done, figures = bench("--sizes", "64M", *once)
        self.assertIs(figures["implementations"][0]["shared_memory"], False)
        self.assertIn("messages inside nodes", done.out)
        done, figures = bench("--sizes", "64K", *once)
        self.assertIs(figures["implementations"][0]["shared_memory"], True)
        done, figures = bench("--memory", "true", "--sizes", "64M", "--iterations", 1)
        self.assertIs(figures["shared_memory"], False)
        self.assertIsNone(figures["share_in_place"])
        self.assertEqual(figures["wrong"], 0)
        self.assertIn("sums go by messages", done.out)
        self.assertNotIn("bandwidth", done.out)

    def test_other_collectives_and_types(self):
        for collective in ("reduce_scatter", "all_gather", "broadcast", "all_reduce"):
            for dtype in ("f32", "f64", "bf16"):
                with self.subTest(collective=collective, dtype=dtype):
                    what = "flat,hierarchical" + ("" if dtype == "bf16" else ",mpi")
                    _, figures = self.bench(
                        "comm", "--collective", collective, "--dtype", dtype, "--what", what, "--sizes", "8,100000",
                        "--repeat", 1, "--node-layout", "2,1", ranks=3,
                    )  # fmt: skip
                    places = 2 if collective == "all_reduce" else 1
                    self.assertEqual(len(figures["results"]), 2 * (2 if dtype == "bf16" else 3) * places)
                    self.assertEqual({row["wrong"] for row in figures["results"]}, {0})
                    sums = collective in ("reduce_scatter", "all_reduce")
                    way = "ring/fp32" if sums and dtype == "f32" else "direct" if sums and dtype == "bf16" else "ring"
                    self.assertEqual(figures["implementations"][1]["name"], f"hierarchical/{way}")

    def test_a_wrong_element_ends_with_its_own_code(self):
        for words in (("--sizes", "4K"), ("--sizes", "1M", "--repeat", 3)):
            with self.subTest(words=words):
                done = run(
                    "gpt_bench", "comm", "--what", "flat", *words, "--place", "in", ranks=2,
                    environment={"GPT_FAULT": "bench.sum:throw@rank=1,hit=1"},
                )  # fmt: skip
                self.assert_refused(done, BAD_NUMBERS, "1 elements are wrong")
                self.assertRegex(done.out, r"flat .* 1 +1\.00x")

    def test_sizes_by_a_factor(self):
        _, figures = self.bench("comm", "--what", "flat", "--min-bytes", 4, "--max-bytes", "1K", "--repeat", 1)
        self.assertEqual(sorted({row["bytes"] for row in figures["results"]}), [4, 16, 64, 256, 1024])

    def test_memory(self):
        done, figures = self.bench("comm", "--memory", "true", "--sizes", "4M", "--iterations", 2, ranks=2)
        self.assertEqual(figures["wrong"], 0)
        self.assertTrue(figures["shared_memory"])
        self.assertEqual((figures["bytes"], figures["ranks"], figures["stream_bytes"]), (4 << 20, 2, 24 << 20))
        expected = 3 / 6 * figures["stream"]["median_s"] / figures["reduce_scatter"]["median_s"]
        self.assertAlmostEqual(figures["share_in_place"], expected)
        self.assertRegex(done.out, r"sums read in place +[0-9.]+ ms median .* % of the bandwidth .* x MPI_Allreduce")
        self.assertRegex(done.out, r"(?m)^  AdamW, gradients in the rank's own +[0-9.]+ ms median")
        for times in (figures["optimizer"], figures["optimizer_alone"]):
            self.assertEqual(len(times["times_s"]), 2)
            self.assertGreater(times["median_s"], 0)
        two_nodes = run("gpt_bench", "comm", "--memory", "true", "--sizes", "4M", "--node-layout", "1,1", ranks=2)
        self.assert_refused(two_nodes, USAGE, "--memory")

    def test_what_cannot_be_measured(self):
        for words, part in (
            (("--what", "walk"), "walk"),
            (("--inter", "walk"), "--inter walk"),
            (("--wire", "fp16"), "--wire fp16"),
            (("--wire", "fp32,bf16,fp32"), "--wire"),
            (("--collective", "walk"), "--collective walk"),
            (("--dtype", "i32"), "--dtype i32"),
            (("--sizes", "4k"), "--sizes 4k"),
            (("--sizes", "6"), "multiples of 4"),
            (("--sizes", "4,"), "--sizes"),
            (("--min-bytes", "8", "--max-bytes", "4"), "--min-bytes"),
            (("--factor", 1), "--factor"),
            (("--place", "up"), "--place up"),
            (("--place", "out", "--collective", "broadcast"), "--place out"),
            (("--iterations", 0), "--iterations"),
            (("--repeat", -1), "--repeat"),
            (("--window", 0), "--window"),
            (("--node-layout", "3"), "--node-layout"),
            (("--dtype", "bf16", "--what", "mpi", "--sizes", "4K"), "bf16"),
        ):
            with self.subTest(words=words):
                self.assert_refused(run("gpt_bench", "comm", *words), USAGE, part)
        for words, part in (
            (("--dtype", "bf16", "--sizes", "4K"), "leave mpi out"),
            (("--node-layout", "1,1,1", "--inter", "halving", "--sizes", "4K"), "--inter halving needs"),
        ):
            with self.subTest(words=words):
                self.assert_refused(run("gpt_bench", "comm", *words, ranks=3), USAGE, part, times=1)
        done = run("gpt_bench", "comm", "--sizes", "4", "--repeat", 1, "--json", "/nowhere/x.json")
        self.assert_refused(done, USAGE, "/nowhere/x.json")


class Scaling(Bench):
    def test_weak_and_strong(self):
        done, figures = self.bench(
            "scaling", *TINY_MODEL, "--ranks", "1,2,3", "--steps", 1, "--rounds", 2, "--global-batch", 5,
            "--node-layout", "2,1", ranks=3,
        )  # fmt: skip
        points = figures["points"]
        self.assertEqual([(p["kind"], p["ranks"], p["nodes"]) for p in points],
                         [(kind, ranks, nodes) for kind in ("weak", "strong")
                          for ranks, nodes in ((1, 1), (2, 1), (3, 2))])  # fmt: skip
        for point in points:
            sequences = 5 if point["kind"] == "strong" else point["ranks"]
            self.assertEqual(point["tokens_per_step"], 8 * sequences)
            self.assertEqual(len(point["steps_s"]), 2)
            self.assertAlmostEqual(point["tokens_per_s"], point["tokens_per_step"] / point["step_s"], delta=1)
            if point["ranks"] == 1:
                self.assertEqual(point["efficiency"], 1.0)
                continue
            self.assertGreaterEqual(point["exposed_s"], 0)
            self.assertEqual(len(point["ready_s"]), len(point["section_bytes"]))
            self.assertLessEqual(max(point["ready_s"]), point["backward_end_s"] * (1 + 1e-9))
        self.assertEqual(len(re.findall(r"(?m)^ +\d \|#", done.out)), 6)

    def test_sums_and_norms_are_right_however_the_optimizer_state_is_divided(self):
        """All ranks have the same sequence, so that the mean gradient is that of one rank."""
        norms = []
        for zero, plan in ((0, ""), (1, "ZeRO-1"), ("node", "ZeRO-1 in the node")):
            for layout in ("2,1", "1,1,1"):
                _, figures = self.bench(
                    "scaling", *TINY_MODEL, "--zero", zero, "--kind", "weak", "--steps", 1, "--rounds", 1,
                    "--node-layout", layout, ranks=3,
                )  # fmt: skip
                self.assertIn(plan, figures["plan"])
                points = figures["points"]
                self.assertEqual([point["ranks"] for point in points], [1, 2, 3])
                norms += [((zero, layout, point["ranks"]), point["grad_norm"]) for point in points]
        alone = norms[0][1]
        self.assertGreater(alone, 0)
        for case, norm in norms:
            self.assertAlmostEqual(norm / alone, 1, delta=1e-5, msg=case)

    def test_bf16(self):
        """In fp32 the same but for rounding; with ZeRO-1, where ranks spread bf16 weights, the same bits."""
        norms = {}
        for precision, zero in (("fp32", 0), ("bf16", 0), ("bf16", 1)):
            _, figures = self.bench(
                "scaling", *TINY_MODEL, "--precision", precision, "--zero", zero, "--kind", "weak", "--ranks", 2,
                "--steps", 1, "--rounds", 1, ranks=2,
            )  # fmt: skip
            self.assertEqual(figures["precision"], precision)
            norms[precision, zero] = figures["points"][0]["grad_norm"]
        self.assertEqual(norms["bf16", 0], norms["bf16", 1])
        self.assertNotEqual(norms["bf16", 0], norms["fp32", 0])
        self.assertAlmostEqual(norms["bf16", 0] / norms["fp32", 0], 1, delta=0.03)

    def test_the_plan_is_named_by_what_is_in_effect(self):
        one_step = ("--kind", "weak", "--ranks", 2, "--steps", 1, "--rounds", 1)
        for layout, name in (("", "hierarchical/fp32"), ("1,1", "hierarchical/direct/fp32,bf16")):
            words = ("--wire", "fp32,bf16", "--inter", "halving", "--node-layout", layout)
            done, figures = self.bench("scaling", *TINY_MODEL, *one_step, *words, ranks=2)
            self.assertEqual(figures["plan"], name)
            self.assertIn(f", {name}, buckets of", done.out)

    def test_a_plot(self):
        self.need(shutil.which("gnuplot"), "gnuplot is not installed")
        plot = self.path("scaling.svg")
        self.bench("scaling", *TINY_MODEL, "--steps", 1, "--rounds", 1, "--plot", plot, ranks=2)
        self.assertIn("tokens per second", plot.read_text(encoding="utf-8"))

    def test_a_plot_without_gnuplot(self):
        gnuplot = self.path("bin") / "gnuplot"
        gnuplot.parent.mkdir()
        gnuplot.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
        gnuplot.chmod(0o755)
        done = run(
            "gpt_bench", "scaling", *TINY_MODEL, "--steps", 1, "--rounds", 1, "--plot", self.path("no.svg"),
            environment={"PATH": f"{gnuplot.parent}:{os.environ['PATH']}"},
        )  # fmt: skip
        self.assert_refused(done, USAGE, "gnuplot is missing")
        self.assertEqual(done.out, "", "nothing is measured")

    def test_what_cannot_be_measured(self):
        for words, part in (
            (("--kind", "wide"), "--kind wide"),
            (("--ranks", "3"), "--ranks 3"),
            (("--ranks", "2,1"), "--ranks 2,1"),
            (("--micro-batch", 0), "--micro-batch"),
            (("--global-batch", 1), "--global-batch"),
            (("--reduction", "tree"), "--reduction tree"),
            (("--wire", "fp16"), "--wire fp16"),
            (("--precision", "fp16"), "--precision fp16"),
        ):
            with self.subTest(words=words):
                self.assert_refused(run("gpt_bench", "scaling", *TINY_MODEL, *words, ranks=2), USAGE, part)
        uneven = ("--node-layout", "1,1,1", "--inter", "halving")
        self.assert_refused(run("gpt_bench", "scaling", *TINY_MODEL, *uneven, ranks=3), USAGE, "--inter halving", times=1)


class Model(Bench):
    def test_an_example_by_hand(self):
        """Two layers of 250 000 elements, 1 MB each; backward's halves end at 2 and 3 s. Between 2 nodes all of a
        message's bytes travel: at 0.016 Gbit/s half a second each, of which the first is hidden."""
        done, figures = self.bench(
            "model", "--parameters", 500000, "--layers", 2, "--step-ms", 3000, "--bucket-mb", 0.1, "--nodes", "1,2",
            "--ranks-per-node", 1, "--inter-gbps", 0.016, "--latency-us", 0,
        )  # fmt: skip
        alone, pair = figures["predictions"]
        self.assertAlmostEqual(alone["step_s"], 3.0)
        self.assertAlmostEqual(pair["communication_s"], 1.0)
        self.assertAlmostEqual(pair["step_s"], 3.5)
        self.assertAlmostEqual(pair["efficiency"], 3.0 / 3.5)
        self.assertRegex(done.out, r"(?m)^ +2 +2 +1000\.00 +500\.00 +3500\.00 ")

    def comm_file(self, name, nodes, seconds_per_byte, latency, ranks_per_node=1, block=65536, inside=0.0):
        """What gpt_bench comm would write of a ring with these constants; `inside`: seconds a byte in the node."""

        def seconds(size):
            between = 2 * (nodes - 1) * latency + 2 * (nodes - 1) / nodes * size * seconds_per_byte
            in_node = 2 * (ranks_per_node - 1) / ranks_per_node * size * inside
            return between + in_node / max(1, math.ceil(size / ranks_per_node / block))

        rows = [
            {"bytes": size, "implementation": "hierarchical/ring/fp32", "in_place": True, "median_s": seconds(size)}
            for size in (1 << 10, 1 << 20, 1 << 25)
        ]
        file = self.path(name)
        file.write_text(json.dumps({
            "benchmark": "comm",
            "collective": "all_reduce",
            "dtype": "f32",
            "ranks_per_node": [ranks_per_node] * nodes,
            "implementations": [{"name": "hierarchical/ring/fp32", "what": "hierarchical", "inter": "ring",
                                 "wire_node": "f32", "wire_peers": "f32", "block_bytes": block, "window": 16,
                                 "shared_memory": True},
                                {"name": "tree", "what": "tree", "inter": "", "wire_node": "f32",
                                 "wire_peers": "f32"}],
            "results": rows,
        }), encoding="utf-8")  # fmt: skip
        return file

    def test_a_fit_and_other_links(self):
        file = self.comm_file("two.json", nodes=2, seconds_per_byte=1e-8, latency=50e-6)
        words = ("model", "--step-ms", 100, "--nodes", "4", "--ranks-per-node", 1, "--fit", file)
        _, figures = self.bench(*words)
        self.assertAlmostEqual(figures["inter"]["latency_s"], 50e-6, delta=1e-9)
        self.assertAlmostEqual(figures["inter"]["seconds_per_byte"], 1e-8, delta=1e-12)
        # A fifth of the rate, used as well: 0.8 of 1 Gbit/s become 0.8 of 0.2.
        _, slower = self.bench(*words, "--fit-gbps", 1, "--inter-gbps", 0.2)
        self.assertAlmostEqual(slower["inter"]["seconds_per_byte"], 5e-8, delta=1e-11)
        _, given = self.bench(*words, "--inter-gbps", 8, "--latency-us", 3)
        self.assertAlmostEqual(given["inter"]["seconds_per_byte"], 1e-9, delta=1e-15)
        self.assertAlmostEqual(given["inter"]["latency_s"], 3e-6, delta=1e-12)

    def test_a_fit_counts_the_blocks_that_were_measured(self):
        """Of the hop inside the node only one block's share stands beside the other hop."""
        inside = 8e-9 / 2
        links = ("--intra-gbps", 2, "--intra-latency-us", 0)
        for block in (65536, 1 << 20, 1 << 26):
            file = self.comm_file(f"{block}.json", 2, 1e-8, 50e-6, ranks_per_node=2, block=block, inside=inside)
            _, figures = self.bench("model", "--step-ms", 100, "--nodes", "2", "--fit", file, *links)
            self.assertAlmostEqual(figures["inter"]["latency_s"], 50e-6, delta=1e-9)
            self.assertAlmostEqual(figures["inter"]["seconds_per_byte"], 1e-8, delta=1e-12)

    def test_from_measurements(self):
        """What the other commands write is what this one reads."""
        links, steps = self.path("links.json"), self.path("steps.json")
        comm = ("comm", "--what", "hierarchical", "--sizes", "64K,1M", "--iterations", 2, "--node-layout", "1,1")
        self.assertEqual(run("gpt_bench", *comm, "--json", links, ranks=2).code, 0)
        scaling = ("scaling", *TINY_MODEL, "--kind", "weak", "--steps", 1, "--rounds", 2, "--node-layout", "1,1")
        self.assertEqual(run("gpt_bench", *scaling, "--json", steps, ranks=2).code, 0)
        _, figures = self.bench(
            "model", "--fit", links, "--step-from", steps, "--nodes", "2,4", "--ranks-per-node", 1
        )
        pair, four = figures["predictions"]
        measured = json.loads(steps.read_text(encoding="utf-8"))["points"][1]
        self.assertEqual(pair["measured_step_s"], measured["step_s"])
        self.assertGreaterEqual(pair["step_s"], measured["without_communication_s"] * (1 - 1e-9))
        self.assertNotIn("measured_step_s", four)
        self.assertGreaterEqual(four["communication_s"], pair["communication_s"])
        for prediction, ranks in ((pair, 2), (four, 4)):  # measured or not: 8 tokens a rank, as in the file
            self.assertAlmostEqual(prediction["tokens_per_s"] * prediction["step_s"], 8 * ranks, delta=1e-6)

    def test_a_step_measured_now(self):
        _, figures = self.bench("model", *TINY_MODEL, "--nodes", "1,2", "--threads", 1)
        self.assertGreater(figures["predictions"][0]["step_s"], 0)

    def test_what_cannot_be_predicted(self):
        broken = self.path("broken.json")
        broken.write_text('{"benchmark": "comm", "collective": "all_reduce"}', encoding="utf-8")
        memory = self.path("memory.json")
        memory.write_text('{"benchmark": "memory"}', encoding="utf-8")
        other = self.comm_file("other.json", nodes=2, seconds_per_byte=1e-8, latency=0)
        for words, part in (
            (("--nodes", "0"), "--nodes 0"),
            (("--nodes", "x"), "--nodes x"),
            (("--ranks-per-node", 0), "--ranks-per-node"),
            (("--inter-gbps", -1), "--inter-gbps"),
            (("--inter-gbps", "nan"), "--inter-gbps"),
            (("--parameters", 1000), "--step-ms"),
            (("--step-ms", 1, "--optimizer-ms", 2), "--optimizer-ms"),
            (("--nodes", "3", "--step-ms", 1, "--inter", "halving"), "power of two"),
            (("--fit", "/nowhere.json"), "/nowhere.json"),
            (("--fit", broken), str(broken)),
            (("--fit", other, "--implementation", "flat"), "of those it has: hierarchical/ring/fp32, tree"),
            (("--fit", other, "--implementation", "tree"), "knows no sums along a tree"),
            (("--step-ms", 1, "--step-from", other), str(other)),
            (("--step-ms", 1, "--fit", memory), "of gpt_bench comm --memory true"),
            (("--fit-gbps", 1), "--fit-gbps"),
        ):
            with self.subTest(words=words):
                self.assert_refused(run("gpt_bench", "model", *words), USAGE, part)
        self.assert_refused(run("gpt_bench", "model", "--step-ms", 1, ranks=2), USAGE, "without mpirun")


class Save(Bench):
    words = ("--preset", "char-cpu", "--context", 8, "--vocab", 64, "--rounds", 2)

    def test_checkpoints_beside_plain_writes(self):
        for ranks, more in ((None, ()), (2, ()), (2, ("--zero", 1))):
            with self.subTest(ranks=ranks, more=more):
                folder = self.path(f"disk{ranks}{len(more)}")
                folder.mkdir()
                done, figures = self.bench(
                    "save", *self.words, "--steps", 2, "--folder", folder, *more, ranks=ranks
                )
                self.assertEqual(list(folder.iterdir()), [])
                # weights and two moments; matrices of 4 blocks and of the embeddings, and the vectors, padded
                weights = 4 * 12 * 128**2 + (128 + 8) * 128 + 7 * 1024
                self.assertEqual(figures["state_bytes"], 3 * 4 * weights)
                self.assertGreater(figures["file_bytes"], figures["state_bytes"])
                self.assertLessEqual(figures["copied_bytes"], figures["state_bytes"])
                for what in ("checkpoint", "plain", "stall", "copy"):
                    self.assertEqual(len(figures[what]["times_s"]), 2, what)
                    self.assertGreater(figures[what]["least_s"], 0, what)
                self.assertEqual(len(figures["step"]["times_s"]), 4)
                self.assertGreaterEqual(len(figures["step_beside"]["times_s"]), 2)
                share = figures["plain"]["median_s"] / figures["checkpoint"]["median_s"]
                self.assertAlmostEqual(figures["share"], share, places=9)
                self.assertIn(f"bandwidth of checkpoints: {100 * share:.1f} % of plain writes", done.out)

    def test_what_cannot_be_measured(self):
        for words, part in ((("--folder", self.path("none")), "--folder"), (("--zero", "node"), "--zero"),
                            (("--rounds", 0), "--rounds")):  # fmt: skip
            self.assert_refused(run("gpt_bench", "save", *self.words[:6], *words), USAGE, part)

    def test_a_save_that_fails_ends_it_and_leaves_nothing(self):
        folder = self.path("disk")
        folder.mkdir()
        done = run(
            "gpt_bench", "save", *self.words, "--steps", 0, "--folder", folder, ranks=2,
            environment={"GPT_FAULT": "save.reserve:full@hit=4"},
        )  # fmt: skip
        self.assert_refused(done, SAVING_FAILED, "No space left on device")
        self.assertEqual(list(folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
