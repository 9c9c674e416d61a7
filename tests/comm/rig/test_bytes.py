"""What leaves a host for one all-reduce, by the counters of its link, against the least that there can be."""

from on_hosts import HostsTest, main
from bench import bytes_of_node

MIB = 32
FEW, MANY = 1, 5  # all-reduces; the difference is free of what a job sends besides
PLACEMENTS = {
    "2x2 block": [0, 0, 1, 1],
    "2x2 cyclic": [0, 1, 0, 1],
    "3+1": [0, 0, 0, 1],
    "4x2 block": [0, 0, 1, 1, 2, 2, 3, 3],
    "4x2 cyclic": [0, 1, 2, 3, 0, 1, 2, 3],
}


class Bytes(HostsTest):
    def sent_per_all_reduce(self, placement, **way):
        """Bytes, by host in use."""

        def sent(repetitions):
            before = self.hosts.bytes_sent()
            self.all_reduces(f"{MIB}M", ["--repeat", repetitions], placement, what="hierarchical", **way)
            return [last - first for first, last in zip(before, self.hosts.bytes_sent())]

        few, many = sent(FEW), sent(MANY)
        return [(many[host] - few[host]) / (MANY - FEW) for host in sorted(set(placement))]

    def assert_near_the_least(self, inters, wire, share, allowance):
        for inter in inters:
            for name, placement in PLACEMENTS.items():
                least = bytes_of_node(MIB << 20, len(set(placement))) * share
                with self.subTest(inter=inter, placement=name):
                    for host, sent in enumerate(self.sent_per_all_reduce(placement, inter=inter, wire=wire)):
                        ratio = sent / least
                        print(f"{wire} {inter} {name}: host {host} sends {ratio:.4f} of {least:.0f} bytes")
                        self.assertLess(ratio, 1 + allowance)
                        self.assertGreater(ratio, 0.99, "the counters or the sums are wrong")

    def test_fp32(self):
        self.assert_near_the_least(("ring", "halving"), "fp32", 1, 0.015)

    def test_bf16_between_hosts(self):
        self.assert_near_the_least(("ring",), "fp32,bf16", 0.5, 0.025)  # bf16 has one way, whatever --inter says


if __name__ == "__main__":
    main()
