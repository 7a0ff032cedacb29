"""The script that compares the two schedulers, and the story example, as a user runs them (release build)."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT_S = 600


class BenchM3(unittest.TestCase):
    # G-11: both schedulers side by side, whichever was asked for; every figure that the contract names is there. The test run has
    # built the program; building it here as well would be a second ninja in a folder in which another may be at work.
    def test_writes_both_schedulers_side_by_side(self):
        for scheduler in ("simple", "threadpool"):
            with tempfile.TemporaryDirectory() as folder:
                out = os.path.join(folder, "m3.json")
                done = subprocess.run(
                    [sys.executable, "-B", os.path.join(ROOT, "scripts", "bench_m3.py"), "--scheduler", scheduler, "--runs",
                     "3", "--out", out, "--tasks", "50", "--work-us", "20", "--preset", "release", "--no-build"],
                    capture_output=True, text=True, check=False, timeout=LIMIT_S)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                with open(out, encoding="utf-8") as file:
                    report = json.load(file)
            self.assertEqual(report["scheduler"], scheduler)
            self.assertEqual(report["result"], report["schedulers"][scheduler])
            self.assertEqual(set(report["schedulers"]), {"simple", "threadpool"})
            for of in report["schedulers"].values():
                self.assertEqual(of["runs"], 3)
                for key in ("makespan_ms", "queue_wait_ms", "cpu_ms", "cpu_hits", "budget_hits"):
                    self.assertGreaterEqual(of[key]["p95"], of[key]["p50"])
                self.assertGreater(of["makespan_ms"]["p50"], 0)

    def test_refuses_a_bad_call(self):
        done = subprocess.run([sys.executable, "-B", os.path.join(ROOT, "scripts", "bench_m3.py"), "--scheduler", "other",
                               "--out", "x"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)


class Story(unittest.TestCase):
    def test_tells_a_small_story_on_both_schedulers(self):
        program = os.path.join(ROOT, "build", "release", "examples", "story")
        for scheduler in ("simple", "threadpool"):
            done = subprocess.run([program, "2", "1"], capture_output=True, text=True, check=False, timeout=LIMIT_S,
                                  env={**os.environ, "STV_SCHEDULER": scheduler})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("film-1: Succeeded", done.stdout)
            self.assertIn("100 %", done.stderr)


if __name__ == "__main__":
    unittest.main()
