"""Training on several hosts computes what it computes on one; the dataset and the run folder are shared."""

import hashlib
import json
import re

from on_hosts import HostsTest, Run, main, program, state

PLACEMENTS = {
    "one each": [0, 1, 2, 3],
    "4x2 block": [0, 0, 1, 1, 2, 2, 3, 3],
    "4x2 cyclic": [0, 1, 2, 3, 0, 1, 2, 3],
    "uneven": [0, 1, 0, 2, 0, 3],
}
STEPS = 20


class Training(HostsTest):
    def test_losses_are_those_of_one_rank(self):
        data = self.synth()
        alone = self.train(data, self.path("alone"), steps=STEPS).losses()
        self.assertEqual(len(alone), STEPS)
        ways = [{"reduction": "hierarchical", "inter": inter} for inter in ("ring", "halving")]
        ways += [{"reduction": "flat"}, {"reduction": "tree", "micro_batch": 1}, {"zero": 1}, {"zero": "node"}]
        for number, way in enumerate(ways):
            for name, placement in PLACEMENTS.items():
                with self.subTest(placement=name, **way):
                    run = self.train_on(placement, data, self.path(f"{number}-{name}"), steps=STEPS, **way)
                    losses = run.losses()
                    self.assertEqual(losses.keys(), alone.keys())
                    for step, loss in losses.items():
                        self.assertAlmostEqual(loss, alone[step], delta=1e-4, msg=f"step {step}")

    def test_what_four_hosts_saved_one_rank_continues_and_back(self):
        data = self.synth()
        whole = self.train(data, self.path("whole"), steps=15).losses()
        out = self.path("parts")
        self.train_on(PLACEMENTS["4x2 cyclic"], data, out, steps=5, save_every=5)
        self.train(data, out, steps=10, save_every=5)
        run = self.train_on(PLACEMENTS["4x2 block"], data, out, steps=15, save_every=5)
        self.assertIn("step-00000015.h5", run.checkpoints())
        self.assertEqual(run.losses().keys(), whole.keys())
        for step, loss in run.losses().items():
            self.assertAlmostEqual(loss, whole[step], delta=1e-4, msg=f"step {step}")

    def test_the_tree_gives_the_same_bits_wherever_ranks_stand(self):
        self.need_h5py()
        data = self.synth()
        eight_leaves = {"reduction": "tree", "global_batch": 16, "micro_batch": 2}
        placements_by_digest = {}
        on_one = ([0] * ranks for ranks in (1, 2, 4, 8))
        on_several = ([0, 3], [0, 0, 1, 1], [0, 0, 0, 1], [3, 1, 0, 2], [0, 1, 1, 2, 2, 2, 3, 0])
        for placement in (*on_one, *on_several, PLACEMENTS["4x2 block"], PLACEMENTS["4x2 cyclic"]):
            out = self.path("-".join(map(str, placement)))
            run = self.train_on(placement, data, out, steps=STEPS, save_every=STEPS, **eight_leaves)
            weights = state(run.checkpoint(STEPS), ["params"])["params"]
            digest = hashlib.sha256(weights.tobytes()).hexdigest()
            placements_by_digest.setdefault(digest, []).append(placement)
        self.assertEqual(len(placements_by_digest), 1, placements_by_digest)


class LittleSharedMemory(HostsTest):
    """As in a container: ranks of a host exchange messages then, and say so once."""

    count = 2
    shared_memory = "1m"
    placement = [0, 0, 1]
    notice = r"notice: no [0-9.]+ MiB of shared memory \(No space left on device\)"

    def assert_said_once(self, done):
        self.assertEqual(len(re.findall(self.notice, done.text)), 1, str(done))

    def test_a_run_has_the_bits_of_one_with_enough(self):
        data = self.synth()
        wide = {"width": 128, "steps": 5}  # 1.7 MB of gradients
        for zero in (0, 1, "node"):
            with self.subTest(zero=zero):
                ordinary = self.train(data, self.path(f"{zero}-enough"), ranks=3, node_layout="2,1", zero=zero, **wide)
                out = self.path(f"{zero}-little")
                command = self.command(data, out, zero=zero, **wide)
                self.assert_said_once(self.succeed(command, placement=self.placement))
                self.assertEqual(Run(out).losses(), ordinary.losses())

    def test_a_choice_by_measuring_says_it_once_too(self):
        command = self.command(self.synth(), self.path("auto"), width=128, steps=2, reduction="auto", inter="auto")
        self.assert_said_once(self.succeed(command, placement=self.placement))

    def test_sums_are_right(self):
        file = self.path("sums.json")
        ways = ["--what", "hierarchical", "--inter", "ring,mpi", "--wire", "fp32", "fp32,bf16", "bf16"]
        command = [program("gpt_bench"), "comm", *ways, "--sizes", "4K,8M", "--iterations", 2, "--json", file]
        self.assert_said_once(self.succeed(command, placement=self.placement))
        self.assertEqual({row["wrong"] for row in json.loads(file.read_text(encoding="utf-8"))["results"]}, {0})


if __name__ == "__main__":
    main()
