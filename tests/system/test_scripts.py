"""How the scripts refuse what they are not told."""

import unittest

from harness import TOP, USAGE, SystemTest, execute


class Scripts(SystemTest):
    def test_a_missing_argument_is_answered_with_the_usage(self):
        for words in (
            ("tools/mpirun.sh",),
            ("tools/mpirun.sh", "2"),
            ("tools/plot.sh",),
            ("tools/demo_data.sh",),
            ("run", "plot"),
        ):
            with self.subTest(words=words):
                self.assert_usage([str(TOP / words[0]), *words[1:]])

    def test_wrong_arguments_are_refused_by_the_scripts_themselves(self):
        for words, part in (
            (("tools/mpirun.sh", "x", "true"), "'x' is not a number of ranks"),
            (("tools/mpirun.sh", "0", "true"), "'0' is not a number of ranks"),
            (("tools/mpirun.sh", "2", "./no_such_program"), "there is no program ./no_such_program"),
            (("run", "demo", "twice"), "./run demo takes no arguments"),
        ):
            with self.subTest(words=words):
                done = execute([str(TOP / words[0]), *words[1:]])
                self.assertEqual(done.code, USAGE, str(done))
                self.assertIn(part, done.err)

    def test_the_check_of_gpus_tells_what_failed(self):
        """With a build in which nothing is: every check fails, and the rest of the table is there."""
        check, build = str(TOP / "tests/gpu/check.sh"), self.path("build")
        build.mkdir()
        folders = {"BUILD": str(build), "LOGS": str(self.path("logs"))}
        done = execute([check, "--stand-in"], environment=folders)
        self.assertEqual(done.code, 1, str(done))
        for what in ("operator cases", "queues, events, memory", "training", "a step by operation", "a short training"):
            self.assertRegex(done.out, rf"(?m)^{what} .* failed$")
        self.assertRegex(done.out, r"(?m)^compute-sanitizer .* skipped$")
        self.assertRegex(done.out, r"(?m)^6 failed; \d+ s; whole outputs in ")
        late = execute([check, "--stand-in"], environment=folders | {"LIMIT": "1"})
        self.assertEqual(late.code, 1, str(late))
        self.assertRegex(late.out, r"(?m)^operator cases +no time left of 1 s +failed$")
        self.assert_usage([check, "--now"])

    def assert_usage(self, command):
        done = execute(command)
        self.assertEqual(done.code, USAGE, str(done))
        self.assertRegex(done.err, r"\Ausage: [^\n]+\n\Z")

    def test_help_is_given_however_it_is_asked_for(self):
        for words in (("help",), ("--help",), ("-h",), ("demo", "--help"), ("plot", "--help")):
            with self.subTest(words=words):
                done = execute([str(TOP / "run"), *words])
                self.assertEqual(done.code, 0, str(done))
                self.assertIn("plot RUN", done.out)

    def test_an_unknown_command_is_answered_with_the_commands(self):
        done = execute([str(TOP / "run"), "walk"])
        self.assertEqual(done.code, USAGE, str(done))
        self.assertIn("unknown command 'walk'", done.err)
        self.assertIn("plot RUN", done.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
