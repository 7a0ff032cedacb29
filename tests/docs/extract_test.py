"""What extract.py takes from a page, and what it refuses."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import extract  # noqa: E402


def read(text):
    return extract.examples_of(text, "page.md")


def block(code="f();", marker="<!-- test: one -->", output=None):
    text = f"{marker}\n```cpp\n{code}\n```\n"
    return text if output is None else text + f"\nIt prints:\n```text\n{output}\n```\n"


class ExtractTest(unittest.TestCase):
    def assert_refused(self, text, sentence):
        with self.assertRaisesRegex(extract.PageError, sentence):
            read(text)

    def test_a_block_and_its_output(self):
        example, = read("# Page\n\n" + block("f();\ng();", output="one\ntwo"))
        self.assertEqual((example.name, example.place, example.line), ("one", "task", 5))
        self.assertEqual(example.code, ["f();", "g();"])
        self.assertEqual(example.expected, "one\ntwo\n")

    def test_a_main_makes_it_a_program(self):
        example, = read(block("int main() { return 0; }"))
        self.assertEqual(example.place, "program")
        self.assertIn("int example_main() { return 0; }", extract.program_of([example], "page.md"))

    def test_an_output_behind_a_heading_or_another_block_is_not_its_own(self):
        for between in ("# Next\n", "```\nx\n```\n"):
            example, = read(block() + between + "```text\nno\n```\n")
            self.assertEqual(example.expected, "")

    def test_includes_come_first_and_once(self):
        examples = read(block("#include <map>\nf();") + block("#include <map>\ng();", "<!-- test: two -->"))
        program = extract.program_of(examples, "page.md")
        self.assertEqual(program.count("#include <map>"), 1)
        self.assertLess(program.index("#include <map>"), program.index("namespace docs_page::one"))

    def test_lines_are_the_pages(self):
        program = extract.program_of(read("\n\n" + block()), "page.md")
        self.assertIn('#line 5 "page.md"\nf();', program)

    def test_blocks_see_others_that_are_files(self):
        text = block("void f();", "<!-- test: one, in: file -->") + block("f();", "<!-- test: two, with: one -->")
        program = extract.program_of(read(text), "page.md")
        self.assertIn("using namespace docs_page::one;", program)
        self.assertEqual(program.count("TEST("), 1)
        self.assert_refused(block("f();", "<!-- test: two, with: one -->"), "no earlier example")
        self.assert_refused(block() + block("f();", "<!-- test: two, with: one -->"), "no earlier example")

    def test_a_block_without_a_marker_is_refused(self):
        self.assert_refused("```cpp\nf();\n```\n", "page.md:1: a ```cpp block needs a marker")
        self.assert_refused("<!-- test: one -->\n\n```cpp\nf();\n```\n", "page.md:1: no ```cpp block follows")

    def test_a_marker_without_a_block_is_refused(self):
        self.assert_refused("<!-- test: one -->\ntext\n", "page.md:1: no ```cpp block follows")
        self.assert_refused("<!-- test: one -->", "page.md:1: no ```cpp block follows")

    def test_bad_markers_are_refused(self):
        self.assert_refused(block(marker="<!-- test: One -->"), "'One' is no name")
        self.assert_refused(block(marker="<!-- test: one, in: space -->"), "cannot read 'in: space'")
        self.assert_refused(block(marker="<!-- test: one, in: program -->"), "no main")
        self.assert_refused(block("int main() {}", "<!-- test: one, in: task -->"), "there is a main")
        self.assert_refused(block() + block(), "another example 'one'")
        self.assert_refused(block(marker="<!-- not tested: -->"), "needs a reason")

    def test_a_block_that_is_left_alone(self):
        self.assertEqual(read(block(marker="<!-- not tested: it is C -->")), [])

    def test_a_block_without_an_end_is_refused(self):
        self.assert_refused("<!-- test: one -->\n```cpp\nf();\n", "page.md:2: the code block has no end")

    def test_a_page_without_examples_makes_an_empty_program(self):
        self.assertNotIn("TEST(", extract.program_of(read("# Page\n```cmake\nx\n```\n"), "page.md"))


if __name__ == "__main__":
    unittest.main()
