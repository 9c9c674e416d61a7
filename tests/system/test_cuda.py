"""Training on GPUs. Without one the CUDA code runs on its stand-in, in builds that have that instead of CUDA. Classes
OnGpus: what both must do; OnTheStandin: what only the stand-in shows; WithoutGpu: what a build says and does where
there is no GPU at all.

GPT_CUDA_BACKEND is the backend that was built: OFF, ON or STANDIN. GPT_FAKE_NVML is the folder of a libnvidia-ml.so.1
for tests (tests/support/nvml).
"""

import json
import os
import re
import subprocess
import unittest

from harness import (
    SANITIZED,
    FAILED,
    MPIRUN,
    RANK_FAILED,
    TINY,
    USAGE,
    Run,
    SystemTest,
    execute,
    options,
    program,
    run,
)

BACKEND = os.environ.get("GPT_CUDA_BACKEND", "OFF")
REFUSED = 14  # preflight
CLOSE = 1e-4  # what fp32 losses of 20 steps may differ by
CLOSE_BF16 = 2e-2


STANDIN_GPUS = 8
READINGS = ("gpu_memory_bytes", "gpu_process_bytes", "gpu_watts", "gpu_celsius", "gpu_sm_mhz")


def gpus(count):
    """The environment of a machine with so many GPUs."""
    return {"GPT_CUDA_STANDIN_DEVICES": str(count), "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(count)))}


def gpus_here():
    if BACKEND != "ON":
        return STANDIN_GPUS if BACKEND == "STANDIN" else 0
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return 0
    return len(re.findall(r"(?m)^GPU ", listed))


class WithoutGpu(SystemTest):
    def setUp(self):
        if BACKEND == "ON":
            found = run("gpt_mpi", "--device", "cuda", "--data", self.synth(), "--out", self.path("probe"))
            self.need(found.code == REFUSED, "a GPU is here")

    def test_it_trains_on_the_cpu(self):
        out = self.path("out")
        done = self.start(self.synth(), out, steps=3, device="auto")
        self.assertEqual(done.code, 0, str(done))
        self.assertRegex(done.out, r"(?m)^.*\bCPU, 1 thread\b")
        self.assertEqual(done.out.count("no GPU is visible"), 0 if BACKEND == "OFF" else 1, str(done))
        self.assertEqual(sorted(Run(out).losses()), [1, 2, 3])

    def test_the_gpu_backend_was_built(self):
        if not SANITIZED:  # those builds are the CPU's alone
            self.need(BACKEND != "OFF", "there is no CUDA toolkit, or no NCCL")

    def test_cuda_is_refused_and_nothing_is_written(self):
        out = self.path("out")
        for ranks in (None, 2):
            done = self.start(self.synth(), out, ranks=ranks, steps=3, device="cuda")
            self.assert_refused(done, USAGE if BACKEND == "OFF" else REFUSED, "--device cuda")
            self.assertFalse(out.exists())

    def test_attention_by_cudnn_is_refused_and_nothing_is_written(self):
        out = self.path("out")
        for ranks in (None, 2):
            done = self.start(self.synth(), out, ranks=ranks, steps=3, device="auto", attention="cudnn")
            self.assert_refused(done, USAGE, "--attention cudnn", "--attention own")
            self.assertFalse(out.exists())


class GpuTest(SystemTest):
    def need_gpus(self, count):
        self.need(gpus_here() >= count, f"{count} GPUs are needed, {gpus_here()} are here")

    def gpu(self, name, ranks=1, environment=None, **changes):
        self.need_gpus(ranks)
        return self.train(
            self.synth(),
            self.path(name),
            ranks=ranks,
            device="cuda",
            environment=gpus(ranks) | (environment or {}),
            timeout=300,
            **changes,
        )

    def cpu(self, name, **changes):
        return self.train(self.synth(), self.path(name), device="cpu", **changes)

    def assert_close(self, losses, expected, delta=CLOSE):
        self.assertEqual(sorted(losses), sorted(expected))
        worst = max(abs(losses[step] - expected[step]) for step in expected)
        self.assertLess(worst, delta)
        return worst


class OnGpus(GpuTest):
    def setUp(self):
        self.need_gpus(1)

    def test_twenty_losses_are_those_of_the_cpu(self):
        for precision, delta in (("fp32", CLOSE), ("bf16", CLOSE_BF16)):
            with self.subTest(precision=precision):
                changes = {"steps": 20, "precision": precision, "dropout": 0.1}
                ours = self.gpu(f"gpu-{precision}", **changes)
                expected = self.cpu(f"cpu-{precision}", **changes).losses()
                worst = self.assert_close(ours.losses(), expected, delta)
                self.assertGreater(expected[1] - expected[20], 1, "nothing was learnt: the comparison means nothing")
                print(f"{precision}: losses of 20 steps differ by {worst:.1e} at most")

    def test_four_ranks_train_alike_however_gradients_travel(self):
        changes = {"steps": 6, "bucket_mb": 0.05, "micro_batch": 2, "dropout": 0.1}
        expected = self.cpu("cpu", **changes).losses()
        for name, how in {
            "flat": {"reduction": "flat"},
            "hierarchical": {"node_layout": "2,2"},
            "uneven": {"node_layout": "3,1"},
            "rounded": {"node_layout": "2,2", "wire": "fp32,bf16"},
            "zero": {"node_layout": "2,2", "zero": "1"},
            "zero-node": {"node_layout": "2,2", "zero": "node"},
        }.items():
            with self.subTest(name):
                losses = self.gpu(name, ranks=4, **changes, **how).losses()
                self.assert_close(losses, expected, CLOSE_BF16 if name == "rounded" else CLOSE)

    def test_memory_is_saved_by_computing_again(self):
        changes = {"steps": 4, "dropout": 0.1}
        expected = self.gpu("none", **changes).losses()
        for recompute in ("attention", "block"):
            with self.subTest(recompute):
                self.assert_close(self.gpu(recompute, recompute=recompute, **changes).losses(), expected)

    def test_auto_on_two_gpus(self):
        self.need_gpus(2)
        out = self.path("out")
        done = self.start(self.synth(), out, ranks=2, environment=gpus(2), steps=4, reduction="auto", inter="auto")
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("NCCL", done.out)
        self.assert_close(Run(out).losses(), self.cpu("cpu", steps=4).losses())

    def test_the_same_run_gives_the_same_bits(self):
        self.need_h5py()
        changes = {"steps": 4, "save_every": 4, "dropout": 0.1, "bucket_mb": 0.05}
        runs = [
            self.gpu(f"{streams}-{order}", ranks=2, **changes, environment={
                "GPT_CUDA_STANDIN_STREAMS": streams, "GPT_CUDA_STANDIN_ORDER": order})
            for streams, order in (("deferred", "forward"), ("eager", "reverse"), ("racing", "shuffle"))
        ]  # fmt: skip
        for other in runs[1:]:
            self.assertEqual(other.losses(), runs[0].losses())
            self.assert_same_state(other.checkpoint(4), runs[0].checkpoint(4))

    def test_a_run_goes_on_on_the_other_backend(self):
        self.need_h5py()
        changes = {"steps": 8, "save_every": 4, "dropout": 0.1}
        whole = {"cuda": self.gpu("cuda", **changes), "cpu": self.cpu("cpu", **changes)}
        for first in ("cuda", "cpu"):
            for then in ("cuda", "cpu"):
                with self.subTest(f"{first}, then {then}"):
                    resumed = self.train(
                        self.synth(),
                        self.path(f"{first}-{then}"),
                        device=then,
                        environment=gpus(1),
                        resume=whole[first].checkpoint(4),
                        **changes,
                    )
                    self.assertEqual(sorted(resumed.losses()), [5, 6, 7, 8])
                    for step, loss in resumed.losses().items():
                        self.assertAlmostEqual(loss, whole["cpu"].losses()[step], delta=CLOSE)
                    if first == then:
                        self.assert_same_state(resumed.checkpoint(8), whole[then].checkpoint(8))

    def test_rounding_draws_the_same_with_shared_state_and_after_a_resume(self):
        self.need_h5py()
        changes = {"steps": 6, "save_every": 3, "precision": "bf16", "rounding": "stochastic", "bucket_mb": 0.05}
        whole = self.gpu("whole", ranks=2, **changes)
        nearest = self.gpu("nearest", ranks=2, **(changes | {"rounding": "nearest"}))
        self.assertNotEqual(whole.losses(), nearest.losses())
        shared = self.gpu("shared", ranks=2, zero="1", **changes)
        self.assertEqual(shared.losses(), whole.losses())
        self.assert_same_state(shared.checkpoint(6), whole.checkpoint(6))
        resumed = self.gpu("resumed", ranks=2, resume=whole.checkpoint(3), **changes)
        self.assert_same_state(resumed.checkpoint(6), whole.checkpoint(6))

    def test_evaluation_and_samples_are_those_of_the_cpu(self):
        trained = self.gpu("out", steps=6, save_every=6)
        evaluate = [program("gpt_mpi"), "--data", self.synth(), "--out", self.path("none"), "--threads", "1",
                    "--eval-only", "true", "--eval-windows", "8", "--resume", trained.checkpoint(6)]  # fmt: skip
        sample = [program("gpt_sample"), "--checkpoint", trained.folder, "--temperature", "0", "--tokens", "20",
                  "--prompt", "the "]  # fmt: skip
        results = {}
        for device in ("cuda", "cpu"):
            done = execute([*map(str, evaluate), "--device", device], environment=gpus(1))
            self.assertEqual(done.code, 0, str(done))
            text = execute([*map(str, sample), "--device", device], environment=gpus(1))
            self.assertEqual(text.code, 0, str(text))
            results[device] = float(re.search(r"validation loss ([0-9.]+)", done.out)[1]), text.out
        self.assertAlmostEqual(results["cuda"][0], results["cpu"][0], delta=CLOSE)
        self.assertEqual(results["cuda"][1], results["cpu"][1])

    def test_the_log_says_which_gpu_each_rank_has(self):
        environment = {"GPT_CUDA_STANDIN_UUIDS": "a,b"}
        (start,) = self.gpu("out", ranks=2, environment=environment, steps=2).events("start")
        (devices,) = start["devices"]
        self.assertEqual(devices["ranks"], [0, 1])
        self.assertRegex(devices["name"], "^CPU stand-in .*CUDA")
        self.assertEqual([uuid[:12] for uuid in devices["uuids"]], ["GPU-0000000a", "GPU-0000000b"])
        (start,) = self.cpu("cpu", steps=1).events("start")
        (devices,) = start["devices"]
        self.assertEqual(sorted(devices), ["name", "ranks"])

    def test_one_gpu_is_not_given_to_two_ranks(self):
        done = self.start(self.synth(), self.path("out"), ranks=2, environment=gpus(1), steps=3, device="cuda")
        self.assert_refused(done, REFUSED, "rank 1", "rank 0", "GPU-")

    def test_ranks_that_do_not_all_see_a_gpu(self):
        self.need_gpus(2)

        def start(device):
            words = options({"data": self.synth(), "out": self.path(device), "device": device, "steps": 2,
                             "layers": 1, "heads": 1, "width": 32, "context": 16, "global_batch": 4, "threads": 1,
                             "sample_tokens": 0, "eval_every": 0})  # fmt: skip
            hide = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then export CUDA_VISIBLE_DEVICES=; fi; exec "$@"'
            command = [str(MPIRUN), "2", "bash", "-c", hide, "_", program("gpt_mpi"), *words]
            return execute(command, environment=gpus(2))

        mixed = start("auto")
        self.assertEqual(mixed.code, 0, str(mixed))
        self.assertIn("NOTICE: ALL RANKS COMPUTE ON THE CPU", mixed.text)
        self.assert_refused(start("cuda"), REFUSED, "--device cuda", "rank 1")

    def test_an_error_on_one_rank_ends_the_job(self):
        self.need_gpus(2)
        done = self.start(
            self.synth(),
            self.path("out"),
            ranks=2,
            device="cuda",
            environment=gpus(2) | {"GPT_FAULT": "backward:throw@rank=1,step=2,hit=2"},
            steps=4,
            bucket_mb=0.05,
        )
        self.assertEqual(done.code, FAILED, str(done))
        self.assertEqual(done.err.count("fault injected at 'backward'"), 1, str(done))

    def test_a_slow_gpu_is_reported_by_times_of_the_gpus(self):
        """The hosts are equally fast: only events on the streams tell who waits for whom."""
        delay = 0.4
        fault = {"GPT_FAULT": f"device:delay={round(delay * 1000)}@rank=1"}
        out = self.path("out")
        done = self.start(self.synth(), out, ranks=2, device="cuda", environment=gpus(2) | fault, timeout=300,
                          steps=32, log_every=10, layers=1, context=16, global_batch=4)  # fmt: skip
        self.assertEqual(done.code, 0, str(done))
        self.assertEqual(len(re.findall(r"(?m)^warning: rank 1 on \S+ is slow", done.out)), 1, str(done))
        reports = Run(out).events("ranks")
        self.assertEqual([report["step"] for report in reports], [10, 20, 30])
        for report in reports:
            slow, other = report["slowest"]
            self.assertEqual(slow["rank"], 1, report)
            self.assertGreater(slow["compute"], delay)
            self.assertGreater(other["wait"], delay / 2)
            self.assertGreater(other["reduce"], delay / 2)
            self.assertLess(other["compute"], slow["compute"] - delay / 2)
            self.assertLess(slow["wait"], other["wait"])

    def test_a_gpu_that_hangs_is_named_and_not_the_one_that_waits_for_it(self):
        values = TINY | {"data": self.synth(), "out": self.path("out"), "device": "cuda", "steps": 10, "layers": 1,
                         "context": 16, "global_batch": 4, "timeout": 10}  # fmt: skip
        fault = {"GPT_FAULT": "device:delay=600000@rank=1,hit=3"}
        done = run("gpt_mpi", *options(values), ranks=2, environment=gpus(2) | fault)
        self.assertEqual(done.code, RANK_FAILED, str(done))
        expected = r"(?m)^gpt_mpi: rank 1 on \S+ stands still in step 4 .*; rank 0 waits for it in step 4"
        self.assertRegex(done.err, expected)

    def test_what_libraries_hold_of_a_gpu_counts(self):
        """The second start has room for all that was planned before NCCL was there, and not for NCCL beside it."""
        held = 24 << 20
        nccl = {"GPT_CUDA_STANDIN_NCCL_MEMORY": str(held)}
        shape = {"steps": 1, "layers": 1, "context": 256, "global_batch": 24, "micro_batch": 24}
        memory = self.gpu("whole", environment=nccl, **shape).events("memory")[-1]
        self.assertGreaterEqual(memory["library_bytes"], held)
        self.assertLess(memory["library_bytes"], held + (1 << 20))
        needed = sum(bytes for name, bytes in memory.items() if name.endswith("_bytes"))
        self.assertGreater(needed, 110e6, "the all-reduce at the start needs more than the rest")
        room = {"GPT_CUDA_STANDIN_MEMORY": str(needed - held // 2)}
        done = self.start(self.synth(), self.path("short"), device="cuda", environment=gpus(1) | nccl | room, **shape)
        self.assert_refused(done, USAGE, "not enough memory", "libraries 25.")
    def test_attention_by_cudnn_is_refused_with_what_to_do(self):
        out = self.path("out")
        for ranks in (1, 2):
            done = self.start(self.synth(), out, ranks=ranks, device="cuda", environment=gpus(ranks), steps=2,
                              attention="cudnn", precision="bf16")  # fmt: skip
            self.assert_refused(done, USAGE, "--attention cudnn", "-DGPT_CUDNN=ON", "GPT_CUDNN_FRONTEND", "--attention own")
            self.assertFalse(out.exists())
        bench = run("gpt_bench", "step", "--device", "cuda", "--attention", "cudnn", environment=gpus(1))
        self.assert_refused(bench, USAGE, "--attention cudnn", "-DGPT_CUDNN=ON")

    def test_attention_is_kept_with_the_run(self):
        trained = self.gpu("own", steps=2, save_every=2, attention="own")
        self.assertIn("attention = own\n", (trained.folder / "config.ini").read_text(encoding="utf-8"))
        again = self.start(self.synth(), trained.folder, device="cuda", environment=gpus(1), steps=3, attention="cudnn")
        self.assert_refused(again, USAGE, "--attention cudnn")

    def test_the_tree_is_refused(self):
        self.need_gpus(2)
        done = self.start(self.synth(), self.path("out"), ranks=2, device="cuda", environment=gpus(2), steps=2,
                          reduction="tree")  # fmt: skip
        self.assert_refused(done, USAGE, "tree", "--reduction")

    def test_a_step_is_measured_by_operation(self):
        file = self.path("step.json")
        done = run("gpt_bench", "step", "--device", "cuda", "--preset", "char-cpu", "--context", 8, "--vocab", 64,
                   "--global-batch", 2, "--steps", 2, "--rounds", 1, "--python", "none", "--json", file,
                   environment=gpus(1), timeout=300)  # fmt: skip
        self.assertEqual(done.code, 0, str(done))
        self.assertRegex(done.out, r"(?m)^  MFU [0-9.]+ %: [0-9.e-]+ TFLOP in the median of steps, of ")
        figures = json.loads(file.read_text(encoding="utf-8"))
        used, found = figures["gpu"], figures["operators"]
        # char-cpu with 64 tokens, 8 positions: 4 blocks of width 128; 16 tokens a step
        parameters = 4 * (12 * 128**2 + 13 * 128) + (64 + 8 + 2) * 128
        self.assertEqual(used["model_flops"], 16 * 6 * (parameters + 4 * 128 * 8))
        mfu = used["model_flops"] / figures["gpt_mpi"]["median_s"] / used["peak_flops"]
        self.assertAlmostEqual(used["mfu"] / mfu, 1, places=6)
        self.assertEqual(used["peak_flops"], found["peak_f32_flops"])
        rows = {row["operation"]: row for row in found["operations"]}
        self.assertEqual(sum(row["flops"] for row in rows.values()), found["product_flops"])
        self.assertEqual(rows["attention"]["calls"], 4)
        for name in ("attention", "attention backward", "linear 128 x 512", "classifier and its backward", "AdamW"):
            self.assertGreater(rows[name]["seconds"], 0, name)
        timed = sum(row["seconds"] for row in rows.values()) + found["between_s"]
        self.assertAlmostEqual(timed / found["step_s"], 1, places=6)
        # The spans of a step lie in it, one after the other.
        self.assertLess(sum(row["seconds"] for row in rows.values()), 3 * max(figures["gpt_mpi"]["times_s"]))


class OnTheStandin(GpuTest):
    def setUp(self):
        self.need(BACKEND == "STANDIN", "this build has no stand-in for GPUs: GPT_CUDA=STANDIN")

    def library_in(self, folder):
        return {"LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"}

    def with_nvml(self, **more):
        """The environment of a machine whose driver has NVML, and whose GPUs are known."""
        known = {"GPT_CUDA_STANDIN_NAME": "NVIDIA H100 80GB HBM3"}
        return self.library_in(os.environ["GPT_FAKE_NVML"]) | known | more

    def test_readings_of_gpus_are_logged(self):
        run = self.gpu("out", steps=6, log_every=2, precision="bf16", environment=self.with_nvml())
        steps = {event["step"]: event for event in run.events("step")}
        self.assertEqual(sorted(steps), [1, 2, 3, 4, 5, 6])
        expected = dict(zip(READINGS, (2**30, 2**29, 300.5, 60, 1500)))
        self.assertEqual({name: steps[6][name] for name in READINGS}, expected)
        for step in (1, 3, 5):
            self.assertFalse(set(READINGS) & set(steps[step]), "not at the rhythm of --log-every")
        # 2 blocks of width 32, 32 positions; as llm.c counts
        parameters = run.events("start")[0]["parameters"]
        for event in steps.values():
            worth = 6 * (parameters + 2 * 32 * 32) * event["tokens_per_second"]
            self.assertAlmostEqual(event["mfu"] / (worth / 989e12), 1, places=6)

    def test_readings_of_all_ranks(self):
        run = self.gpu("out", ranks=2, steps=20, log_every=5, environment=self.with_nvml())
        ranks = run.events("ranks")[-1]
        self.assertEqual(ranks["gpu_celsius"], [60, 60, 61])
        self.assertEqual(ranks["gpu_watts"], [300.5, 300.5, 301.5])
        self.assertEqual({of["rank"]: of["gpu_sm_mhz"] for of in ranks["slowest"]}, {0: 1500, 1: 1501})
        last = run.events("step")[-1]
        self.assertEqual(last["gpu_watts"], 300.5)
        parameters = run.events("start")[0]["parameters"]
        worth = 6 * (parameters + 2 * 32 * 32) * last["tokens_per_second"]
        self.assertAlmostEqual(last["mfu"] / (worth / (2 * 67e12)), 1, places=6, msg="fp32, two GPUs")

    def test_what_the_driver_does_not_tell_is_left_out(self):
        broken = self.path("broken")
        broken.mkdir()
        (broken / "libnvidia-ml.so.1").write_bytes(b"")
        no_power, no_start = (
            self.with_nvml(FAKE_NVML_FAILS=function) for function in ("nvmlDeviceGetPowerUsage", "nvmlInit_v2")
        )
        for name, environment, missing, notice in (
            ("power", no_power, {"gpu_watts"}, "does not tell gpu_watts"),
            ("start", no_start, set(READINGS), "nvmlInit_v2: Not Supported"),
            ("library", self.library_in(broken), {*READINGS, "mfu"}, "libnvidia-ml.so.1"),
        ):
            with self.subTest(name):
                out = self.path(name)
                done = self.start(self.synth(), out, device="cuda", steps=6, environment=gpus(1) | environment)
                self.assertEqual(done.code, 0, str(done))
                self.assertEqual(done.text.count(notice), 1, str(done))
                last = Run(out).events("step")[-1]
                self.assertEqual(missing, {*READINGS, "mfu"} - set(last))
                self.assertEqual(done.text.count("log.jsonl has no mfu"), 1 if "mfu" in missing else 0)

    def test_a_driver_that_takes_its_time_holds_no_step_up(self):
        run = self.gpu("out", steps=10, environment=self.with_nvml(FAKE_NVML_SLEEPS="4000"))
        self.assertLess(max(event["step_seconds"] for event in run.events("step")), 3.5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
