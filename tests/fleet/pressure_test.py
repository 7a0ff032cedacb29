"""A fleet under pressure (U-1, U-2, U-4, B-16): programs that flood their worker, a Redis that refuses, loses or garbles what
it holds, and workers that leave with full queues. Every task runs once, and its worker is never given up."""

import os
import socket
import subprocess
import time
import unittest

from fleet_support import LIMIT_S, SHORT_TTL_MS, FleetCase, stages

FLOODS = (("y", 3), ("log a line", 3), ("progress 50 half", 3), ("checkpoint 7", 3), ("cache model m", 3),
          ("checkpoint " + "[" * 200, 3), ("y", 1), ("y", 2))  # A line, and the descriptor that it is written to.


class Redis:
    """Enough of a client to do harm: commands of bytes. A reply is bytes, a list or None; an error is bytes as well."""

    def __init__(self, test, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        self.replies = self.socket.makefile("rb")
        test.addCleanup(self.socket.close)
        test.addCleanup(self.replies.close)

    def call(self, *words):
        parts = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
        return self.reply()

    def reply(self):
        line = self.replies.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self.replies.read(int(rest) + 2)[:-2]
        return rest

    def frames(self, key):
        """The frames that a stream holds now, newest first."""
        entries = self.call("XREVRANGE", key, "+", "-", "COUNT", 4)
        if not isinstance(entries, list):
            return []
        return [value for _, fields in entries for name, value in zip(fields[::2], fields[1::2]) if name == b"f"]


class Pressure(FleetCase):
    ttl_ms = SHORT_TTL_MS

    def begin(self, *worker, host=()):
        self.start_redis()
        self.start_host(*host)
        self.start_worker("one", *worker)
        self.wait_for_workers(1)

    def exists(self, name):
        return os.path.exists(self.path(name))

    def let_time_pass(self):
        """Twice the time after which a silent worker is given up."""
        with self.assertRaises(subprocess.TimeoutExpired):
            self.running["host"].wait(2 * self.ttl_ms / 1000)

    def assert_all_once(self, identity=None):
        end = self.wait_for_end(identity)
        self.assertEqual(end["outcome"], "succeeded", self.log("host")[-3000:])
        for trouble in ("worker unreachable", "task requeued", "task failed"):
            self.assertNotIn(trouble, self.log("host"))

    def test_floods_of_lines(self):
        """Contract: U-2, B-16. Programs that write lines to $ROTA_FD without a pause: the heartbeat is not delayed, other tasks
        run, and the log does not grow with the number of lines."""
        self.begin("--cpu", "16")
        begun = time.monotonic()
        lines = [f"{{name: f{i}, needs: [], run: \"yes '{line}' >&{descriptor} & pid=$!; touch started-{i}; "
                 f"while [ ! -e go ]; do sleep 0.05; done; kill $pid; echo 1\"}}" for i, (line, descriptor) in enumerate(FLOODS)]
        self.write("w.yaml", stages(*lines))
        self.assertEqual(self.submit("w.yaml")[0], 0)
        self.wait_for(lambda: all(self.exists(f"started-{i}") for i in range(len(FLOODS))))
        self.let_time_pass()
        self.write("quick.yaml", stages("{name: quick, run: 'echo 1'}"))
        status, quick, errors = self.submit("quick.yaml", "--wait")
        self.assertEqual(status, 0, errors + self.log("host")[-2000:])
        self.write("go", "")
        self.assert_all_once("wf-1")
        self.assert_all_once(quick["workflow"])
        records = self.rota("replay", self.state, "--records").stdout.count('"ReportCheckpoint"')
        self.assertGreater(records, 0)
        # Two programs write checkpoints; of each, at most one in 200 ms is recorded, and the last one.
        self.assertLessEqual(records, 2 * ((time.monotonic() - begun) / 0.2 + 2))

    def test_redis_is_out_of_memory(self):
        """Contract: U-1. Redis refuses to write, or evicts what it holds; when it has memory again, everything arrives."""
        self.begin("--cpu", "4")
        redis = Redis(self, self.port)
        for policy in ("noeviction", "allkeys-random"):
            redis.call("CONFIG", "SET", "maxmemory-policy", policy)
            redis.call("CONFIG", "SET", "maxmemory", 1)
            self.write("w.yaml", stages(*(f"{{name: t{i}, needs: [], run: 'echo {i}'}}" for i in range(8))))
            status, submitted, errors = self.submit("w.yaml")
            self.assertEqual(status, 0, errors)
            if policy == "noeviction":
                self.let_time_pass()
            redis.call("CONFIG", "SET", "maxmemory", 0)
            end = self.wait_for_end(submitted["workflow"])
            self.assertEqual(end["outcome"], "succeeded", self.log("host")[-3000:])
            self.assertNotIn("task requeued", self.log("host"))

    def test_garbled_streams(self):
        """Contract: U-1. A message cut at any byte, a byte that is changed, messages that come again or in another order, ids that
        jump or go back, streams that vanish: each task runs once, and host and worker say what they could not read."""
        self.ttl_ms = 60_000  # Not by time: a worker that was given up would run a task again.
        self.begin("--cpu", "4")
        redis = Redis(self, self.port)
        harms = {
            "cut": lambda key, frame: [redis.call("XADD", key, "*", "f", frame[:n]) for n in range(len(frame))],
            "changed": lambda key, frame: [redis.call("XADD", key, "*", "f", frame[:n] + bytes([frame[n] ^ 0x55]) + frame[n + 1:])
                                           for n in range(1, len(frame))],
            "again": lambda key, frame: [redis.call("XADD", key, "*", "f", frame) for _ in range(5)],
            "field": lambda key, frame: redis.call("XADD", key, "*", "g", frame, "f", frame),
            "ahead": lambda key, frame: redis.call("XADD", key, f"{(1 << 63) - 1}-1", "f", frame),
            "last": lambda key, frame: redis.call("XADD", key, f"{(1 << 64) - 1}-{(1 << 64) - 1}", "f", frame),
            "gone": lambda key, frame: redis.call("DEL", key),
            "all": lambda key, frame: redis.call("FLUSHALL"),
            "type": lambda key, frame: [redis.call("DEL", key), redis.call("SET", key, "x")],
        }
        for harm, do in harms.items():
            for key in ("rota:to:one", "rota:from:one"):
                with self.subTest(harm=harm, key=key):
                    self.wait_for(lambda k=key: redis.frames(k), f"nothing is in {key}")
                    for frame in redis.frames(key)[:2]:
                        do(key, frame[:300])
                    self.write("w.yaml", stages(*(f"{{name: t{i}, needs: [], run: 'echo {i} >> ran'}}" for i in range(4))))
                    status, submitted, errors = self.submit("w.yaml", "--wait")
                    self.assertEqual(status, 0, errors + self.log("host")[-2000:] + self.log("one")[-2000:])
                    self.assertEqual(sorted(self.read("ran").split()), ["0", "1", "2", "3"], submitted)
                    self.write("ran", "")
        for name in ("host", "one"):
            self.wait_for(lambda n=name: "cannot be read" in self.log(n), f"{name} does not say what it could not read")
        self.assertIsNone(self.running["one"].poll())
        self.assertIsNone(self.running["host"].poll())

    def test_a_worker_leaves_with_a_full_queue(self):
        """Contract: U-1, B-16. It finishes what it runs; what waits at it is given to another worker, and no attempt is spent."""
        self.ttl_ms = 60_000
        self.begin("--cpu", "1", host=("--policy-max-queue-per-worker", "16"))
        self.write("w.yaml", stages(
            "{name: first, needs: [], run: 'touch started; while [ ! -e go ]; do sleep 0.02; done; echo first >> ran'}",
            *(f"{{name: t{i}, needs: [], run: 'echo {i} >> ran'}}" for i in range(30))))
        self.assertEqual(self.submit("w.yaml")[0], 0)
        self.wait_for(lambda: self.exists("started"))
        leaver = self.running.pop("one")
        leaver.terminate()
        self.wait_for(lambda: "leaving" in self.log("one"))
        self.start_worker("two", "--cpu", "1")
        self.wait_for(lambda: len(self.read("ran").split()) == 30, "what waited does not run elsewhere: ",
                      lambda: self.read("ran") + self.log("host")[-2000:])
        self.write("go", "")
        self.assertEqual(leaver.wait(LIMIT_S), 0, self.log("one"))
        end = self.wait_for_end()
        self.assertEqual(end["outcome"], "succeeded")
        self.assertEqual(sorted(self.read("ran").split()), sorted(["first", *(str(i) for i in range(30))]))
        self.assertEqual(self.stop("two"), 0)
        self.assertEqual(self.stop("host"), 0)
        self.assert_replays()


if __name__ == "__main__":
    unittest.main()
