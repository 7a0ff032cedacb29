"""bench/pages with few tasks and pages: it opens them, they read, and it prints both figures. Times are not checked."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROTA = os.environ.get("ROTA_COMMAND") or os.path.join(BENCH, "..", "build", "release", "src", "cli", "rota")


class PagesTest(unittest.TestCase):
    # H-6, W-1: decisions with 0 and with open pages.
    @unittest.skipUnless(os.access(ROTA, os.X_OK), "rota is not built")
    def test_small(self):
        with tempfile.TemporaryDirectory(prefix="rota-pages-test-") as folder:
            out = os.path.join(folder, "out.json")
            done = subprocess.run([sys.executable, "-B", os.path.join(BENCH, "pages"), "--rota", ROTA, "--tasks", "40", "--pages", "3",
                                   "--rounds", "1", "--json", out], capture_output=True, text=True, check=False, timeout=600)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(out, encoding="utf-8") as file:
                result = json.load(file)
        self.assertEqual(set(result["rows"]), {"0", "3"})
        self.assertGreater(result["rows"]["3"]["tasks_per_second"], 0)
        self.assertEqual(len(result["reads"]), 1)


if __name__ == "__main__":
    unittest.main()
