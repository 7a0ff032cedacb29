"""Length, machine paths and formatting."""

import os
import unittest

from support import CheckCase


class LengthTest(CheckCase):
    def test_clean_tree_passes(self):
        self.assert_clean("length")

    def test_800_lines_are_allowed_and_801_are_not(self):
        self.plant("src/fiber/long.cc", "//\n" * 800)
        self.assert_clean("length")
        self.plant("src/fiber/long.cc", "//\n" * 801)
        self.assert_caught("length", "src/fiber/long.cc", "801 lines")

    def test_a_stated_reason_allows_it(self):
        self.plant("src/fiber/long.cc", "// Long because: the table of all states is one thing.\n" + "//\n" * 900)
        self.assert_clean("length")

    def test_an_empty_or_late_reason_does_not(self):
        self.plant("src/fiber/long.cc", "// Long because:\n" + "//\n" * 900)
        self.assert_caught("length", "src/fiber/long.cc")
        self.plant("src/fiber/long.cc", "//\n" * 500 + "// Long because: the table of all states is one thing.\n" * 400)
        self.assert_caught("length", "src/fiber/long.cc")

    def test_scripts_count_too(self):
        self.plant("scripts/long.py", "#\n" * 801)
        self.assert_caught("length", "scripts/long.py")


class PathsTest(CheckCase):
    def test_clean_tree_passes(self):
        self.assert_clean("paths")

    def test_machine_paths_are_caught(self):
        for path in ("home/anna/rota", "root/rota", "work/main", "Users/anna"):
            with self.subTest(path=path):
                self.plant("docs/notes.md", f"See\n/{path} for more.\n")
                self.assert_caught("paths", "docs/notes.md:2")

    def test_other_paths_pass(self):
        self.plant("docs/notes.md", "/usr/bin/python3, /etc/os-release, /workers/{id}, $HOME/x, a/home/b, src/root/x\n")
        self.assert_clean("paths")


class FormatTest(CheckCase):
    def test_clean_tree_passes(self):
        self.assert_clean("format")

    def test_a_badly_formatted_file_is_caught_and_format_mends_it(self):
        self.plant("src/fiber/ugly.cc", "int  f( int*p ){return *p ;}\n")
        self.assert_caught("format", "src/fiber/ugly.cc:1")
        status, said = self.run_script("./dev", "format")
        self.assertEqual(status, 0, said)
        self.assert_clean("format")
        with open(os.path.join(self.root, "src/fiber/ugly.cc"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "int f(int* p) { return *p; }\n")

    def test_a_file_found_clean_is_checked_again_when_it_changes(self):
        self.assert_clean("format")
        self.append("src/fiber/run.h", "int  x ;\n")
        self.assert_caught("format", "src/fiber/run.h:5")


if __name__ == "__main__":
    unittest.main()
