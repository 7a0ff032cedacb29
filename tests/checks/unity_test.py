"""Files that are compiled together in a unity build have no name that means different things in them."""

import os
import subprocess
import sys
import unittest

from support import ROOT, CheckCase

HELPER = "namespace {{\n\n{0}\n\n}}  // namespace\n\nint {1}() {{ return 1; }}\n"


class UnityTest(CheckCase):
    def groups(self, files, max_lines=1000):
        """The names of the files, by group."""
        for name, text in files.items():
            self.plant(name, text)
        said = subprocess.run([sys.executable, "-B", os.path.join(ROOT, "cmake/unity_groups.py"), str(max_lines), *files],
                              cwd=self.root, capture_output=True, text=True, check=True).stdout
        found = {}
        for line in said.splitlines():
            group, name = line.split("\t")
            found.setdefault(group, []).append(name)
        self.assertEqual(sorted(sum(found.values(), [])), sorted(files))  # Each file is in one group, and only once.
        return list(found.values())

    def test_files_without_a_common_name_are_one_group(self):
        self.assertEqual(self.groups({"a.cc": HELPER.format("int first(int x) { return x; }", "a"),
                                      "b.cc": HELPER.format("int second(int x) { return x; }", "b")}), [["a.cc", "b.cc"]])

    def test_each_kind_of_declaration_keeps_its_namesake_away(self):
        for declaration in ("int same(int x) { return x; }", "struct same {};", "enum class same { kOne };",
                            "using same = std::vector<int>;", "constexpr int same = 7;", "const std::map<int, int> same{{1, 2}};",
                            "std::function<void(int)> same(const std::string& text);", "template <typename T>\nT same(T x);",
                            "std::string_view same[] = {};", "std::atomic<int> same;",
                            "[[gnu::noinline, maybe_unused]] int same(int x) { return x; }"):
            with self.subTest(declaration=declaration):
                one, other = HELPER.format(declaration, "a"), HELPER.format("int same(char x);", "b")
                self.assertEqual(self.groups({"a.cc": one, "b.cc": other}), [["a.cc"], ["b.cc"]])

    def test_statics_and_macros_count(self):
        for text in ("static int same(int x) { return x; }\n", "#define same 1\n"):
            with self.subTest(text=text):
                self.assertEqual(self.groups({"a.cc": text, "b.cc": "int b() { return same(1); }\n"}), [["a.cc"], ["b.cc"]])

    def test_a_name_that_the_other_file_means_otherwise_keeps_it_away(self):
        one = HELPER.format("struct Event {};", "a")
        self.assertEqual(self.groups({"a.cc": one, "b.cc": "void set(Event& event);\n"}), [["a.cc"], ["b.cc"]])
        self.assertEqual(self.groups({"b.cc": "void set(Event& event);\n", "a.cc": one}), [["b.cc"], ["a.cc"]])

    def test_members_comments_and_texts_do_not_count(self):
        one = HELPER.format("int same(int x) { return x; }", "a")
        for text in ("int b(X x) { return x.same(); }\n", "int b(X* x) { return x->same(); }\n", "int b() { return other::same(); }\n",
                     "int b();  // same\n", 'const char* b() { return "same"; }\n'):
            with self.subTest(text=text):
                self.assertEqual(self.groups({"a.cc": one, "b.cc": text}), [["a.cc", "b.cc"]])

    def test_files_with_hooks_of_the_simulator_are_by_themselves(self):
        hook = '#include "base/sim_hooks.h"\n'
        self.assertEqual(self.groups({"a.cc": hook, "b.cc": "int b();\n", "c.cc": hook, "d.cc": "int d();\n"}),
                         [["a.cc", "c.cc"], ["b.cc", "d.cc"]])

    def test_a_group_has_a_size(self):
        text = "// A line.\n" * 40
        self.assertEqual(self.groups({"a.cc": text, "b.cc": text, "c.cc": text}, max_lines=80), [["a.cc", "b.cc"], ["c.cc"]])
        self.assertEqual(self.groups({"a.cc": text * 3, "b.cc": text}, max_lines=80), [["a.cc"], ["b.cc"]])


if __name__ == "__main__":
    unittest.main()
