"""gpt_mpi --preflight: what is wrong with a node is found in seconds, its name is in the line for scripts, and nothing
is written. Nodes are pretended (--node-layout), so that all of them have this host's name.

GPT_WRONG_CLOCK is a library that makes the time of day wrong (tests/support/clock).
"""

import json
import os
import re
import shutil
import time
import unittest

from harness import MPIRUN, SANITIZED, TINY, USAGE, SystemTest, execute, options, program, run

BACKEND = os.environ.get("GPT_CUDA_BACKEND", "OFF")
REFUSED = 14
LIMIT = 30  # seconds that a check may take here, where other tests run beside it


def machine_line(done):
    """What the line for scripts says."""
    lines = re.findall(r"(?m)^preflight: (\{.*\})$", done.out)
    assert len(lines) == 1, str(done)
    return json.loads(lines[0])


class PreflightTest(SystemTest):
    def words(self, data=None, out=None, slow_node=0, **changes):
        """The command of every rank. Speeds are not judged, since tests run on busy machines, unless asked for."""
        values = TINY | {"data": data or self.synth(), "out": out or self.path("run"), "slow_node": slow_node, "device": "cpu"}
        values |= changes
        return [program("gpt_mpi"), "--preflight", *options(values)]

    def check(self, ranks=4, layout="2,2", environment=None, **changes):
        command = [str(MPIRUN), str(ranks), *self.words(node_layout=layout, **changes)]
        return execute(command, environment=environment)

    def mixed(self, *parts, environment=None):
        """Ranks of several kinds: parts are (ranks, words before the command, changes)."""
        command = [str(MPIRUN)]
        for number, (ranks, before, changes) in enumerate(parts):
            command += [":", "-n"] * (number > 0)
            command += [str(ranks), *map(str, before), *self.words(**changes)]
        return execute(command, environment=environment)

    def assert_good(self, done):
        self.assertEqual(done.code, 0, str(done))
        said = machine_line(done)
        self.assertEqual((said["exit_code"], said["exclude"], said["problems"]), (0, [], []))
        return said

    def assert_refused_for(self, done, check, *nodes):
        """By that check alone, which found something on those nodes, or on none where it is the job's fault."""
        self.assertEqual(done.code, REFUSED, str(done))
        said = machine_line(done)
        self.assertEqual(said["exit_code"], REFUSED)
        self.assertEqual({problem["check"] for problem in said["problems"]}, {check}, str(done))
        self.assertEqual([problem.get("node") for problem in said["problems"]], list(nodes) or [None], str(done))
        names = {problem["name"] for problem in said["problems"] if "name" in problem}
        self.assertEqual(set(said["exclude"]), names)
        self.assertEqual(len(names), 1 if nodes else 0, "one host")
        self.assertIn("refused: ", done.out)
        return said["problems"][0]["reason"]


class Preflight(PreflightTest):
    def tearDown(self):
        self.assertFalse(self.path("run").exists(), "something was written")

    def test_good_nodes(self):
        started = time.monotonic()
        said = self.assert_good(self.check(layout="2,1,1"))
        self.assertLess(time.monotonic() - started, LIMIT * (4 if SANITIZED else 1))
        self.assertEqual([node["ranks"] for node in said["nodes"]], [[0, 1], [2], [3]])
        for node in said["nodes"]:
            self.assertGreater(node["memory_free_bytes"], 0)
            self.assertGreater(node["run_free_bytes"], 0)
            self.assertLess(abs(node["clock_ahead_s"]), 1, "one clock")
            self.assertGreater(node["between_bytes_per_second"], 0)
            self.assertEqual("inside_bytes_per_second" in node, len(node["ranks"]) > 1)

    def test_one_process_alone(self):
        done = execute(self.words())
        said = self.assert_good(done)
        self.assertEqual([node["ranks"] for node in said["nodes"]], [[0]])
        self.assertRegex(done.out, r"(?m)^1 rank on 1 node, all answered$")

    def test_a_name_of_the_batch_system_is_the_name(self):
        done = self.mixed(
            (1, ("env", "SLURMD_NODENAME=c7"), {"node_layout": "1,1"}),
            (1, ("env", "SLURMD_NODENAME=c9", "LD_PRELOAD=" + os.environ["GPT_WRONG_CLOCK"]), {"node_layout": "1,1"}),
            environment=self.wrong(60),
        )
        self.assertEqual(done.code, REFUSED, str(done))
        said = machine_line(done)
        self.assertEqual([node["name"] for node in said["nodes"]], ["c7", "c9"])
        self.assertEqual(said["exclude"], ["c9"])

    def wrong(self, seconds):
        sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        return {"WRONG_CLOCK_SECONDS": str(seconds), "ASAN_OPTIONS": sanitizer.lstrip(":")}

    def test_a_clock_that_is_off(self):
        for seconds, way in ((100, "ahead of"), (-100, "behind")):
            with self.subTest(way):
                done = self.mixed(
                    (2, (), {"node_layout": "1,1,1,1"}),
                    (1, ("env", "LD_PRELOAD=" + os.environ["GPT_WRONG_CLOCK"]), {"node_layout": "1,1,1,1"}),
                    (1, (), {"node_layout": "1,1,1,1"}),
                    environment=self.wrong(seconds),
                )
                reason = self.assert_refused_for(done, "clock", 2)
                self.assertRegex(reason, rf"^its clock is (99\.9|100\.[0-2]|9[5-9]\.\d) s {way} ")

    def test_a_slow_node(self):
        """Its sums are delayed, inside and with whomever it meets; the others meet each other."""
        fault = {"GPT_FAULT": "preflight.sum:delay=600@rank=2"}
        done = self.check(ranks=4, layout="1,1,1,1", slow_node=4, environment=fault)
        self.assert_refused_for(done, "network", 2)

    def test_another_dataset_on_a_node(self):
        """The same relative path leads elsewhere there."""
        here, there = self.path("here"), self.path("there")
        shutil.copytree(self.synth(), here / "data")
        shutil.copytree(self.synth(seed=4), there / "data")
        changes = {"data": "data", "node_layout": "2,1,1"}
        done = self.mixed((3, ("env", "-C", here), changes), (1, ("env", "-C", there), changes))
        reason = self.assert_refused_for(done, "dataset", 2)
        self.assertIn("fingerprint", reason)

    def test_a_dataset_that_a_node_cannot_read(self):
        here, there = self.path("here"), self.path("there")
        shutil.copytree(self.synth(), here / "data")
        shutil.copytree(self.synth(), there / "data")
        (there / "data" / "train-00002-of-00004.h5").unlink()
        changes = {"data": "data", "node_layout": "2,2"}
        done = self.mixed((2, ("env", "-C", here), changes), (2, ("env", "-C", there), changes))
        self.assertIn("train-00002-of-00004.h5", self.assert_refused_for(done, "dataset", 1))
        shutil.rmtree(there / "data")
        done = self.mixed((2, ("env", "-C", here), changes), (2, ("env", "-C", there), changes))
        self.assert_refused_for(done, "dataset", 1)

    def test_what_is_wrong_everywhere_is_no_nodes_fault(self):
        done = self.check(data=self.path("nowhere"))
        self.assert_refused_for(done, "dataset")
        done = self.check(global_batch=4, micro_batch=4, ranks=6, layout="3,3")
        self.assert_refused_for(done, "options")

    def test_too_little_memory(self):
        done = self.check(layers=48, width=16384, heads=64)
        self.assertIn("needed by 2 ranks", self.assert_refused_for(done, "memory"))
        said = self.check(layers=48, width=16384, heads=64, memory_check="warn")
        self.assertEqual(said.code, 0, str(said))
        self.assertIn("warning: node 0 ", said.out)

    def test_a_disk_without_room_for_a_checkpoint(self):
        huge = {"layers": 512, "width": 65536, "heads": 512, "memory_check": "warn"}
        self.assertIn("a checkpoint takes", self.assert_refused_for(self.check(save_every=1, **huge), "disk"))

    def test_a_full_memory_file_system(self):
        probe = execute(["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"])
        self.need(probe.code == 0, f"nothing can be mounted here: {probe.err}")
        mounted = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"'
        small = ("unshare", "--mount", "bash", "-c", mounted, "_")
        # MPI's own shared memory would miss the other ranks' there.
        done = self.mixed(
            (2, (), {"node_layout": "2,2"}),
            (2, small, {"node_layout": "2,2"}),
            environment={"OMPI_MCA_btl": "self,tcp"},
        )
        self.assertIn("/dev/shm has 1.0 MB free", self.assert_refused_for(done, "shared memory", 1))

    def test_another_program_on_a_node(self):
        other = self.path("gpt_mpi")
        shutil.copy2(program("gpt_mpi"), other)
        with open(other, "ab") as file:
            file.write(b"\0")
        words = self.words(node_layout="1,1,1")
        done = execute([str(MPIRUN), "2", *words, ":", "-n", "1", str(other), *words[1:]])
        self.assertIn("the hash of the executable of rank 2", self.assert_refused_for(done, "program", 2))

    def test_a_node_that_does_not_answer(self):
        """Stopped, or busy with something that does not end."""
        timeout = 12 if SANITIZED else 4
        for point, action in (("start", "stop"), ("preflight", "stop"), ("preflight", "delay=600000")):
            with self.subTest(point=point, action=action):
                fault = {"GPT_FAULT": f"{point}:{action}@rank=3"}
                done = self.check(layout="1,1,1,1", timeout=timeout, environment=fault)
                self.assertEqual(done.code, REFUSED, str(done))
                said = machine_line(done)
                self.assertEqual([problem["check"] for problem in said["problems"]], ["answer"])
                self.assertRegex(said["problems"][0]["reason"], r"^rank 3 on \S+ (does not answer|stands still)")
                self.assertEqual(said["exclude"], [said["problems"][0]["name"]])

    def test_a_check_that_fails_on_a_node(self):
        for point in ("preflight", "preflight.sum"):
            with self.subTest(point):
                done = self.check(environment={"GPT_FAULT": f"{point}:throw@rank=2"})
                self.assertEqual(done.code, REFUSED, str(done))
                said = machine_line(done)
                self.assertEqual(said["exclude"], [said["problems"][0]["name"]])
                self.assertIn("rank 2", said["problems"][0]["reason"])

    def test_a_killed_rank_ends_it(self):
        done = self.check(environment={"GPT_FAULT": "preflight:kill@rank=1"})
        self.assertNotIn(done.code, (0, REFUSED), str(done))
        self.assertNotIn("preflight: {", done.out)

    def test_wrong_options_are_refused_as_ever(self):
        done = self.check(slow_node=1)
        self.assert_refused(done, USAGE, "--slow-node 1")
        self.assertNotIn("preflight: {", done.out)
        done = execute([str(MPIRUN), "1", *self.words(node_layout="1,1"), ":", "-n", "1",
                        *self.words(node_layout="1,1", lr=0.5)])  # fmt: skip
        self.assert_refused(done, USAGE, "--lr", "0.5")


class WithARun(PreflightTest):
    quick = ("--slow-node", 0, "--threads", 1, "--device", "cpu")

    def test_a_run_is_looked_at_with_its_own_options_and_left_as_it_is(self):
        out = self.path("run")
        data = self.copy_of(self.synth())
        self.train(data, out, steps=2, save_every=2)
        before = {file: file.stat().st_mtime_ns for file in out.rglob("*")}
        done = run("gpt_mpi", "--preflight", "--out", out, *self.quick, ranks=2)
        self.assert_good(done)
        self.assertEqual({file: file.stat().st_mtime_ns for file in out.rglob("*")}, before)
        shutil.rmtree(data)
        done = run("gpt_mpi", "--preflight", "--out", out, *self.quick, ranks=2)
        self.assertIn(str(data), self.assert_refused_for(done, "dataset"))


class OnTheStandin(PreflightTest):
    def setUp(self):
        self.need(BACKEND == "STANDIN", "this build has no stand-in for GPUs: GPT_CUDA=STANDIN")

    def gpus(self, count, **more):
        devices = {"GPT_CUDA_STANDIN_DEVICES": str(count), "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(count)))}
        return devices | more

    def test_gpus_are_looked_at(self):
        library = f"{os.environ['GPT_FAKE_NVML']}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        done = self.check(device="cuda", layout="1,1", ranks=2, environment=self.gpus(2, LD_LIBRARY_PATH=library))
        said = self.assert_good(done)
        gpus = [gpu for node in said["nodes"] for gpu in node["gpus"]]
        self.assertEqual(len({gpu["uuid"] for gpu in gpus}), 2)
        self.assertEqual([gpu["gpu_celsius"] for gpu in gpus], [60, 61])
        for gpu in gpus:
            self.assertGreater(gpu["free_bytes"], 0)

    def test_a_node_without_a_gpu(self):
        changes = {"node_layout": "1,1,1", "device": "cuda"}
        done = self.mixed(
            (2, (), changes), (1, ("env", "CUDA_VISIBLE_DEVICES="), changes), environment=self.gpus(3)
        )
        self.assertIn("sees no GPU", self.assert_refused_for(done, "GPU", 2))

    def test_more_ranks_than_gpus_are_no_nodes_fault(self):
        done = self.check(device="cuda", ranks=2, layout="1,1", environment=self.gpus(1))
        self.assertIn("no GPU of its own", self.assert_refused_for(done, "GPU"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
