"""The rooms of lib/ include each other in one direction only."""

import pathlib
import tempfile
import unittest

from include_direction import dependencies, violations

TOP = pathlib.Path(__file__).resolve().parents[2]


class IncludeDirection(unittest.TestCase):
    def test_the_tree_follows_its_table(self):
        self.assertEqual(violations(TOP), [])

    def test_model_and_comm_never_see_each_other(self):
        rooms = dependencies(TOP / "lib")
        self.assertNotIn("comm", rooms["model"])
        self.assertNotIn("model", rooms["comm"])
        self.assertEqual(rooms["train"], set(rooms))


class Checker(unittest.TestCase):
    def tree(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        listings = {
            "lib/base/CMakeLists.txt": "gpt_room(base\n  LIBRARIES x\n  SOURCES a.cpp)",
            "lib/h5/CMakeLists.txt": "gpt_room(h5\n  DEPENDS base\n  SOURCES a.cpp)",
            "lib/data/CMakeLists.txt": "gpt_room(data DEPENDS h5 SOURCES a.cpp)",
        }
        for name, text in (listings | files).items():
            file = pathlib.Path(folder.name, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return folder.name

    def test_transitive_includes_are_allowed(self):
        self.assertEqual(violations(self.tree({"lib/data/a.cpp": '#include "base/error.hpp"\n'})), [])

    def test_the_wrong_direction_is_named_by_file_and_line(self):
        tree = self.tree({"lib/base/error.hpp": '#pragma once\n  #  include "data/shard.hpp"\n'})
        self.assertEqual(
            violations(tree), ["lib/base/error.hpp:2: base includes data, but may include only no other room"]
        )

    def test_includes_outside_the_rooms_are_named(self):
        tree = self.tree({"lib/data/a.cpp": '#include "shard.hpp"\n#include "../h5/h5.hpp"\n'})
        self.assertEqual([line.split(": ")[0] for line in violations(tree)], ["lib/data/a.cpp:1", "lib/data/a.cpp:2"])

    def test_programs_have_parts_of_their_own(self):
        part = {"app/bench/step.hpp": "", "app/bench/step.cpp": '#include "bench/step.hpp"\n#include "h5/h5.hpp"\n'}
        self.assertEqual(violations(self.tree(part)), [])
        for wrong in ('"bench/walk.hpp"', '"../app/bench/step.hpp"'):
            self.assertEqual(len(violations(self.tree(part | {"app/a.cpp": f"#include {wrong}\n"}))), 1)
        self.assertEqual(len(violations(self.tree(part | {"lib/h5/a.cpp": '#include "bench/step.hpp"\n'}))), 1)

    def test_a_circle_is_refused(self):
        tree = self.tree({"lib/base/CMakeLists.txt": "gpt_room(base DEPENDS data SOURCES a.cpp)"})
        with self.assertRaisesRegex(ValueError, "circle"):
            violations(tree)


if __name__ == "__main__":
    unittest.main()
