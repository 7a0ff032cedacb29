"""Shared by the tests of the `rota` program: a folder, the program in it, and the processes that it left.

The program is the dev build's; ROTA_COMMAND=<path> tests another one.
"""

import json
import os
import subprocess
import tempfile
import time
import unittest
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROTA = os.environ.get("ROTA_COMMAND") or os.path.join(ROOT, "build", "dev", "src", "cli", "rota")
LIMIT_S = 60


def stages(*lines):
    return "apiVersion: rota/v1\nspec:\n  stages:\n" + "".join(f"    - {line}\n" for line in lines)


def graph(*lines):
    return "apiVersion: rota/v1\nspec:\n  graph:\n" + "".join(f"    {line}\n" for line in lines)


class RunCase(unittest.TestCase):
    """A test that runs `rota` in a temporary folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rota-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        # Every process that is started here has it in its environment, even a daemon.
        self.mark = "ROTA_TEST_MARK=" + uuid.uuid4().hex
        self.environment = {**os.environ, **dict([self.mark.split("=")])}

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def rota(self, *arguments, env=None, **options):
        settings = {"cwd": self.folder, "capture_output": True, "text": True, "check": False, "timeout": LIMIT_S,
                    "env": {**self.environment, **(env or {})}}
        return subprocess.run([ROTA, *arguments], **(settings | options))

    def start(self, *arguments, **options):
        settings = {"cwd": self.folder, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True,
                    "env": self.environment}
        process = subprocess.Popen([ROTA, *arguments], **(settings | options))
        if process.stdout is not None:
            self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def left_running(self):
        """(pid, command line) of each process, zombies excluded, that this test or one of its processes has started."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    marked = self.mark.encode() in file.read().split(b"\0")
                if marked:
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        found.append((int(pid), file.read().replace(b"\0", b" ").decode(errors="replace").strip()))
            except OSError:  # It has ended meanwhile, or belongs to another user.
                pass
        return found

    def assert_nothing_runs(self):
        self.wait_for(lambda: not self.left_running(), "still running: ", self.left_running)

    def wait_for(self, condition, words="it did not happen in a minute", details=lambda: ""):
        for _ in range(LIMIT_S * 100):
            if condition():
                return
            time.sleep(0.01)
        self.fail(f"{words}{details()}")

    def summary(self, done):
        """The last line of --json."""
        self.assertTrue(done.stdout, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])
