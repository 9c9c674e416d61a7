"""What the tests on test hosts share."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "system"))

from harness import RANK_FAILED, SANITIZED, STRICT, TINY, Run, SystemTest, options, program, state  # noqa: E402, F401
from bench import all_reduces  # noqa: E402
from hosts import Hosts, Unavailable  # noqa: E402

SKIPPED = 77
SLOWER = 4 if SANITIZED else 1


class HostsTest(SystemTest):
    """A class has one rig of `count` hosts, unshaped between its tests."""

    count = 4
    shared_memory = None  # of a host: see Hosts

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.hosts = cls.enterClassContext(Hosts(cls.count, cls.shared_memory))

    def tearDown(self):
        self.hosts.end_jobs()
        self.hosts.unshape()

    def command(self, data, out, **changes):
        """gpt_mpi with the TINY options and `changes`."""
        return [program("gpt_mpi"), *options({"data": data, "out": out} | TINY | changes)]

    def train_on(self, placement, data, out, **changes):
        """A training run, its ranks placed so, that has to succeed."""
        self.succeed(self.command(data, out, **changes), placement=placement)
        return Run(out)

    def all_reduces(self, size, how, placement, **ways):
        """See bench.all_reduces."""
        return all_reduces(lambda words: self.succeed(words, placement=placement), self.folder, size, how, **ways)

    def succeed(self, command, timeout=120, **how):
        done = self.hosts.run(command, timeout=timeout * SLOWER, **how)
        self.assertEqual(done.code, 0, str(done))
        return done


def main():
    """unittest's, unless this machine can have no hosts: that is a skip, or under GPT_TEST_STRICT=1 a failure."""
    try:
        with Hosts(1):
            pass
    except Unavailable as reason:
        print(f"{'failed' if STRICT else 'skipped'}: {reason}")
        sys.exit(1 if STRICT else SKIPPED)
    unittest.main(verbosity=2)
