"""Every clause needs a test that cites it; rooms that do not exist yet, and clauses declared open, may wait."""

import sys
import unittest

from support import CheckCase


class ContractTest(CheckCase):
    def contract(self, *prefixes):
        return self.run_script(sys.executable, "-B", "scripts/contract.py", *prefixes)

    def test_clean_tree_passes_and_lists_the_tests(self):
        status, said = self.contract()
        self.assertEqual(status, 0, said)
        self.assertIn("src/fiber/run_test.cc:5 Run.Runs", said)
        self.assertIn("src/fiber/run_test.cc:9 Run.Ends", said)
        self.assertIn("2 tested, 0 open, 1 pending, 0 missing", said)

    def test_an_uncited_clause_fails(self):
        self.append("docs/CONTRACT.md", "- **F-3** Nobody tests this.\n")
        status, said = self.contract()
        self.assertEqual(status, 1, said)
        self.assertIn("F-3    MISSING  no test cites it", said)

    def test_a_clause_of_a_room_that_does_not_exist_is_pending(self):
        status, said = self.contract("G")
        self.assertEqual(status, 0, said)
        self.assertIn("G-1    pending  no graph/ and flow/ yet", said)

    def test_and_missing_once_its_rooms_exist(self):
        for room in ("graph", "flow"):
            self.plant(f"src/{room}/CMakeLists.txt", f"rota_room({room} DEPS base)\n")
        status, said = self.contract()
        self.assertEqual(status, 1, said)
        self.assertIn("G-1    MISSING", said)

    def test_an_open_clause_passes_the_run_but_not_its_prefix(self):
        self.append("docs/CONTRACT.md", "- **F-3** Being written.\n- **F-4** Being written.\n")
        self.plant("scripts/contract_open.txt", "# Work in progress.\nF-3..F-4\n")
        status, said = self.contract()
        self.assertEqual(status, 0, said)
        self.assertIn("F-4    open", said)
        for prefix in ("F", "F-3"):
            status, said = self.contract(prefix)
            self.assertEqual(status, 1, said)
            self.assertIn("F-3    MISSING", said)
        self.assertEqual(self.contract("F-1")[0], 0)

    def test_an_open_range_does_not_cover_a_new_clause(self):
        self.append("docs/CONTRACT.md", "- **F-3** Being written.\n- **F-4** Planted.\n")
        self.plant("scripts/contract_open.txt", "F-3\n")
        status, said = self.contract()
        self.assertEqual(status, 1, said)
        self.assertIn("F-4    MISSING", said)

    def test_what_does_not_count(self):
        self.append("docs/CONTRACT.md", "- **F-3** Nobody tests this.\n")
        elsewhere = {
            "src/fiber/run.h": "// F-3 is explained here.\n",
            "docs/fibers.md": "F-3\n",
            "tests/README.md": "F-3\n",
            "bench/spawn.cc": "// F-3\n",
            "src/fiber/head_test.cc": "// Tests of F-3.\n#include <gtest/gtest.h>\n\nTEST(Head, Other) {}\n",
            "src/fiber/between_test.cc": "TEST(A, B) {\n}\n\n// F-3\n\nTEST(C, D) {\n}\n",
            "src/fiber/off_test.cc": "// F-3\nTEST(Off, DISABLED_Test) {\n}\n",
            "src/fiber/longer_test.cc": "// F-31, XF-3, F-3-x\nTEST(A, B) {\n}\n",
        }
        for path, text in elsewhere.items():
            self.plant(path, text)
        status, said = self.contract()
        self.assertEqual(status, 1, said)
        self.assertIn("F-3    MISSING", said)

    def test_what_counts(self):
        self.append("docs/CONTRACT.md", "- **F-3** Tested.\n")
        for path, text in {
            "src/fiber/more_test.cc": "// Contract: F-3\nTEST_F(More, Works) {\n}\n",
            "src/fiber/prop_test.cc": "// F-3\nRC_GTEST_PROP(Prop, holds, (int x)) {\n}\n",
            "src/fiber/c_abi_test.c": "/* F-3 */\nint main(void) { return 0; }\n",
            "tests/system/all_test.py": "class T:\n    # F-3\n    def test_it(self):\n        pass\n",
        }.items():
            with self.subTest(path=path):
                self.plant(path, text)
                status, said = self.contract("F")
                self.assertEqual(status, 0, said)
                self.assertIn(path, said)
                self.plant(path, "\n")

    def test_benchmarks_count_for_speed(self):
        self.append("docs/CONTRACT.md", "\n| clause | work |\n|---|---|\n| **P-1** | a switch |\n")
        self.assertEqual(self.contract("P")[0], 1)
        self.plant("bench/switch.cc", "// P-1\nint main() {}\n")
        self.assertEqual(self.contract("P")[0], 0)

    def test_an_unknown_letter_or_prefix_is_refused(self):
        self.assertEqual(self.contract("Z")[0], 2)
        self.append("docs/CONTRACT.md", "- **Z-1** What room is this?\n")
        status, said = self.contract()
        self.assertEqual(status, 1, said)
        self.assertIn("Z-1    MISSING", said)


if __name__ == "__main__":
    unittest.main()
