"""The tests of the communicators, which elsewhere run on one machine, between hosts: what crosses goes over TCP."""

from on_hosts import HostsTest, main, program

PLACEMENTS = ([0, 0, 1, 1], [0, 0, 0, 1], [0, 1, 1, 2])


class Contract(HostsTest):
    count = 3

    def test_every_host_is_a_node(self):
        """By name: these cases skip themselves where they are not told a placement, as on one machine."""
        for placement in PLACEMENTS:
            with self.subTest(placement=placement):
                done = self.succeed(
                    [program("mpi_tests"), "--no-colors", "-tc=every host is a node,hosts cannot be joined to one node"],
                    placement=placement,
                    environment={"GPT_TEST_PLACEMENT": "@" + ",".join(map(str, placement))},
                )
                self.assertRegex(done.out, r"test cases: +2 \| +2 passed", str(done))

    def test_communicators_keep_their_contract(self):
        for placement in PLACEMENTS:
            with self.subTest(placement=placement):
                sent = self.hosts.bytes_sent()
                done = self.succeed(
                    # Left out is what pretends layouts of one machine, and disks that no other host sees.
                    [program("mpi_tests"), "--source-file-exclude=*world_test*,*checkpoint_test*"],
                    placement=placement,
                    environment={"GPT_TEST_PLACEMENT": "@" + ",".join(map(str, placement))},
                )
                self.assertNotIn("0 test cases", done.out, str(done))
                for number in set(placement):
                    self.assertGreater(self.hosts.bytes_sent()[number] - sent[number], 1_000_000, str(done))


if __name__ == "__main__":
    main()
