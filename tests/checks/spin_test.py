"""The model of the replication protocol (tests/spin/replication.pml), checked by Spin in all its states (L-3).

Each guard of the model is also removed, one at a time: an error that Spin does not find then would mean that the model checks
nothing.
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

MODEL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "spin", "replication.pml")
LIMIT_S = 600


@unittest.skipUnless(shutil.which("spin") and shutil.which("gcc"), "spin is not installed")
class Replication(unittest.TestCase):
    def check(self, *macros):
        """The number of errors, and of states."""
        with tempfile.TemporaryDirectory(prefix="rota-spin-") as folder:
            for command in (["spin", *(f"-D{macro}" for macro in macros), "-a", MODEL],
                            ["gcc", "-O1", "-w", "-DSAFETY", "-DMEMLIM=1024", "-o", "pan", "pan.c"],
                            # -E: that a host waits for ever at the bound of the model is not an error.
                            ["./pan", "-E", "-m100000"]):
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("max search depth too small", done.stdout)
        return (int(re.search(r"errors: (\d+)", done.stdout).group(1)),
                int(re.search(r"(\d+) states, stored", done.stdout).group(1)))

    def test_the_protocol(self):
        """Contract: L-3."""
        errors, states = self.check()
        self.assertEqual(errors, 0)
        self.assertGreater(states, 100_000)

    def test_every_guard_is_needed(self):
        """Contract: L-3."""
        with open(MODEL, encoding="utf-8") as file:
            macros = set(re.findall(r"#ifn?def ([A-Z_]+)", file.read())) - {"REVISIONS"}
        self.assertEqual(len(macros), 7)
        for macro in sorted(macros):
            with self.subTest(macro):
                self.assertEqual(self.check(macro)[0], 1)


if __name__ == "__main__":
    unittest.main()
