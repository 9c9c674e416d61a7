"""What docs/ lists is what the code has."""

import pathlib
import re
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]


def text(name):
    return (TOP / name).read_text(encoding="utf-8")


class Docs(unittest.TestCase):
    def test_every_fault_point_is_listed(self):
        points = set()
        for folder in ("lib", "app"):
            for file in (TOP / folder).rglob("*.[ch]*pp"):
                points |= set(re.findall(r'(?:fault|value|file)_point\("([^"]+)"\)', file.read_text(encoding="utf-8")))
        listed = set(re.findall(r"^\| `([a-z._]+)` \|", text("docs/fault-injection.md").split("## Points")[1], re.M))
        self.assertEqual(points, listed)
        table = text("lib/base/fault_points.cpp")
        self.assertEqual(points, set(re.findall(r'\{"([a-z._]+)", \{', table, re.M)))

    def test_every_exit_code_is_listed(self):
        codes = set(re.findall(r"^\s*\w+ = (\d+),", text("lib/base/exit_code.hpp"), re.M))
        self.assertEqual(codes, set(re.findall(r"^\| (\d+) \|", text("docs/exit-codes.md"), re.M)))

    def test_options_of_one_start_are_listed(self):
        entries = re.findall(r'\{\w+, "([a-z-]+)",[^{}]*Entry::Scope::\w+\}', text("app/train_options.cpp"))
        self.assertGreater(len(entries), 5)
        page = text("docs/options.md")
        listed = page[: re.search(r"belong\s+to\s+one\s+start", page).start()].rsplit("bits as one", 1)[1]
        self.assertEqual(set(entries), set(re.findall(r"`--([a-z-]+)`", listed)))

    def test_links_lead_somewhere(self):
        for page in (TOP / "README.md", *(TOP / "docs").glob("*.md")):
            for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
                self.assertTrue((page.parent / target).exists(), f"{page.name}: {target}")


if __name__ == "__main__":
    unittest.main()
