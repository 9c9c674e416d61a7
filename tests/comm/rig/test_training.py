"""Training on several hosts computes what it computes on one; the dataset and the run folder are shared."""

import hashlib

from on_hosts import HostsTest, main, state

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


if __name__ == "__main__":
    main()
