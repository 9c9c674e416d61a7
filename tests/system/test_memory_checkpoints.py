"""Checkpoints in the memory of the nodes: what a killed run loses, and what is left behind."""

import os
import pathlib
import re
import shutil
import tempfile
import unittest

from harness import BAD_NUMBERS, MPIRUN, TINY, USAGE, Run, SystemTest, execute, options, program

# Each save is over when the next step begins: which ones a kill finds is known.
EVERY_3 = {"steps": 12, "save_every": 100, "memory_every": 3, "save": "sync", "dropout": 0.1}


class MemoryCheckpoints(SystemTest):
    def setUp(self):
        self.need(os.access("/dev/shm", os.W_OK), "no /dev/shm")
        self.memory = pathlib.Path(tempfile.mkdtemp(prefix="gpt-test-", dir="/dev/shm"))
        self.addCleanup(shutil.rmtree, self.memory, ignore_errors=True)

    def files(self):
        """(slot of the node, step) -> file"""
        found = {}
        for path in self.memory.glob("gpt_mpi-*/*/step-*.h5"):
            slot = int(path.parent.name.partition("-")[2])
            found[slot, int(re.fullmatch(r"step-(\d+)\.h5", path.name)[1])] = path
        return found

    def go(self, out, **changes):
        return self.train(self.synth(), out, memory_folder=self.memory, **(EVERY_3 | changes))

    def kill(self, out, step, **changes):
        """A run all of whose ranks are killed before that step is taken."""
        changes = EVERY_3 | changes
        fault = {"GPT_FAULT": f"step:kill@step={step}"}
        done = self.start(self.synth(), out, environment=fault, memory_folder=self.memory, **changes)
        self.assertNotEqual(done.code, 0, str(done))
        return Run(out)

    def assert_nothing_left(self, run):
        self.assertEqual(list(self.memory.rglob("*")), [])
        self.assertFalse((run.folder / "memory.json").exists())

    def resumed_from(self, run):
        event = run.events("resume")[-1]
        return event["step"], "memory_of" in event

    def test_a_killed_run_goes_on_from_memory_as_if_nothing_had_been(self):
        self.need_h5py()
        cases = {
            "alone": {"ranks": None},
            "replicas": {"ranks": 3, "node_layout": "2,1"},
            "zero1": {"ranks": 2, "zero": "1", "node_layout": "1,1"},
            "zeronode": {"ranks": 4, "zero": "node", "node_layout": "2,2"},
            "bf16": {"ranks": 2, "zero": "1", "precision": "bf16"},
            "bycost": {"ranks": 2, "save_every": "auto"},  # its first one on disk comes after a minute
        }
        for name, case in cases.items():
            with self.subTest(name):
                straight = self.go(self.path(f"{name}-straight"), **case)
                nodes = case.get("node_layout", "1").count(",") + 1
                saves = straight.events("memory_save")
                self.assertEqual([(event["step"], event["nodes"]) for event in saves], [(s, nodes) for s in (3, 6, 9)])
                self.assert_nothing_left(straight)

                out = self.path(name)
                killed = self.kill(out, 9, **case)
                self.assertEqual(killed.checkpoints(), [])
                self.assertEqual(sorted(self.files()), [(node, step) for node in range(nodes) for step in (3, 6)])
                run = self.go(out, **case)
                self.assertEqual(self.resumed_from(run), (6, True))
                self.assertEqual(run.losses(), straight.losses())
                self.assert_same_state(run.checkpoint(12), straight.checkpoint(12))
                self.assert_nothing_left(run)

    def test_a_kill_while_one_is_written_leaves_the_one_before(self):
        for point in ("save.write", "save.commit", "save.rename"):
            with self.subTest(point):
                out = self.path(point)
                fault = {"GPT_FAULT": f"{point}:kill@step=9"}
                changes = EVERY_3 | {"save": "async"}
                done = self.start(
                    self.synth(), out, ranks=2, node_layout="1,1", environment=fault, memory_folder=self.memory,
                    **changes,
                )
                self.assertNotEqual(done.code, 0, str(done))
                run = self.go(out, ranks=2, node_layout="1,1")
                self.assertEqual(self.resumed_from(run), (6, True))
                self.assert_nothing_left(run)

    def test_the_newer_of_disk_and_memory_is_taken(self):
        for killed, expected in ((15, (12, True)), (10, (8, False))):
            with self.subTest(killed=killed):
                out = self.path(f"{killed}")
                changes = {"steps": 20, "save_every": 8, "memory_every": 6, "ranks": 2}
                self.kill(out, killed, **changes)
                run = self.go(out, **changes)
                self.assertEqual(self.resumed_from(run), expected)
                self.assert_nothing_left(run)

    def test_a_lost_node_costs_nothing_where_another_has_it(self):
        """Gone, cut off, with a wrong bit in the state; where both have such a file the one before counts."""

        def cut(file):
            os.truncate(file, file.stat().st_size // 2)

        def flip(file):
            with open(file, "r+b") as stream:
                stream.seek(file.stat().st_size * 3 // 4)
                byte = stream.read(1)
                stream.seek(-1, os.SEEK_CUR)
                stream.write(bytes([byte[0] ^ 1]))

        def gone(file):
            shutil.rmtree(file.parent)

        two = {"ranks": 2, "node_layout": "1,1", "zero": "1"}
        straight = self.go(self.path("straight"), **two)
        cases = ((gone, [0], 6), (cut, [0], 6), (flip, [0], 6), (flip, [0, 1], 3), (gone, [0, 1], 0))
        for damage, slots, step in cases:
            with self.subTest(damage=damage.__name__, slots=slots):
                out = self.path(f"{damage.__name__}{len(slots)}")
                self.kill(out, 9, **two)
                files = self.files()
                for slot in slots:
                    damage(files[slot, 6])
                done = self.start(self.synth(), out, memory_folder=self.memory, **(EVERY_3 | two))
                self.assertEqual(done.code, 0, str(done))
                run = Run(out)
                if step:
                    event = run.events("resume")[-1]
                    self.assertEqual(event["step"], step, str(done))
                    if len(slots) == 1:
                        self.assertIn(f"{files[1, 6]}", event["file"])
                else:
                    self.assertEqual(run.events("resume"), [])
                if damage is not gone:
                    self.assertIn(f"passed over {files[0, 6]}", done.out)
                self.assertEqual(run.losses(), straight.losses())
                self.assert_nothing_left(run)

    def test_other_ranks_on_other_nodes_take_it_over(self):
        out = self.path("run")
        self.kill(out, 9, ranks=4, node_layout="2,2", zero="node")
        files = self.files()
        shutil.rmtree(files[0, 6].parent)
        run = self.go(out, ranks=3)
        self.assertEqual(self.resumed_from(run), (6, True))
        self.assertEqual(sorted(run.losses()), list(range(1, 13)))
        self.assert_nothing_left(run)

    def test_what_another_run_left_does_not_count(self):
        out, other = self.path("run"), self.path("other")
        self.kill(out, 9)
        [own] = [path for (_, step), path in self.files().items() if step == 6]
        self.kill(other, 12, seed=9)
        [foreign] = [path for (_, step), path in self.files().items() if step == 9]
        shutil.copy(foreign, own.parent / foreign.name)
        run = self.go(out)
        self.assertEqual(self.resumed_from(run), (6, True))
        self.assertFalse(own.parent.parent.exists())
        self.assertTrue(foreign.exists())

    def test_a_run_folder_that_was_deleted_begins_anew(self):
        out = self.path("run")
        self.kill(out, 9)
        shutil.rmtree(out)
        self.assertTrue(self.files())
        run = self.go(out)
        self.assertEqual(run.events("resume"), [])
        self.assert_nothing_left(run)

    def test_what_a_lost_node_brings_back_is_not_gone_on_from(self):
        """Its run went on from an older one meanwhile."""
        out = self.path("run")
        changes = {"steps": 20, "save_every": 4, "memory_every": 5}
        self.kill(out, 12, **changes)
        [base] = self.memory.iterdir()
        away = self.path("away")
        shutil.move(base, away)
        self.kill(out, 9, **changes)  # at once, from the disk's step 8
        shutil.move(away, base)
        run = self.go(out, **changes)
        self.assertEqual(self.resumed_from(run), (8, False))
        self.assert_nothing_left(run)

    def test_a_named_file_is_gone_on_from(self):
        out = self.path("run")
        changes = {"steps": 20, "save_every": 8, "memory_every": 6}
        self.kill(out, 15, **changes)
        run = self.go(out, resume=out / "checkpoints" / "step-00000008.h5", **changes)
        self.assertEqual(self.resumed_from(run), (8, False))
        self.assert_nothing_left(run)

    def test_a_checkpoint_of_the_last_step_is_brought_to_the_disk(self):
        out = self.path("run")
        self.kill(out, 11)
        run = self.go(out, steps=9)
        self.assertEqual(self.resumed_from(run), (9, True))
        self.assertEqual(run.checkpoints(), ["step-00000009.h5"])
        self.assert_nothing_left(run)

    def test_a_save_into_memory_that_fails_ends_nothing(self):
        for ranks in (None, 2):
            with self.subTest(ranks=ranks):
                out = self.path(f"{ranks}")
                done = self.start(
                    self.synth(), out, ranks=ranks, environment={"GPT_FAULT": "save.write:throw@step=6"},
                    memory_folder=self.memory, save_failures=1, **EVERY_3,
                )
                self.assertEqual(done.code, 0, str(done))
                self.assertIn("could not keep a checkpoint of step 6 in memory", done.out)
                events = Run(out).events("memory_save")
                self.assertEqual([(event["step"], event["nodes"]) for event in events], [(3, 1), (6, 0), (9, 1)])
                self.assertIn("fault injected at 'save.write'", events[1]["reason"])

    def test_weights_that_differ_are_not_kept(self):
        out = self.path("run")
        changes = EVERY_3 | {"ranks": 3, "check_replicas": 1000}
        flip = {"GPT_FAULT": "weights:flip@rank=1,step=5"}
        done = self.start(self.synth(), out, environment=flip, memory_folder=self.memory, **changes)
        self.assert_refused(done, BAD_NUMBERS, "step 6", "of rank 1 are not those of ranks 0, 2")
        self.assertEqual(sorted(self.files()), [(0, 3)])
        run = self.go(out, **changes)
        self.assertEqual(self.resumed_from(run), (3, True))
        self.assert_nothing_left(run)

    def test_unfit_places_are_refused(self):
        out = self.path("run")
        done = self.start(self.synth(), out, memory_folder="/proc", **EVERY_3)
        self.assert_refused(done, USAGE, "--memory-folder /proc", "no memory file system")
        done = self.start(self.synth(), out, memory_folder="here", **EVERY_3)
        self.assert_refused(done, USAGE, "--memory-folder 'here'")
        done = self.start(self.synth(), out, memory_every=3)
        self.assert_refused(done, USAGE, "--memory-every 3", "--save-every")
        self.assertFalse(out.exists())
        self.kill(out, 9, ranks=2)
        [base] = self.memory.iterdir()
        base.chmod(0o755)
        done = self.start(self.synth(), out, ranks=2, memory_folder=self.memory, **EVERY_3)
        self.assert_refused(done, USAGE, str(base), "of this user alone")

    def test_a_memory_file_system_that_is_too_small_is_refused(self):
        """A size that two small checkpoints exceed; on two pretended nodes it is for both of them."""
        probe = execute(["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", str(self.memory)])
        if probe.code != 0:
            self.skipTest(f"nothing can be mounted here: {probe.err}")

        def start(out, megabytes, **changes):
            values = {"data": self.synth(), "out": out, "memory_folder": self.memory} | TINY | EVERY_3 | changes
            mounted = f'mount -t tmpfs -o size={megabytes}m tmpfs {self.memory} && exec "$@"'
            command = [str(MPIRUN), "2", program("gpt_mpi"), *options(values)]
            return execute(["unshare", "--mount", "bash", "-c", mounted, "bash", *map(str, command)])

        out = self.path("run")
        for megabytes, layout in ((2, ""), (8, "1,1")):
            done = start(out, megabytes, node_layout=layout or None)
            self.assert_refused(
                done, USAGE, "not enough room for checkpoints in memory", str(self.memory), "needed by 2 ranks",
                "--memory-every 0",
            )
            self.assertFalse(out.exists())
        done = start(out, 8)
        self.assertEqual(done.code, 0, str(done))
        self.assertEqual([event["nodes"] for event in Run(out).events("memory_save")], [1, 1, 1])
        # A start that is told to try all the same finds it full when it saves, and goes on.
        out = self.path("warned")
        done = start(out, 1, memory_check="warn")
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("warning: not enough room for checkpoints in memory", done.out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
