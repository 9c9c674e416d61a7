"""Options, refusals and messages of the programs, and how they take what a launcher gives them."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import unittest

from harness import MPIRUN, TINY, TOP, USAGE, SystemTest, execute, options, program, run

REFUSED = [
    # option, value, more options
    ("micro_batch", "-1", {}),
    ("micro_batch", "0", {}),
    ("micro_batch", "4294967297", {}),
    ("micro_batch", "1e3", {}),
    ("micro_batch", "", {}),
    ("global_batch", "0", {}),
    ("global_batch", "13", {}),
    ("global_batch", "18446744073709551620", {}),
    ("lr", "nan", {}),
    ("lr", "inf", {}),
    ("lr", "-1", {}),
    ("lr", "0.1x", {}),
    ("beta1", "1", {}),
    ("beta2", "0.99999999", {}),  # 1 in f32
    ("eps", "0", {}),
    ("eps", "1e-40", {}),  # 0 in f32 without subnormal numbers
    ("clip", "-1", {}),
    ("dropout", "1", {}),
    ("dropout", "nan", {}),
    ("heads", "3", {}),
    ("heads", "0", {}),
    ("layers", "-2", {}),
    ("width", "99999999999", {}),
    ("context", "0", {}),
    ("vocab", "3", {}),
    ("steps", "-5", {}),
    ("epochs", "nan", {}),
    ("schedule", "cosinus", {}),
    ("precision", "fp16", {}),
    ("rounding", "up", {"precision": "bf16"}),
    ("rounding", "stochastic", {}),
    ("rounding", "stochastic", {"precision": "fp32"}),
    ("device", "tpu", {}),
    ("attention", "flash", {}),
    ("attention", "cudnn", {"device": "cpu"}),
    ("reduction", "ring", {}),
    ("preset", "gpt5", {}),
    ("threads", "-1", {}),
    ("threads", str(16 * os.sysconf("SC_NPROCESSORS_ONLN") + 1), {}),
    ("seed", "-1", {}),
    ("seed", "18446744073709551616", {}),
    ("keep", "0", {}),
    ("keep_every", "-1", {}),
    ("save_every", "-1", {}),
    ("bias", "maybe", {}),
    ("eval_only", "perhaps", {}),
    ("node_layout", "2,2", {}),
    ("node_layout", "x", {}),
    ("resume", "nosuchfile.h5", {}),
]


class Options(SystemTest):
    def test_bad_values_are_refused_before_any_work(self):
        for option, value, more in REFUSED:
            with self.subTest(option=option, value=value):
                out = self.path("out")
                done = self.start(self.synth(), out, **({"steps": 1} | more | {option: value}))
                self.assert_refused(done, USAGE, option.replace("_", "-"))
                self.assertFalse(out.exists(), "something was written")

    def test_a_refusal_is_printed_once_and_has_one_code_on_every_rank(self):
        done = self.start(self.synth(), self.path("out"), ranks=3, lr="nan", steps=1)
        self.assert_refused(done, USAGE, "--lr nan", times=1)

    def test_what_does_not_fit_the_nodes_is_refused_before_the_folder_is_held(self):
        for more in ({}, {"reduction": "auto"}, {"eval_only": True}):
            with self.subTest(**more):
                out = self.path("out")
                changes = {"node_layout": "1,1,1", "inter": "halving", "steps": 1} | more
                done = self.start(self.synth(), out, ranks=3, **changes)
                self.assert_refused(done, USAGE, "--inter halving needs a power of two of nodes", times=1)
                self.assertNotIn("MPI_ABORT", done.text)
                self.assertFalse(out.exists(), "something was written")

    def test_unknown_and_abbreviated_options_are_refused(self):
        for words in (["--learning-rate", "1"], ["--step", "3"], ["--steps"], ["stray"], ["--steps", "1", "--steps", "2"]):
            with self.subTest(words=words):
                done = run("gpt_mpi", "--data", self.synth(), "--out", self.path("out"), *words)
                self.assert_refused(done, USAGE)
                self.assertFalse(self.path("out").exists())

    def test_a_missing_dataset_says_how_to_make_one(self):
        done = self.start(self.path("nothing"), self.path("out"), steps=1)
        self.assert_refused(done, USAGE, self.path("nothing"), "gpt_data pack")
        self.assertFalse(self.path("out").exists())

    def test_packing_refuses_negative_seeds_and_unknown_escapes(self):
        text = self.path("text.txt")
        text.write_text("some words\n" * 1000, encoding="utf-8")
        for option, value in (("--seed", "-1"), ("--document-separator", "\\x"), ("--document-separator", "a\\")):
            for command in ("pack", "synth") if option == "--seed" else ("pack",):
                with self.subTest(option=option, value=value, command=command):
                    words = ("--input", text) if command == "pack" else ()
                    out = self.path("out")
                    done = run("gpt_data", command, *words, "--out", out, f"{option}={value}")
                    self.assert_refused(done, USAGE, option, value)
                    self.assertFalse(out.exists(), "something was written")

    def test_packing_says_how_fast_it_was(self):
        text = self.path("text.txt")
        text.write_text("some words\n" * 100_000, encoding="utf-8")
        for tokenizer in ("bytes", "chars"):
            out = self.path(f"out-{tokenizer}")
            done = run("gpt_data", "pack", "--input", text, "--out", out, "--tokenizer", tokenizer)
            self.assertEqual(done.code, 0, str(done))
            number = r"(\d+\.\d+)"
            form = rf"gpt_data: 1\.1 MB of text in {number} s, {number} MB/s; {number} s of a core, {number} MB/s\n"
            said = re.fullmatch(form, done.err)
            self.assertTrue(said, str(done))
            seconds, rate, *_ = map(float, said.groups())
            self.assertAlmostEqual(rate * seconds, 1.1, delta=0.006 * rate + 0.06 * seconds)

    def test_shards_too_short_for_a_window_are_warned_of(self):
        text = self.path("text.txt")
        text.write_text("a hundred letters\n" * 6, encoding="utf-8")
        done = run("gpt_data", "pack", "--input", text, "--out", self.path("out"))
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("warning: a training shard has only", done.err)
        done = run("gpt_data", "synth", "--out", self.path("synth"), "--tokens", 20_000, "--shards", 4)
        self.assertNotIn("warning", done.err)

    def test_settings_without_effect_are_said(self):
        done = self.start(self.synth(), self.path("out"), steps=3, warmup=5, zero="1")
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("notice: --warmup 5 is not over after the 3 steps of this run", done.out)
        self.assertIn("notice: --zero 1 has no effect here: there is one rank", done.out)
        done = self.start(self.synth(), self.path("both"), ranks=2, steps=6, warmup=5, zero="1")
        self.assertEqual(done.code, 0, str(done))
        for option in ("--warmup", "--zero"):
            self.assertNotIn(f"notice: {option}", done.out)

    def test_help_and_version(self):
        for name in ("gpt_mpi", "gpt_data", "gpt_sample", "gpt_ckpt", "gpt_bench"):
            done = run(name, "--help")
            self.assertEqual(done.code, 0, str(done))
            self.assertIn("--", done.out)
            done = run(name, "--version")
            self.assertEqual(done.code, 0, str(done))
        version = run("gpt_mpi", "--version").out
        self.assertIn("HDF5", version)
        self.assertRegex(version, r"(?s)compiled.*loaded|loaded.*compiled")

    def test_a_configuration_file_yields_to_the_command_line(self):
        config = self.path("c.ini")
        config.write_text("steps = 3\nlr = 0.002\n", encoding="utf-8")
        trained = self.train(self.synth(), self.path("out"), config=config, steps=None, lr=None)
        self.assertEqual(len(trained.losses()), 3)
        again = self.train(self.synth(), self.path("out2"), config=config, steps=2, lr=None)
        self.assertEqual(len(again.losses()), 2)
        config.write_text("stepps = 3\n", encoding="utf-8")
        self.assert_refused(self.start(self.synth(), self.path("out3"), config=config), USAGE, "stepps")
        self.assert_refused(self.start(self.synth(), self.path("out3"), config=self.path("no.ini")), USAGE, "no.ini")

    def test_the_effective_configuration_repeats_the_run(self):
        trained = self.train(self.synth(), self.path("out"), steps=4)
        config = trained.folder / "config.ini"
        done = run("gpt_mpi", "--config", config, "--out", self.path("again"))
        self.assertEqual(done.code, 0, str(done))
        again = type(trained)(self.path("again"))
        self.assertEqual(trained.losses(), again.losses())

    def test_a_finished_run_says_so(self):
        out = self.path("out")
        trained = self.train(self.synth(), out, steps=3, save_every=3)
        before = {path: path.read_bytes() for path in (out / "checkpoints").iterdir()}
        done = self.start(self.synth(), out, steps=3, save_every=3)
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("finished", done.text)
        self.assertEqual(before, {path: path.read_bytes() for path in (out / "checkpoints").iterdir()})
        self.assertEqual(len(trained.events("step")), 3)

    def german(self):
        """Environment of a locale that writes 0,003: one of the machine, or one made here."""
        folder = self.path("locales")
        folder.mkdir()
        made = {"LC_ALL": "de_DE.UTF-8", "LOCPATH": str(folder)}
        if shutil.which("localedef"):
            subprocess.run(
                ["localedef", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"], capture_output=True, check=False
            )
        show = "import locale as l; l.setlocale(l.LC_ALL, ''); print(l.localeconv()['decimal_point'])"
        for environment in (made, {"LC_ALL": "de_DE.UTF-8"}, {"LC_ALL": "fr_FR.UTF-8"}):
            shown = subprocess.run(
                [sys.executable, "-c", show], env=os.environ | environment, capture_output=True, text=True, check=False
            )
            if shown.stdout.strip() == ",":
                return environment
        return None

    def test_results_do_not_depend_on_the_locale(self):
        data = self.synth()
        environments = [{"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}]
        german = self.german()
        if german:
            environments.append(german)
        else:
            print("no locale with a decimal comma here: C and C.UTF-8 are compared alone", file=sys.stderr)
        runs = [
            self.train(data, self.path(str(number)), steps=2, lr="0.003", save_every=2, environment=environment)
            for number, environment in enumerate(environments)
        ]
        for other in runs[1:]:
            self.assertEqual(runs[0].losses(), other.losses())
            texts = [(run.folder / "config.ini").read_text(encoding="utf-8") for run in (runs[0], other)]
            self.assertEqual(*[text.replace(str(run.folder), "") for text, run in zip(texts, (runs[0], other))])
            self.assertIn("lr = 0.003\n", texts[1])
            done = self.start(data, other.folder, steps=2, lr="0.003", environment=environments[-1])
            self.assertIn("finished", done.out, str(done))

    def test_the_shipped_configurations_can_be_read(self):
        files = sorted((TOP / "configs").glob("*.ini"))
        self.assertGreater(len(files), 0)
        for file in files:
            with self.subTest(file=file.name):
                gone = self.path("gone")
                done = run("gpt_mpi", "--config", file, "--data", gone, "--out", self.path("out"))
                self.assert_refused(done, USAGE, f"no dataset in {gone}")


class Launch(SystemTest):
    def test_tasks_that_mpi_sees_as_singletons_are_refused(self):
        step = {"SLURM_JOB_ID": "1", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2"}
        done = self.start(self.synth(), self.path("out"), steps=1, environment=step)
        self.assert_refused(done, USAGE, "--mpi=pmix")
        self.assertFalse(self.path("out").exists())

    def test_one_task_steps_and_mpirun_in_an_allocation_work(self):
        one = {"SLURM_JOB_ID": "1", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}
        self.train(self.synth(), self.path("one"), steps=1, environment=one)
        allocation = {"SLURM_NTASKS": "4"}
        self.train(self.synth(), self.path("two"), steps=1, ranks=2, environment=allocation)

    def test_a_pretended_layout_is_logged(self):
        done = self.start(
            self.synth(),
            self.path("out"),
            ranks=4,
            node_layout="1,1,1,1",
            reduction="hierarchical",
            device="cpu",
            steps=1,
            warmup=0,
        )
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("4 ranks on 4 nodes", done.out)
        self.assertRegex(done.out, r"(?m)^--node-layout splits host \S+ into 4 nodes$", str(done))
        self.assertIn("hierarchical, 1 rank a node", done.out, str(done))
        self.assertNotIn("notice: ", done.text, str(done))

    def test_far_more_threads_than_cores_are_refused(self):
        cores = os.sysconf("SC_NPROCESSORS_ONLN")
        said = (f"--threads 100000: this machine has {cores} core", f"use up to {16 * cores}")
        self.assert_refused(self.start(self.synth(), self.path("out"), ranks=2, threads=100000), USAGE, *said, times=1)
        for command in ("step", "peers", "generate", "scaling", "model"):
            self.assert_refused(run("gpt_bench", command, "--threads", 100000), USAGE, *said)
        self.assert_refused(run("gpt_sample", "--threads", 100000), USAGE, *said)

    def test_threads_beyond_the_cores_are_warned_of(self):
        core = min(os.sched_getaffinity(0))

        def bind():
            os.sched_setaffinity(0, {core})

        done = self.start(self.synth(), self.path("out"), steps=1, threads=4, before=bind)
        self.assertEqual(done.code, 0, str(done))
        self.assertRegex(done.text, r"(?i)4 threads.*1 core|1 core.*4 threads")
        done = self.start(self.synth(), self.path("auto"), steps=1, threads=None, before=bind)
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("1 thread", done.text)
        self.assertNotRegex(done.text, r"(?i)warning")

    def test_ranks_whose_threads_share_cores_are_warned_of(self):
        cores = sorted(os.sched_getaffinity(0))[:2]

        def bind():
            os.sched_setaffinity(0, cores)

        for threads in (len(cores), len(cores) + 1):
            done = self.start(
                self.synth(), self.path(str(threads)), ranks=2, steps=1, threads=threads, before=bind
            )
            self.assertEqual(done.code, 0, str(done))
            self.assertEqual(len(re.findall("warning: ", done.text)), 1, str(done))
            shared = rf"{threads} threads? each, and 2 ranks share {len(cores)} core"
            beyond = rf"{threads} threads? on {len(cores)} core"
            self.assertRegex(done.out, rf"warning: 2 ranks from rank 0 on: {shared if threads == len(cores) else beyond}")

    def two_ranks(self, out, second):
        """A run whose rank 1 begins with the shell's words in `second`."""
        command = shlex.join([program("gpt_mpi"), *options({"data": self.synth(), "out": out} | TINY | {"steps": 1})])
        script = f'test "$OMPI_COMM_WORLD_RANK" = 0 || {second}; exec {command}'
        return execute([str(MPIRUN), "2", "sh", "-c", script])

    def test_ranks_of_different_builds_are_refused(self):
        other = self.path("gpt_mpi")
        shutil.copy(program("gpt_mpi"), other)
        with open(other, "ab") as file:
            file.write(b"another build")
        words = options({"data": self.synth(), "out": self.path("out")} | TINY | {"steps": 1})
        done = self.two_ranks(self.path("out"), f"exec {shlex.join([str(other), *words])}")
        host = socket.gethostname()
        self.assert_refused(done, USAGE, "executable: ", f"on rank 0 ({host})", f"on rank 1 ({host})")
        self.assertNotIn("HDF5", done.err)
        self.assertFalse(self.path("out").exists())

    def test_settings_of_one_rank_alone_are_named(self):
        done = self.two_ranks(self.path("out"), "export NCCL_PROTO=LL LANG=C.other")
        self.assertEqual(done.code, 0, str(done))
        host = socket.gethostname()
        warning = f"warning: NCCL_PROTO is not the same everywhere: LL on rank 1 ({host}); not set on rank 0 ({host})"
        self.assertEqual(done.out.count("not the same everywhere"), 1, str(done))
        self.assertIn(warning, done.out)

    def test_threads_default_to_the_share_of_the_cores(self):
        cores = len(os.sched_getaffinity(0))
        done = self.start(self.synth(), self.path("out"), ranks=2, steps=1, threads=None)
        self.assertEqual(done.code, 0, str(done))
        self.assertIn(f"{max(1, cores // 2)} thread", done.text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
