"""What a person sees of a run: a bar that moves on a terminal, lines elsewhere."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unittest

from harness import FAILED, MPIRUN, TINY, SystemTest, options, program

BAR = re.compile(r"\[#*\.*\] step \d+/\d+")


class Screen:
    """The lines that a terminal would show, and where its cursor stands."""

    def __init__(self, text):
        self.lines, self.column = [""], 0
        for part in re.findall(r"\x1b\[K|\r|\n|[^\r\n\x1b]+|\x1b", text):
            line = self.lines[-1]
            if part == "\x1b[K":
                self.lines[-1] = line[: self.column]
            elif part == "\r":
                self.column = 0
            elif part == "\n":
                self.lines.append("")
            else:
                self.lines[-1] = line[: self.column] + part + line[self.column + len(part) :]
                self.column += len(part)


class Terminal(SystemTest):
    def on_terminal(self, columns=120, **changes):
        """(exit code, everything written to the terminal) of a run."""
        environment = os.environ | changes.pop("environment", {})
        values = {"data": self.synth(), "out": self.path("out")} | TINY | changes
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen(
            [program("gpt_mpi"), *options(values)], stdin=subprocess.DEVNULL, stdout=its, stderr=its, env=environment
        ) as process:
            os.close(its)
            written = b""
            try:
                while block := os.read(ours, 65536):
                    written += block
            except OSError:  # the terminal's other side is closed
                pass
            os.close(ours)
        return process.returncode, written.decode()

    def assert_clean(self, text):
        """No bar shares its line with anything, and what comes next starts on a line of its own."""
        screen = Screen(text)
        for line in screen.lines:
            if BAR.search(line):
                self.assertRegex(line, r"^\[#*\.*\] step \d+/\d+  [\d:]+ left[^\[\]]*$", text)
        self.assertEqual((screen.lines[-1], screen.column), ("", 0), text)
        return screen.lines

    def test_a_bar_with_the_time_left(self):
        code, text = self.on_terminal(steps=400, save_every=150, sample_tokens=5)
        self.assertEqual(code, 0, text)
        self.assertRegex(text, r"\[#+\.+\] step \d+/400  \d+:\d\d left  loss [0-9.]+")
        steps = [int(step) for step in re.findall(r"\[#*\.*\] step (\d+)/400", text)]
        self.assertEqual(steps, sorted(steps))
        self.assertGreater(len(steps), 1)
        lines = self.assert_clean(text)
        for step in (150, 300, 400):
            self.assertTrue(any(line.startswith(f"step {step}/400  saved ") for line in lines), text)
        self.assertIn("sample:", lines)

    def test_a_bar_fits_into_the_terminal(self):
        """One that wraps cannot be taken away: erasing a line erases its last row."""
        for columns in (80, 40):
            with self.subTest(columns=columns):
                code, text = self.on_terminal(columns, out=self.path(str(columns)), steps=100, save_every=100)
                self.assertEqual(code, 0, text)
                for shown in re.findall(r"\x1b\[K(\[[^\r\n]*)", text):
                    self.assertLess(len(shown), columns, text)

    def test_the_bar_does_not_outlive_the_run(self):
        code, text = self.on_terminal(steps=30)
        self.assertEqual(code, 0, text)
        self.assert_clean(text)

    def test_an_error_does_not_share_the_bars_line(self):
        code, text = self.on_terminal(steps=400, environment={"GPT_FAULT": "step:throw@step=200"})
        self.assertEqual(code, FAILED, text)
        lines = self.assert_clean(text)
        self.assertIn("gpt_mpi: fault injected at 'step'", lines)

    def test_log_every_0_shows_no_steps(self):
        code, text = self.on_terminal(steps=30, save_every=30, log_every=0)
        self.assertEqual(code, 0, text)
        self.assertNotRegex(text, r"\d+/30  loss")
        self.assertIn("step 30/30  saved", text)
        done = self.start(self.synth(), self.path("pipe"), steps=30, log_every=0)
        self.assertEqual(done.code, 0, str(done))
        self.assertNotRegex(done.text, r"\d+/30  loss")

    def test_elsewhere_lines_at_the_interval(self):
        done = self.start(self.synth(), self.path("out"), steps=10, log_every=4)
        self.assertEqual(done.code, 0, str(done))
        self.assertEqual(re.findall(r"(?m)^step (\d+)/10  loss [0-9.]+", done.out), ["1", "4", "8", "10"])
        self.assertNotIn("\x1b", done.text)
        self.assertNotIn("\r", done.text)

    def test_mpirun_into_a_file_writes_lines(self):
        """Open MPI gives its ranks a terminal of its own, wherever its output goes."""
        done = self.start(self.synth(), self.path("out"), ranks=2, steps=10, log_every=5)
        self.assertEqual(done.code, 0, str(done))
        self.assertEqual(re.findall(r"(?m)^step (\d+)/10  loss [0-9.]+", done.out), ["1", "5", "10"])
        self.assertNotIn("\x1b", done.text, f"{MPIRUN} into a pipe")

    def test_the_sample_comes_after_the_model_is_safe(self):
        done = self.start(self.synth(), self.path("out"), steps=4, save_every=3, eval_every=3, sample_tokens=20)
        self.assertEqual(done.code, 0, str(done))
        parts = ("step 4/4  loss", "step 4/4  validation", "step 4/4  saved", "sample:")
        order = [done.out.index(part) for part in parts]
        self.assertEqual(order, sorted(order), str(done))
        self.assertGreaterEqual(len(done.out.split("sample:\n", 1)[1]), 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
