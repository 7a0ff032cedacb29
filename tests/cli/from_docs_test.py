"""Runs every example of the pages docs/from-*.md (dev build)."""

import glob
import os
import re
import unittest

from support import ROOT, ROTA, RunCase


def blocks(page, language):
    """(line, text) of each block in a language."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    for match in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, match.start()) + 1, match.group(1)


class From(RunCase):
    # Y-1, Y-2, Y-5, Y-7: each example of the pages for users of other tools runs; the second time, what is cached is
    # not run again.
    def test_workflows(self):
        count = 0
        for page in sorted(glob.glob(os.path.join(ROOT, "docs", "from-*.md"))):
            for line, text in blocks(page, "yaml"):
                with self.subTest(f"{os.path.basename(page)}:{line}"):
                    folder = f"{os.path.basename(page)}-{line}"
                    os.mkdir(self.path(folder))
                    self.write(f"{folder}/w.yaml", text)
                    done = self.rota("run", f"{folder}/w.yaml", "--json")
                    self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr)
                    again = self.rota("run", f"{folder}/w.yaml", "--json")
                    self.assertEqual(again.returncode, 0, again.stdout[-3000:] + again.stderr)
                    cached = sum(1 for task in self.summary(again)["tasks"] if task.get("cached"))
                    if "cache:" in text:
                        self.assertGreater(cached, 2)
                    count += 1
        self.assertGreaterEqual(count, 7)

    # Y-8: the commands of the page for users of GNU parallel.
    def test_commands(self):
        (_, text), = blocks(os.path.join(ROOT, "docs", "from-parallel.md"), "sh")
        os.mkdir(self.path("bin"))
        os.symlink(ROTA, self.path("bin/rota"))
        done = self.run_program(["sh", "-e", "-c", text],
                                env={**self.environment, "PATH": self.path("bin") + ":" + os.environ["PATH"]})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split("\n"), ["hello Ann", "hello Bob", "ONE", "TWO", "line a", "line b", "a1", "a2",
                                                   "b1", "b2", ""])


if __name__ == "__main__":
    unittest.main()
