"""Shared by the tests of a fleet of real processes: Redis, a host and workers on loopback, in a temporary folder.

The program is the dev build's; ROTA_COMMAND=<path> tests another one.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from support import LIMIT_S, ROOT, ROTA, RunCase, free_port, stages  # noqa: E402  pylint: disable=wrong-import-position,unused-import

# A worker that is silent for this long is given up. A busy machine may stop a process, or its disk, for seconds, so only a
# test that is about the time itself has the short one.
TTL_MS = 30_000
SHORT_TTL_MS = 5000
HEARTBEAT = "200ms"


@unittest.skipUnless(shutil.which("redis-server"), "redis-server is not installed")
class FleetCase(RunCase):
    """A test that runs a fleet. Everything that it starts ends with it."""

    ttl_ms = TTL_MS

    def setUp(self):
        super().setUp()
        self.state = self.path("host")
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.running = {}

    def spawn(self, name, command, **options):
        log = open(self.path(name + ".log"), "a", encoding="utf-8")  # pylint: disable=consider-using-with
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=self.environment, **options)
        log.close()
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.running[name] = process
        return process

    def start_redis(self, *options):
        """Starts Redis, and returns when it answers. If somebody else has its port for a moment, it is started again."""
        until = time.monotonic() + LIMIT_S
        while True:
            redis = self.spawn("redis", ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                                         "--appendonly", "no", "--dir", self.folder, *options])
            while redis.poll() is None:
                if self.redis_pid() == redis.pid:
                    return redis
                self.assertLess(time.monotonic(), until, "Redis does not answer: " + self.log("redis")[-2000:])
                time.sleep(0.01)
            self.assertLess(time.monotonic(), until, "Redis ends: " + self.log("redis")[-2000:])

    def redis_pid(self):
        """The process that answers at Redis's port; None if nobody does."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S) as client:
                client.sendall(b"INFO server\r\n")
                reply = b""
                while not (found := re.search(rb"process_id:(\d+)\r\n", reply)):
                    piece = client.recv(1 << 16)
                    if not piece:
                        return None
                    reply += piece
                return int(found.group(1))
        except OSError:
            return None

    def start_host(self, *options, redis=True, local=0, name="host"):
        where = ("--redis", self.url) if redis else ()
        return self.spawn(name, [ROTA, "host", "--state", self.state, *where, "--local-workers", str(local),
                                 "--policy-heartbeat-ttl-ms", str(self.ttl_ms), *options])

    def wait_for_host(self):
        """Until it accepts commands: `status` and `workers` only read its files."""
        def accepts():
            try:
                folder = os.open(self.state, os.O_PATH)
            except FileNotFoundError:
                return False
            try:
                with socket.socket(socket.AF_UNIX) as client:  # Its address has 107 bytes; the folder's name may have more.
                    return client.connect_ex(f"/proc/self/fd/{folder}/control.sock") == 0
            finally:
                os.close(folder)
        self.wait_for(accepts, "the host does not accept commands: ", lambda: self.log("host")[-2000:])

    def worker_command(self, name):
        return [ROTA, "worker", "--redis", self.url, "--name", name, "--heartbeat", HEARTBEAT, "--gpu", "none"]

    def start_worker(self, name, *options):
        return self.spawn(name, [*self.worker_command(name), *options])

    def kill(self, name, number=signal.SIGKILL):
        self.running[name].send_signal(number)
        if number == signal.SIGKILL:
            self.running[name].wait(LIMIT_S)

    def stop(self, name):
        """Ends a daemon as a service manager does; returns its status."""
        process = self.running.pop(name)
        self.wait_for_handler(process, signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        return process.wait(LIMIT_S)

    def log(self, name):
        return self.read(name + ".log")

    def workers(self):
        done = self.rota("workers", self.state, "--json")
        return {worker["name"]: worker for worker in json.loads(done.stdout)["workers"]} if done.returncode == 0 else {}

    def wait_for_workers(self, count):
        """Until so many are registered, and the host accepts commands: a worker may register before that."""
        self.wait_for_host()
        self.wait_for(lambda: sum(worker["state"] in ("idle", "busy", "overloaded") for worker in self.workers().values())
                      >= count, f"{count} workers did not register: ", lambda: f"{self.workers()} {self.log('host')[-2000:]}")

    def submit(self, file, *options, timeout=LIMIT_S):
        done = self.rota("submit", file, "--state", self.state, "--json", *options, timeout=timeout)
        return done.returncode, (json.loads(done.stdout) if done.stdout else {}), done.stderr

    def workflow(self, identity=None):
        done = self.rota("status", self.state, "--json", "--all")
        self.assertEqual(done.returncode, 0, done.stderr)
        workflows = json.loads(done.stdout)["runs"][0]["workflows"]
        return next(w for w in workflows if identity in (None, w["workflow"]))

    def wait_for_end(self, identity=None):
        self.wait_for(lambda: self.workflow(identity)["outcome"] not in ("running", "interrupted"), "the workflow did not end: ",
                      lambda: f"{self.workflow(identity)} {self.log('host')[-3000:]}")
        return self.workflow(identity)

    def assert_replays(self):
        done = self.rota("replay", self.state, "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(json.loads(done.stdout)["verified"])
