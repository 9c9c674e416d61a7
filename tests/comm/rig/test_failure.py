"""A rank or a host that dies ends the whole job on all hosts, soon, with words, and leaves no process there."""

import json
import os
import signal
import time

from hosts import command_line
from on_hosts import RANK_FAILED, SANITIZED, HostsTest, Run, main, program

SOON = 40 if SANITIZED else 10  # seconds
CYCLIC = [0, 1, 2, 3, 0, 1, 2, 3]


class Failure(HostsTest):
    def wait_for_step(self, job, run, step):
        deadline = time.monotonic() + 60
        while not (run.folder / "log.jsonl").exists() or step not in run.losses():
            self.assertIsNone(job.poll(), "the job ended by itself")
            self.assertLess(time.monotonic(), deadline, "training does not start")
            time.sleep(0.05)

    def ranks_on(self, number):
        return [pid for pid in self.hosts.processes(number) if command_line(pid)[:1] == [program("gpt_mpi")]]

    def kill_while_training(self, name, victims):
        """@param victims  given the hosts' ranks, called when training is under way"""
        run = Run(self.path(name))
        command = self.command(self.synth(), run.folder, steps=1_000_000, save_every=0, global_batch=8)
        with self.hosts.start(command, placement=CYCLIC) as job:
            self.wait_for_step(job, run, 3)
            for pid in victims():
                os.kill(pid, signal.SIGKILL)
            started = time.monotonic()
            out, err = job.communicate(timeout=6 * SOON)
        self.assertLess(time.monotonic() - started, SOON, err)
        self.assertNotEqual(job.returncode, 0, out + err)
        deadline = time.monotonic() + 5
        while self.hosts.processes():
            self.assertLess(time.monotonic(), deadline, f"processes {self.hosts.processes()} are left")
            time.sleep(0.05)
        return err

    def test_a_killed_rank_ends_the_job_on_all_hosts(self):
        for number in (0, 3):
            with self.subTest(host=number):
                err = self.kill_while_training(f"rank-{number}", lambda: self.ranks_on(number)[:1])
                self.assertRegex(err, rf"(?s)rank\s+[{number}{number + 4}]\b.*{self.hosts.names[number]}")

    def test_a_host_whose_processes_all_die_ends_the_job_on_the_others(self):
        err = self.kill_while_training("host", lambda: self.hosts.processes(2))
        self.assertNotEqual(err.strip(), "")  # mpirun's words, which depend on what it notices first

    def test_a_host_whose_link_is_cut_is_named_and_all_ranks_end(self):
        """No connection is closed: only silence tells. The ranks that are cut off end as well, by themselves."""
        timeout = 8 if SANITIZED else 3
        for number in (2, 0):
            with self.subTest(host=number):
                run = Run(self.path(f"cut-{number}"))
                command = self.command(
                    self.synth(), run.folder, steps=1_000_000, save_every=0, global_batch=8, timeout=timeout
                )
                with self.hosts.start(command, placement=CYCLIC) as job:
                    self.wait_for_step(job, run, 3)
                    with self.hosts.cut(number):
                        started = time.monotonic()
                        while any(self.ranks_on(host) for host in range(self.count)):
                            self.assertLess(time.monotonic() - started, timeout + SOON, "ranks are left")
                            time.sleep(0.05)
                    out, err = job.communicate(timeout=6 * SOON)  # mpirun learns of the ends on that host only now
                self.assertNotEqual(job.returncode, 0, out + err)
                verdict = json.loads((run.folder / "verdict.json").read_text(encoding="utf-8"))
                self.assertEqual(verdict["exit_code"], RANK_FAILED, verdict)
                # Neither side hears the other: who is first to the shared file names a rank of the other one.
                blamed, reporter = CYCLIC[verdict["rank"]], CYCLIC[verdict["reported_by"]]
                self.assertIn(number, (blamed, reporter), verdict)
                self.assertNotEqual(blamed, reporter, verdict)
                words = rf"rank {verdict['rank']} on {self.hosts.names[blamed]} does not answer"
                self.assertRegex(verdict["reason"], words)
                if (number, reporter) == (0, 0):
                    self.assertIn("may be cut off itself", verdict["reason"])
                self.assertRegex(err, r"rank \d on \S+ does not answer")


if __name__ == "__main__":
    main()
