"""Shared by the tests of the `rota` program: a folder, the program in it, and the processes that it left.

The program is the dev build's; ROTA_COMMAND=<path> tests another one.
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROTA = os.environ.get("ROTA_COMMAND") or os.path.join(ROOT, "build", "dev", "src", "cli", "rota")
# How long anything may take before it counts as failed. It costs time only when a test fails, so it is far longer than
# anything takes on a machine that is busy with other things.
LIMIT_S = 180


def stages(*lines):
    return "apiVersion: rota/v1\nspec:\n  stages:\n" + "".join(f"    - {line}\n" for line in lines)


def graph(*lines):
    return "apiVersion: rota/v1\nspec:\n  graph:\n" + "".join(f"    {line}\n" for line in lines)


def free_port():
    """A port of loopback that nobody listens on, from below the range that the system gives out by itself: no connection and
    no other server that asks for any port gets it in the meantime, even while the server of the test is down."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first = int(file.read().split()[0])
    for _ in range(1000):
        port = random.SystemRandom().randrange(11_000, max(first, 12_000))  # Browsers refuse 10080.
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise OSError("no port of loopback is free")


class RunCase(unittest.TestCase):
    """A test that runs `rota` in a temporary folder. Nothing that it starts outlives it."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rota-cli-")
        self.addCleanup(self.clean_up)
        # Every process that is started here has it in its environment, even a daemon.
        self.mark = "ROTA_TEST_MARK=" + uuid.uuid4().hex
        # Nothing of the user's, or of the service that runs the tests, may lead `rota` elsewhere.
        foreign = ("ROTA_URL", "ROTA_TOKEN", "ROTA_CA", "ROTA_REDIS_CA", "NOTIFY_SOCKET", "ROTA_HOST_STATE")
        self.environment = {**{name: value for name, value in os.environ.items() if name not in foreign},
                            **dict([self.mark.split("=")])}

    def clean_up(self):
        """Ends what still runs, then removes the folder: a process that writes into it would make that fail."""
        until = time.monotonic() + LIMIT_S
        while (left := self.left_running()) and time.monotonic() < until:
            for pid, _ in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)
        shutil.rmtree(self.folder, ignore_errors=True)

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

    @staticmethod
    def executable():
        return ROTA

    def run_program(self, arguments, **options):
        settings = {"cwd": self.folder, "capture_output": True, "text": True, "check": False, "timeout": LIMIT_S,
                    "env": self.environment}
        return subprocess.run(arguments, **(settings | options))

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

    def wait_for(self, condition, words=f"it did not happen in {LIMIT_S} s", details=lambda: ""):
        until = time.monotonic() + LIMIT_S
        while not condition():
            if time.monotonic() > until:
                self.fail(f"{words}{details()}")
            time.sleep(0.01)

    def wait_for_handler(self, process, number):
        """Until the process handles a signal, which would end it before: it may have been started a moment ago."""
        def handles():
            try:
                with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
                    found = dict(line.split(":", 1) for line in file)
            except OSError:
                return True
            return process.poll() is not None or int(found.get("SigCgt", "0"), 16) >> (number - 1) & 1
        self.wait_for(handles, f"{process.args} does not handle signal {number}")

    def summary(self, done):
        """The last line of --json."""
        self.assertTrue(done.stdout, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])
