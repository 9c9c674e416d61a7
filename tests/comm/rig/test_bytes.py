"""What leaves a host for one all-reduce, by the counters of its link, against the least that there can be."""

import json

from on_hosts import HostsTest, main, program

MIB = 32
REPETITIONS = 4
PLACEMENTS = {
    "2x2 block": [0, 0, 1, 1],
    "2x2 cyclic": [0, 1, 0, 1],
    "3+1": [0, 0, 0, 1],
    "4x2 block": [0, 0, 1, 1, 2, 2, 3, 3],
    "4x2 cyclic": [0, 1, 2, 3, 0, 1, 2, 3],
}


class Bytes(HostsTest):
    def sent_per_all_reduce(self, way, placement):
        """Bytes, by host in use."""

        def sent(repetitions):
            before = self.hosts.bytes_sent()
            done = self.succeed([program("all_reduce_probe"), MIB, repetitions, way], placement=placement)
            self.assertEqual(len(json.loads(done.out).get(way, [])), repetitions, str(done))
            return [last - first for first, last in zip(before, self.hosts.bytes_sent())]

        # A job sends something without all-reduces too.
        idle, busy = sent(0), sent(REPETITIONS)
        return [(busy[host] - idle[host]) / REPETITIONS for host in sorted(set(placement))]

    def assert_near_the_least(self, wire, share, allowance):
        for inter in ("ring", "halving"):
            for name, placement in PLACEMENTS.items():
                hosts = len(set(placement))
                least = 2 * (MIB << 20) * (hosts - 1) / hosts * share
                with self.subTest(inter=inter, placement=name):
                    for host, sent in enumerate(self.sent_per_all_reduce(f"hierarchical:{inter}:{wire}", placement)):
                        ratio = sent / least
                        print(f"{wire} {inter} {name}: host {host} sends {ratio:.4f} of {least:.0f} bytes")
                        self.assertLess(ratio, 1 + allowance)
                        self.assertGreater(ratio, 0.99, "the counters or the sums are wrong")

    def test_fp32(self):
        self.assert_near_the_least("fp32", 1, 0.015)

    def test_bf16_between_hosts(self):
        self.assert_near_the_least("fp32,bf16", 0.5, 0.025)


if __name__ == "__main__":
    main()
