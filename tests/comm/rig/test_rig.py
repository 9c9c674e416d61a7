"""The rig itself: hosts that are apart, links that are as slow as told, and nothing left of them however it ends."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

from on_hosts import SKIPPED, HostsTest, main
from bench import line_seconds
from hosts import Hosts, Overtime

HERE = pathlib.Path(__file__).resolve().parent
MIB = 4


def processes_with(word):
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            if word.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


class Rig(HostsTest):
    count = 2

    def wait_until(self, condition, message, seconds=10):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, message)
            time.sleep(0.05)

    def test_hosts_share_files_but_neither_name_nor_memory(self):
        shared = self.path("shared")
        shared.mkdir()
        write = f"echo > /dev/shm/of-$(hostname); hostname > {shared}/$OMPI_COMM_WORLD_RANK"
        script = f"{write}; sleep 1; ls /dev/shm | grep of-"
        done = self.succeed(["sh", "-c", script], ranks_per_host=1)
        self.assertEqual(sorted(done.out.split()), [f"of-{name}" for name in self.hosts.names])
        self.assertEqual([(shared / rank).read_text().strip() for rank in "01"], self.hosts.names)

    def test_ranks_stand_where_they_are_put(self):
        for placement, expected in (("block", [0, 0, 1, 1]), ("cyclic", [0, 1, 0, 1]), ([1, 0, 0], [1, 0, 0])):
            done = self.succeed(["sh", "-c", "echo $OMPI_COMM_WORLD_RANK $(hostname)"], placement=placement)
            names = [line.split()[1] for line in sorted(done.out.splitlines())]
            self.assertEqual(names, [self.hosts.names[number] for number in expected], placement)
        with self.assertRaises(ValueError):
            self.hosts.run(["true"], placement=[0, 2])

    def test_links_are_as_slow_as_told(self):
        def seconds():
            return sorted(self.all_reduces(f"{MIB}M", ["--iterations", 3], [0, 1], what="mpi")["mpi"])[1]

        line = line_seconds(MIB << 20, 2, "100mbit")
        self.hosts.shape("100mbit")
        self.assertGreater(seconds(), 0.9 * line)
        self.hosts.unshape()
        self.assertLess(seconds(), 0.5 * line)

    def test_bytes_are_counted_on_the_host_that_sends(self):
        sent, received = self.hosts.bytes_sent(), self.hosts.bytes_received()
        # A broadcast of 16 MiB by what mpirun does with its own output.
        done = self.succeed(["sh", "-c", "head -c 16777216 /dev/zero | tr '\\0' x"], placement=[1])
        self.assertEqual(len(done.out), 1 << 24)
        first, second = (last - before for before, last in zip(sent, self.hosts.bytes_sent()))
        self.assertLess(first, 100_000)
        self.assertAlmostEqual(second / (1 << 24), 1, delta=0.1)
        self.assertLess(max(last - before for before, last in zip(received, self.hosts.bytes_received())), 2_000_000)

    def test_the_exit_code_of_a_job_is_passed_on(self):
        self.assertEqual(self.hosts.run(["sh", "-c", "exit 7"]).code, 7)

    def test_a_job_that_takes_too_long_is_ended_and_the_hosts_go_on(self):
        with self.assertRaises(Overtime) as caught:
            self.hosts.run(["sh", "-c", "echo begun; exec sleep 86399"], timeout=3)
        self.assertIn("begun", caught.exception.result.out)
        self.assertEqual(self.hosts.processes(), [])
        self.succeed(["true"])

    def test_rigs_do_not_meet(self):
        with Hosts(2) as others:
            with self.hosts.start(["sleep", "3"]) as job:
                self.wait_until(lambda: len(self.hosts.processes(1)) >= 3, "ranks do not start")
                self.assertEqual(others.processes(), [])
                others.run(["true"])
                others.end_jobs()
                self.assertEqual(job.wait(), 0, "ended by the other rig")
            self.assertFalse(set(self.hosts.names) & set(others.names))

    def test_closing_ends_what_runs(self):
        with Hosts(2) as others:
            with others.start(["sleep", "86398"]) as job:
                self.wait_until(lambda: len(processes_with("sleep\x0086398")) >= 4, "ranks do not start")
                others.close()
                job.wait()
        self.wait_until(lambda: not processes_with("sleep\x0086398"), "processes are left")

    def test_nothing_is_left_of_a_rig_whose_process_ends_by_a_signal(self):
        script = (
            "from hosts import Hosts\n"
            "with Hosts(2) as hosts:\n"
            "    print(hosts.names[0], flush=True)\n"
            "    hosts.run(['sleep', '86397'])\n"
        )
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number.name), subprocess.Popen(
                [sys.executable, "-B", "-c", script],
                cwd=HERE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as rig:
                name = rig.stdout.readline().strip()
                self.wait_until(lambda: len(processes_with("sleep\x0086397")) >= 4, "ranks do not start")
                rig.send_signal(number)
                rig.communicate()
                gone = lambda: not processes_with("sleep\x0086397") and not processes_with(name)  # noqa: E731
                self.wait_until(gone, "processes are left")

    def test_without_root_tests_are_skipped_with_the_reason_but_fail_where_all_must_run(self):
        script = "import os, on_hosts; os.seteuid(65534); on_hosts.main()"
        for strict, code, word in (("0", SKIPPED, "skipped"), ("1", 1, "failed")):
            done = subprocess.run(
                [sys.executable, "-B", "-c", script],
                cwd=HERE,
                env=os.environ | {"GPT_TEST_STRICT": strict},
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(f"{word}: test hosts need root", done.stdout)


if __name__ == "__main__":
    main()
