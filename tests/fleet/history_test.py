"""Hosts whose log is not the one that their workers remember (U-1): it was lost, restored from an older copy, or another
host used the fleet meanwhile. Tasks and attempts then have numbers that mean something else to the workers."""

import os
import re
import shutil
import socket
import unittest

from fleet_support import FleetCase, LIMIT_S, stages

WAITS = "echo $$ >> ran; while [ ! -e go ]; do sleep 0.02; done; echo old"


class History(FleetCase):
    def begin(self):
        self.start_redis()
        self.start_host()
        self.start_worker("one", "--cpu", "2")
        self.wait_for_workers(1)

    def wait_until_trimmed(self):
        """Until nothing of what the worker has said so far is left in Redis for the next host; heartbeats follow."""
        def first_id(command):
            with socket.create_connection(("127.0.0.1", self.port)) as redis:
                redis.settimeout(LIMIT_S)
                redis.sendall(command + b"\r\n")
                reply = b""
                while reply != b"*0\r\n":
                    if found := re.search(rb"(\d+)-(\d+)\r\n", reply):
                        return tuple(map(int, found.groups()))
                    piece = redis.recv(1 << 16)
                    self.assertTrue(piece, "Redis closes the connection")
                    reply += piece
                return None
        newest = first_id(b"XREVRANGE rota:from:one + - COUNT 1")
        self.wait_for(lambda: newest is None or (first_id(b"XRANGE rota:from:one - + COUNT 1") or newest) > newest
                      or first_id(b"XRANGE rota:from:one - + COUNT 1") is None, "what the worker said stays in Redis")

    def run_new(self):
        """A workflow whose task has the number of one that the worker knows: it runs, and its output is its own."""
        self.wait_for_host()
        self.write("new.yaml", stages("{name: t, run: 'touch new; echo new'}"))
        status, submitted, errors = self.submit("new.yaml", "--wait")
        self.assertEqual((status, submitted.get("outcome")), (0, "succeeded"),
                         errors + self.log("host")[-3000:] + self.log("one")[-2000:])
        self.assertTrue(os.path.exists(self.path("new")))
        self.wait_for(lambda: self.rota("logs", self.state, "t").stdout != "")
        self.assertEqual(self.rota("logs", self.state, "t").stdout, "new\n")
        return submitted["workflow"]

    def test_the_log_is_lost_after_two_attempts(self):
        """Contract: U-1."""
        self.begin()
        self.write("w.yaml", stages("{name: t, max_attempts: 3, run: 'echo old; [ -e again ] || { touch again; exit 1; }'}"))
        self.assertEqual(self.submit("w.yaml", "--wait")[0], 0)
        self.assertEqual(self.stop("host"), 0)
        shutil.rmtree(self.state)
        self.start_host()
        self.wait_for_workers(1)
        self.assertEqual(self.run_new(), "wf-1")

    def test_the_log_is_lost_while_a_task_runs(self):
        """Contract: U-1. What the worker runs for the former host is stopped, and is not taken for a task of the new one,
        which has the same number: with and without what the worker said to the former host being left in Redis."""
        for trimmed in (True, False):
            with self.subTest(trimmed=trimmed):
                self.begin() if trimmed else self.start_host()
                self.wait_for_workers(1)
                self.write("w.yaml", stages(f"{{name: t, run: '{WAITS}'}}"))
                self.assertEqual(self.submit("w.yaml")[0], 0)
                self.wait_for(lambda: self.read("ran"))
                if trimmed:
                    self.wait_until_trimmed()
                self.kill("host")
                shutil.rmtree(self.state)
                self.start_host()
                self.wait_for_workers(1)
                self.assertEqual(self.run_new(), "wf-1")
                self.wait_for(lambda: not os.path.exists(f"/proc/{self.read('ran').split()[0]}"), "the old program runs on")
                self.assertEqual(len(self.read("ran").split()), 1, "the old program ran twice")
                self.kill("host")
                shutil.rmtree(self.state)
                os.unlink(self.path("ran"))
                os.unlink(self.path("new"))

    def test_an_older_copy_of_the_log_is_restored(self):
        """Contract: U-1."""
        self.begin()
        self.write("w.yaml", stages("{name: t, max_attempts: 3, run: 'echo old; [ -e again ] || { touch again; exit 1; }'}"))
        self.assertEqual(self.submit("w.yaml", "--wait")[0], 0)
        self.assertEqual(self.stop("host"), 0)
        shutil.copytree(self.state, self.path("copy"))
        os.unlink(self.path("again"))
        self.start_host()
        self.wait_for_host()
        self.assertEqual(self.submit("w.yaml", "--wait")[0], 0)
        self.assertEqual(self.stop("host"), 0)
        shutil.rmtree(self.state)
        os.rename(self.path("copy"), self.state)
        self.start_host()
        self.assertEqual(self.run_new(), "wf-2")

    def test_another_host_uses_the_prefix_for_a_while(self):
        """Contract: U-1. The first host ends and says why; when it is back, its tasks run again although the other host had
        told the worker to stop them."""
        self.begin()
        self.write("w.yaml", stages(f"{{name: t, run: '{WAITS}'}}", "{name: last, needs: [t], run: 'test ${t.result} = \"old\"'}"))
        self.assertEqual(self.submit("w.yaml")[0], 0)
        self.wait_for(lambda: self.read("ran"))
        self.wait_until_trimmed()
        first, self.state = self.state, self.path("other")
        self.start_host(name="other-host")
        self.assertNotEqual(self.running.pop("host").wait(LIMIT_S), 0)
        self.assertIn("another host uses the fleet", self.log("host"))
        self.wait_for(lambda: not os.path.exists(f"/proc/{self.read('ran').split()[0]}"), "the other host did not stop the task")
        self.assertEqual(self.stop("other-host"), 0)
        self.state = first
        self.start_host()
        self.wait_for(lambda: len(self.read("ran").split()) == 2, "the task does not run again: ",
                      lambda: self.log("host")[-2000:] + self.log("one")[-2000:])
        self.write("go", "")
        self.assertEqual(self.wait_for_end()["outcome"], "succeeded", self.log("host")[-3000:])
        self.assertEqual(self.stop("one"), 0, self.log("one"))
        self.assertEqual(self.stop("host"), 0, self.log("host"))
        self.kill("redis")
        self.assert_nothing_runs()
        self.assert_replays()


if __name__ == "__main__":
    unittest.main()
