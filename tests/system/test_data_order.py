"""Every window once per epoch, another order each epoch, the same on any number of ranks."""

import unittest

from harness import SystemTest

SHARDS = 4
BATCH = 12


class DataOrder(SystemTest):
    def consumed(self, name, ranks, steps, **changes):
        run = self.train(
            self.synth(tokens=3_000, shards=SHARDS),
            self.path(name),
            ranks=ranks,
            steps=steps,
            **changes,
        )
        return run, run.windows()

    def test_three_epochs_on_two_ranks(self):
        # Steps for three epochs at least, whatever the windows per shard: at most 3000/32 in all.
        _, steps = self.consumed("run", 2, 3 * 3_000 // 32 // BATCH + 6)
        orders = {}
        for step in sorted(steps):
            ranks = steps[step]
            self.assertEqual(sum(map(len, ranks.values())), BATCH)
            for rank in sorted(ranks):
                for lane, index, epoch in ranks[rank]:
                    orders.setdefault(epoch, {}).setdefault(lane, []).append(index)
        windows = len(orders[0][0])
        self.assertGreater(windows, 3)
        for epoch in range(3):
            self.assertEqual(sorted(orders[epoch]), list(range(SHARDS)))
            for lane, indices in orders[epoch].items():
                self.assertEqual(sorted(indices), list(range(windows)), f"epoch {epoch}, lane {lane}")
        for lane in range(SHARDS):
            self.assertEqual(len({tuple(orders[epoch][lane]) for epoch in range(3)}), 3, f"lane {lane}")
        self.assertGreater(len({tuple(orders[0][lane]) for lane in range(SHARDS)}), 1)

    def test_order_comes_from_the_seed_alone(self):
        def flat(steps):
            return [window for step in sorted(steps) for rank in sorted(steps[step]) for window in steps[step][rank]]

        _, one = self.consumed("one", 1, 6)
        for ranks in (2, 5):
            _, more = self.consumed(f"np{ranks}", ranks, 6)
            self.assertEqual(flat(one), flat(more), f"{ranks} ranks")
        _, other = self.consumed("seed", 1, 6, seed=8)
        self.assertNotEqual(flat(one), flat(other))

    def test_as_many_ranks_as_shards_read_one_each(self):
        _, steps = self.consumed("run", SHARDS, 4)
        for by_rank in steps.values():
            for rank, windows in by_rank.items():
                self.assertEqual({lane for lane, _, _ in windows}, {rank})


if __name__ == "__main__":
    unittest.main(verbosity=2)
