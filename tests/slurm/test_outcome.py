"""What job scripts conclude from the end of a start, without a cluster."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

LIB = pathlib.Path(__file__).resolve().parents[2] / "slurm" / "lib"


class Outcome(unittest.TestCase):
    def setUp(self):
        self.run_folder = pathlib.Path(tempfile.mkdtemp(prefix="gpt-test-"))
        self.addCleanup(shutil.rmtree, self.run_folder)
        (self.run_folder / "checkpoints").mkdir()

    def shell(self, part, script, *arguments, **environment):
        """What a script prints that has sourced a part of slurm/lib."""
        words = ["bash", "-euc", f'. "$0/job.sh"; . "$0/{part}.sh"; {script}', str(LIB), *map(str, arguments)]
        settings = {"RUN": str(self.run_folder), "SLURM_JOB_ID": "7", "PATH": "/usr/bin:/bin"} | environment
        done = subprocess.run(words, env=settings, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout.rstrip("\n")

    def verdict(self, **fields):
        told = {"exit_code": 10, "rank": 3, "host": "n1", "step": 5, "phase": "step"}
        told |= {"reason": 'rank 3 says "no", \\ and "exit_code":2', "reported_by": 0, "time": "2026-01-01T00:00:00Z"}
        text = json.dumps({name: value for name, value in (told | fields).items() if value is not None})
        compact = json.dumps(json.loads(text), separators=(",", ":"))
        (self.run_folder / "verdict.json").write_text(compact + "\n", encoding="utf-8")

    def save(self, step):
        (self.run_folder / "checkpoints" / f"step-{step:08d}.h5").touch()

    def test_the_newest_checkpoint(self):
        self.assertEqual(self.shell("outcome", "newest_step"), "0")
        for step in (8, 9, 10):  # no octal numbers
            self.save(step)
        (self.run_folder / "checkpoints" / "step-00000077.h5.partial").touch()
        self.assertEqual(self.shell("outcome", "newest_step"), "10")

    def test_the_verdict_says_more_than_the_code_of_a_killed_rank(self):
        self.assertEqual(self.shell("outcome", 'outcome "$1"', 137), "137")
        self.assertEqual(self.shell("outcome", "verdict_rank"), "")
        self.verdict()
        for code, expected in ((137, "10"), (10, "10"), (0, "0")):
            self.assertEqual(self.shell("outcome", 'outcome "$1"', code), expected)
        self.assertEqual(self.shell("outcome", "verdict_rank"), "3")
        self.assertIn("rank 3 says", self.shell("outcome", "verdict_reason"))
        self.verdict(exit_code=13, rank=None, host=None)
        self.assertEqual(self.shell("outcome", 'outcome "$1"', 143), "13")
        self.assertEqual(self.shell("outcome", "verdict_rank"), "")

    def test_every_exit_code_has_a_kind(self):
        kinds = {0: "finished", 3: "stopped", 10: "lost"} | dict.fromkeys((2, 11, 13, 14), "refused")
        kinds |= dict.fromkeys((1, 12, 134, 137, 139, 143), "crashed")
        for code, kind in kinds.items():
            self.assertEqual(self.shell("outcome", 'kind_of "$1"', code), kind)

    def judge(self, ends, **environment):
        """Why to give up after such ends, (code, newest step); empty: the job starts again."""
        environment = {"MAX_IDLE": "2"} | environment
        (self.run_folder / "slurm.log").unlink(missing_ok=True)
        for path in (self.run_folder / "checkpoints").iterdir():
            path.unlink()
        before = 0
        for code, step in ends:
            if step:
                self.save(step)
            self.shell("outcome", 'record_end "$1" "$2"', code, before, **environment)
            before = step
        return self.shell("outcome", 'reason_to_give_up "$(kind_of "$1")"', ends[-1][0], **environment)

    def test_crashes_are_tried_again_so_often_and_with_progress(self):
        self.assertEqual(self.judge([(137, 10), (137, 20)]), "")
        self.assertEqual(self.judge([(137, 0)]), "")
        self.assertIn("saved nothing new", self.judge([(137, 0), (1, 0)]))
        self.assertEqual(self.judge([(137, 10), (137, 10)]), "")
        self.assertIn("saved nothing new", self.judge([(137, 10), (137, 10), (10, 10)]))
        self.assertIn("saved nothing new", self.judge([(137, 0)], MAX_IDLE="1"))
        self.assertEqual(self.judge([(1, 10), (139, 20)], MAX_CRASHES="2"), "")
        self.assertIn("crashed 3 times", self.judge([(1, 10), (139, 20), (1, 30)], MAX_CRASHES="2"))

    def test_stops_and_lost_nodes_are_not_counted_but_must_get_somewhere(self):
        steps = [(3, 10 * number) for number in range(1, 9)]
        self.assertEqual(self.judge(steps), "")
        self.assertEqual(self.judge([*steps, (10, 80)]), "")
        self.assertIn("saved nothing new: 2", self.judge([*steps, (10, 80), (3, 80)]))

    def test_what_fails_again_is_not_tried_again(self):
        for code in (2, 11, 13, 14):
            self.assertIn("fail again", self.judge([(code, 10)]))

    def test_lost_nodes_excuse_a_crash(self):
        self.shell("outcome", "record_end 1 0 lost")
        self.assertEqual(self.shell("outcome", "crashes_so_far; idle_starts"), "0\n0")

    def tools(self, **answers):
        """A PATH on which commands of Slurm are such scripts."""
        folder = self.run_folder / "bin"
        folder.mkdir(exist_ok=True)
        for name, script in answers.items():
            (folder / name).write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
            (folder / name).chmod(0o755)
        return f"{folder}:/usr/bin:/bin"

    def code(self, script, **environment):
        """With which exit code it ends."""
        return self.shell("exclude", f"code=0; ({script}) >/dev/null 2>&1 || code=$?; echo $code", **environment)

    def test_a_hang_that_repeats_is_idle(self):
        self.shell("outcome", "record_end 10 0 left_out; record_end 10 0 left_out")
        why = self.shell("outcome", "reason_to_give_up lost", MAX_IDLE="2")
        self.assertIn("saved nothing new: 2", why)

    def test_steps_kept_in_memory_are_progress_once(self):
        log = self.run_folder / "log.jsonl"
        for line, idle in (
            ('"step":5,"nodes":2', "0"),
            ('"step":5,"nodes":2', "1"),  # the same again
            ('"step":9,"nodes":0', "2"),  # nowhere kept
            ('"step":9,"nodes":2', "0"),
        ):
            before = self.shell("outcome", "saved_steps")
            with log.open("a", encoding="utf-8") as file:
                file.write('{"event":"memory_save","attempt":1,' + line + ',"seconds":0.1}\n')
            self.shell("outcome", 'record_end 10 "$1"', before)
            self.assertEqual(self.shell("outcome", "idle_starts"), idle, line)

    def test_a_full_disk_does_not_end_the_script(self):
        full = self.run_folder / "file"
        full.touch()
        done = self.shell("outcome", "record_end 137 0; reason_to_give_up crashed", RUN=str(full))
        self.assertIn("cannot write", done)
        self.assertIn("cannot be counted", done)

    def test_an_unanswered_question_is_no_permission(self):
        ended = "if is_being_ended; then echo yes; else echo no; fi"
        for answer, expected in (
            ("echo RUNNING", "no"), ("echo CANCELLED", "yes"), ("exit 0", "yes"), ("exit 1", "yes"),
        ):  # fmt: skip
            path = self.tools(squeue=answer)
            self.assertEqual(self.shell("exclude", ended, PATH=path, QUERY_S="0"), expected, answer)

    def test_a_question_is_asked_again(self):
        flag = self.run_folder / "asked"
        path = self.tools(squeue=f"[ -e {flag} ] && echo RUNNING || {{ touch {flag}; exit 1; }}")
        self.assertEqual(self.shell("exclude", "job_field %T", PATH=path, QUERY_S="9"), "RUNNING")

    def test_requeue(self):
        """It is tried again; a job that was cancelled, or started again by somebody else, is left alone."""
        done = self.run_folder / "requeued"
        first = self.run_folder / "first"
        scontrol = (
            f'case $1 in show) echo "   Requeue=1 Restarts=${{FAKE_RESTARTS:-0}} BatchFlag=1 ExcNodeList=n7";; '
            f"requeue) [ -e {first} ] || {{ touch {first}; echo busy; exit 1; }}; touch {done};; "
            f'update) echo "$@" >{self.run_folder}/updated;; esac'
        )
        path = self.tools(squeue="echo ${FAKE_STATE:-RUNNING}", scontrol=scontrol, sinfo="echo n1 idle")
        common = {"PATH": path, "QUERY_S": "0", "SLURM_PATIENCE_S": "9"}
        self.assertEqual(self.code("requeue why", FAKE_RESTARTS="1", **common), "0")
        self.assertEqual(self.code("requeue why", FAKE_STATE="CANCELLED", **common), "3")
        self.assertEqual(self.code("requeue why", REQUEUE="no", **common), "3")
        self.assertFalse(done.exists())
        self.assertEqual(self.code("note_exclusions; exclude_nodes hung n1 n2; requeue why", **common), "0")
        self.assertTrue(done.exists())
        updated = self.run_folder / "updated"
        self.assertIn("ExcNodeList=n7,n1,n2", updated.read_text())
        self.assertEqual(self.code("forgive_nodes enough; requeue why", **common), "0")
        self.assertTrue(updated.read_text().endswith("ExcNodeList=n7\n"))

    def test_nodes_are_left_out_for_a_time(self):
        self.shell("exclude", "exclude_nodes hung n1", BLAME_S="-1")
        self.shell("exclude", "exclude_nodes 'clock: ahead' n2 n3")
        self.assertEqual(self.shell("exclude", "excluded_nodes"), "n2\nn3")
        self.assertEqual(self.shell("exclude", "excluded_nodes", SLURM_JOB_ID="8"), "")

    def test_waiting_ends_with_the_job(self):
        must = "must_stop_waiting; echo $WHY_NOW"
        self.assertEqual(self.shell("exclude", must, SLURM_JOB_END_TIME="99"), "the end of the job is near")
        self.assertEqual(self.shell("exclude", f"stop=asked; {must}"), "asked")
        self.assertEqual(self.shell("exclude", "must_stop_waiting || echo on", SLURM_JOB_END_TIME="9999999999"), "on")

    def test_a_lease_is_waited_for_once(self):
        wait = "await_lease 2 >/dev/null && echo again; await_lease 2 || echo refused"
        self.assertEqual(self.shell("outcome", wait), "refused")
        lease = self.run_folder / "lease.json"
        lease.touch()
        os.utime(lease, (time.time() - 61, time.time() - 61))
        self.assertEqual(self.shell("outcome", wait).splitlines()[-2:], ["again", "refused"])

    def test_growth_that_brings_nothing_is_not_repeated(self):
        may = 'may_grow "$1" && echo yes || echo no'
        now = int(time.time())
        log = self.run_folder / "slurm.log"
        log.touch()
        self.assertEqual(self.shell("grow", may, 2), "yes")
        log.write_text(f"x grow job=7 restart=0 have=2 at={now}\n", encoding="utf-8")
        self.assertEqual(self.shell("grow", may, 2), "no")
        self.assertEqual(self.shell("grow", may, 3), "yes")
        self.assertEqual(self.shell("grow", may, 2, GROW_BACKOFF_S="0"), "yes")
        log.write_text(f"x grow job=7 restart=0 have=2 at={now - 99999}\n" * 3, encoding="utf-8")
        self.assertEqual(self.shell("grow", may, 2), "no")

    def test_the_preflight_names_nodes(self):
        out = self.run_folder / "out"
        for label in ("", "0: "):
            out.write_text(
                f'{label}4 ranks\n{label}preflight: {{"exit_code":14,"exclude":["n1","n3"],"problems":[]}}\n',
                encoding="utf-8",
            )
            said = self.shell("preflight", "preflight_code; preflight_exclude", PREFLIGHT_OUT=str(out))
            self.assertEqual(said, "14\nn1\nn3")
        out.write_text('preflight: {"exit_code":14,"exclude":[],"problems":[]}\n', encoding="utf-8")
        self.assertEqual(self.shell("preflight", "preflight_code; preflight_exclude", PREFLIGHT_OUT=str(out)), "14")

    def test_a_resume_of_the_beginning_is_taken_out_later(self):
        settle = '. "$0/outcome.sh"; ARGUMENTS=(--a 1 --resume none); settle_resume; echo "${ARGUMENTS[*]}"'
        self.assertEqual(self.shell("site", settle), "--a 1 --resume none")
        self.save(10)
        self.assertEqual(self.shell("site", settle).splitlines()[-1], "--a 1")

    def test_the_status_of_a_run_without_job_scripts(self):
        done = subprocess.run([LIB.parent / "status.sh", self.run_folder], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^job none +not in the queue$")

    def test_other_jobs_in_the_folder_are_not_counted(self):
        self.shell("outcome", "record_end 137 0", SLURM_JOB_ID="6")
        self.shell("outcome", "record_end 10 0")
        self.assertEqual(self.shell("outcome", "crashes_so_far; idle_starts"), "0\n1")

    def test_the_batch_of_fewer_nodes(self):
        for batch, shards, nodes, full, ranks, expected in (
            (32, 4, 4, 4, 32, 32),
            (32, 4, 3, 4, 24, 24),
            (32, 32, 3, 4, 3, 32),  # there is no lower multiple
            (480, 32, 3, 4, 24, 352),
            (12, 4, 3, 4, 3, 8),
            (12, 4, 1, 4, 1, 12),
            (32, 4, 2, 4, 24, 32),  # not a sequence for each rank
        ):
            resized = self.shell("resize", 'resized_batch "$@"', batch, shards, nodes, full, ranks)
            self.assertEqual(int(resized), expected, (batch, shards, nodes, full, ranks))

    def test_an_option_is_taken_out(self):
        take = 'ARGUMENTS=("${@:2}"); take_option "$1" 7; printf "%s;" "$VALUE" "${ARGUMENTS[@]}"'
        for words, expected in (
            (("--a", "1", "--b", "2"), "7;--a;1;--b;2;"),
            (("--n", "3", "--b", "2"), "3;--b;2;"),
            (("--b", "2", "--n=4"), "4;--b;2;"),
            (("--b", "2", "--n"), ";--b;2;"),
        ):
            self.assertEqual(self.shell("site", take, "--n", *words), expected)

    def test_words_are_split_and_nothing_else(self):
        text = "--a  *\n--b $(touch x) '`\" "
        words = self.shell("site", 'split_words "$1"; printf "<%s>" "${WORDS[@]}"', text)
        self.assertEqual(words, "<--a><*><--b><$(touch><x)><'`\">")


if __name__ == "__main__":
    unittest.main(verbosity=2)
