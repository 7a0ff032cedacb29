"""bench/http with few streams and tasks: every row is measured, and its streams and reads are real. Times are not checked."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROTA = os.environ.get("ROTA_COMMAND") or os.path.join(BENCH, "..", "build", "release", "src", "cli", "rota")


class HttpTest(unittest.TestCase):
    @unittest.skipUnless(os.access(ROTA, os.X_OK), "rota is not built")
    @unittest.skipUnless(shutil.which("wrk"), "wrk is not installed")
    def test_small(self):
        """Contract: P-18, H-6. Each row of the HTTP interface."""
        with tempfile.TemporaryDirectory(prefix="rota-http-test-") as folder:
            out = os.path.join(folder, "out.json")
            done = subprocess.run([sys.executable, "-B", os.path.join(BENCH, "http"), "--rota", ROTA, "--seconds", "1", "--streams", "20",
                                   "--submits", "5", "--tasks", "20", "--large", "500", "--json", out],
                                  capture_output=True, text=True, check=False, timeout=600)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(out, encoding="utf-8") as file:
                result = json.load(file)
        self.assertEqual({row.split()[0] for row in result}, {"reads", "streams", "events", "submit", "large", "decisions"})
        # Each stream gets the acceptance and at least one record for each task.
        self.assertGreaterEqual(result["events"]["events"], 20 * 21)
        self.assertGreater(result["decisions"]["beside_per_second"], 0)


if __name__ == "__main__":
    unittest.main()
