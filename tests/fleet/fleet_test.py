"""A host, workers and Redis as processes, one accident at a time (U-1, U-2, U-4, B-5, B-16)."""

import json
import os
import signal
import subprocess
import sys
import unittest

from fleet_support import FleetCase, LIMIT_S, ROOT, ROTA, SHORT_TTL_MS, stages

# It runs until the file `go` exists, and leaves a line for each execution.
WAITS = "echo $$ >> ran-{0}; while [ ! -e go ]; do sleep 0.02; done; echo 5"


class Fleet(FleetCase):
    def begin(self, *workers, host=()):
        self.start_redis()
        self.start_host(*host)
        for worker in workers:
            self.start_worker(*worker)
        self.wait_for_workers(len(workers))

    def executions(self, name):
        return len(self.read("ran-" + name).splitlines())

    def submit_waiting(self, count=1, cpu=1):
        lines = [f"{{name: t{i}, needs: [], run: '{WAITS.format(i)}', resources: {{hardware: {{cpu: {cpu}}}}}}}" for i in range(count)]
        self.write("w.yaml", stages(*lines, "{name: last, needs: [t0], run: 'test ${t0.result} = 5'}"))
        status, submitted, errors = self.submit("w.yaml")
        self.assertEqual(status, 0, errors)
        self.wait_for(lambda: all(self.executions(str(i)) for i in range(count)))
        return submitted["workflow"]

    def holder(self):
        """The worker that has the task."""
        self.wait_for(lambda: any(w["running"] for w in self.workers().values()), "no worker has a task: ",
                      lambda: f"{self.workers()}")
        return next(w["name"] for w in self.workers().values() if w["running"])

    def wait_until_gone(self, name):
        """Until a worker that has left is gone from the fleet: it says so, and does not wait for the host's decision. One that is
        only silent stays in the list."""
        self.wait_for(lambda: name not in self.workers(), f"{name} is still there: ", lambda: f"{self.workers()}")

    def end_well(self, attempts=None):
        self.write("go", "")
        end = self.wait_for_end()
        self.assertEqual(end["outcome"], "succeeded", self.log("host")[-3000:])
        if attempts is not None:
            self.assertEqual({t["name"]: t["attempts"] for t in end["tasks"] if t["name"] != "last"}, attempts)
        for name in [n for n in self.running if n != "redis"]:
            self.assertEqual(self.stop(name), 0, self.log(name)[-2000:])
        self.kill("redis")
        self.assert_nothing_runs()
        self.assert_replays()
        return end

    def test_attributes_and_output(self):
        """Contract: U-2, B-5. What a worker says about its machine decides where a task runs; its output comes back."""
        self.begin(("big", "--cpu", "8", "--memory", "64GiB", "--zone", "eu-1", "--label", "rack=b7", "--named", "licence=2"),
                   ("small", "--cpu", "1", "--memory", "1GiB"))
        self.write("w.yaml", stages(
            "{name: a, run: 'echo out; echo err >&2', resources: {hardware: {cpu: 4}}}",
            "{name: b, run: 'exit 0', resources: {hardware: {cpu: 1}, named: {licence: 1}}}"))
        status, _, errors = self.submit("w.yaml", "--wait")
        self.assertEqual(status, 0, errors + self.log("host"))
        self.assertEqual({t["name"]: t["worker"] for t in self.workflow()["tasks"]}, {"a": "big", "b": "big"})
        self.wait_for(lambda: sorted(self.rota("logs", self.state, "a").stdout.split()) == ["err", "out"])
        lines = [w for w in self.rota("workers", self.state).stdout.splitlines() if w.startswith("big")]
        self.assertIn("eu-1", lines[0])

    def test_a_killed_worker(self):
        """Contract: B-16, U-4. Its task runs again elsewhere; its programs die with it."""
        self.ttl_ms = SHORT_TTL_MS
        self.begin(("one", "--cpu", "1"), ("two", "--cpu", "1"))
        self.submit_waiting()
        holder = self.holder()
        self.kill(holder)
        self.running.pop(holder)
        self.wait_for(lambda: self.executions("0") >= 2)
        end = self.end_well()
        # Exactly 2, unless the machine was so slow that the other worker was given up as well.
        lost = self.log("host").count("worker unreachable")
        self.assertIn(next(t for t in end["tasks"] if t["name"] == "t0")["attempts"], range(2, max(lost, 1) + 2))

    def test_redis_restarted_empty(self):
        """Contract: U-1. Neither host nor workers notice more than a delay, and no attempt is spent."""
        self.begin(("one", "--cpu", "2"), ("two", "--cpu", "2"))
        self.submit_waiting(3)
        self.kill("redis")
        self.start_redis()
        self.end_well({"t0": 1, "t1": 1, "t2": 1})

    def test_redis_away_for_longer_than_the_ttl(self):
        """Contract: U-4, B-16. Tasks end while Redis is away, and are reported later: nothing runs twice."""
        self.ttl_ms = SHORT_TTL_MS
        self.begin(("one", "--cpu", "2"))
        self.submit_waiting(2)
        self.kill("redis")
        self.write("go", "")
        # Longer than the TTL, by the host's own account: it has noticed, and so much time has passed since.
        self.wait_for(lambda: "redis is unreachable" in self.log("host"))
        with self.assertRaises(subprocess.TimeoutExpired):
            self.running["host"].wait(2 * self.ttl_ms / 1000)
        self.start_redis()
        self.end_well({"t0": 1, "t1": 1})
        self.assertEqual([self.executions(str(i)) for i in range(2)], [1, 1])

    def test_redis_is_paused(self):
        """Contract: U-1, B-16. Redis answers nobody for much longer than the TTL, and no connection breaks at first: the host does
        not take the silence for the end of its workers, and nothing runs twice."""
        self.ttl_ms = SHORT_TTL_MS
        self.begin(("one", "--cpu", "2"))
        self.submit_waiting(2)
        self.kill("redis", signal.SIGSTOP)
        with self.assertRaises(subprocess.TimeoutExpired):
            self.running["host"].wait(3 * self.ttl_ms / 1000)
        self.kill("redis", signal.SIGCONT)
        self.end_well({"t0": 1, "t1": 1})
        self.assertEqual([self.executions(str(i)) for i in range(2)], [1, 1])

    def test_a_killed_host(self):
        """Contract: U-1. Running tasks continue, and are reported to the next host in its new term."""
        self.begin(("one", "--cpu", "2"))
        self.submit_waiting(2)
        self.kill("host")
        self.start_host()
        self.end_well({"t0": 1, "t1": 1})
        self.assertEqual([self.executions(str(i)) for i in range(2)], [1, 1])

    def test_a_host_that_has_lost_its_state(self):
        """Contract: U-1. A worker that the host does not know is told to register. It runs the new host's tasks, although it
        has run tasks with the same numbers before, for hosts that were started more often."""
        self.begin(("one", "--cpu", "2"))
        self.write("old.yaml", stages("{name: old, run: 'echo 1'}", "{name: next, run: 'echo 2'}"))
        for _ in range(2):
            self.assertEqual(self.submit("old.yaml", "--wait")[0], 0)
            self.assertEqual(self.stop("host"), 0)
            self.start_host()
            self.wait_for_host()
        self.assertEqual(self.stop("host"), 0)
        self.state = self.path("another")
        self.start_host()
        self.wait_for_workers(1)
        self.wait_for_host()
        self.submit_waiting(1)
        self.end_well({"t0": 1})

    def test_a_worker_leaves(self):
        """Contract: U-1. SIGTERM: it takes nothing more, what it runs may end, and it is gone from the fleet."""
        self.begin(("one", "--cpu", "1"), ("two", "--cpu", "1"))
        self.submit_waiting()
        holder = self.holder()
        self.running[holder].send_signal(signal.SIGTERM)
        self.wait_for(lambda: self.workers()[holder]["state"] == "draining")
        self.write("go", "")
        self.assertEqual(self.running.pop(holder).wait(LIMIT_S), 0, self.log(holder))
        self.wait_until_gone(holder)
        self.end_well({"t0": 1})

    def test_a_worker_is_drained(self):
        """Contract: U-1, C-2. `rota workers drain`: it finishes what it runs, gives the rest back, and its process ends. So does a
        worker without tasks; none of them registers again."""
        self.begin(("one", "--cpu", "1"), ("two", "--cpu", "1"))
        self.submit_waiting()
        holder = self.holder()
        idle = "two" if holder == "one" else "one"
        for name in (holder, idle):
            done = self.rota("workers", "drain", name, "--state", self.state)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.running.pop(idle).wait(LIMIT_S), 0, self.log(idle))
        self.wait_until_gone(idle)
        self.wait_for(lambda: self.workers()[holder]["state"] == "draining")
        self.write("go", "")
        self.assertEqual(self.running.pop(holder).wait(LIMIT_S), 0, self.log(holder))
        self.wait_until_gone(holder)
        self.start_worker("three", "--cpu", "1")
        self.end_well({"t0": 1})

    def test_a_worker_is_told_to_leave_twice(self):
        """Contract: U-1. The second SIGTERM stops its tasks; the host gives them to another worker at once."""
        self.begin(("one", "--cpu", "1"), ("two", "--cpu", "1"))
        self.submit_waiting()
        holder = self.holder()
        process = self.running.pop(holder)
        process.send_signal(signal.SIGTERM)
        self.wait_for(lambda: "leaving" in self.log(holder))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(LIMIT_S), 0, self.log(holder))
        self.wait_for(lambda: self.executions("0") == 2)
        end = self.end_well()
        self.assertEqual(next(t for t in end["tasks"] if t["name"] == "t0")["state"], "succeeded")

    def test_two_workers_of_one_name(self):
        """Contract: U-1. The newer process wins; the older one ends and says why."""
        self.begin(("one", "--cpu", "1"))
        older = self.running.pop("one")
        self.start_worker("one", "--cpu", "1")
        self.assertNotEqual(older.wait(LIMIT_S), 0)
        self.assertIn("one", self.log("one"))
        self.submit_waiting()
        self.end_well({"t0": 1})

    def test_local_and_remote_workers_together(self):
        self.start_redis()
        self.start_host(local=1)
        self.start_worker("far", "--cpu", "64")
        self.wait_for_workers(2)
        self.write("w.yaml", stages("{name: here, resources: {worker: local}, run: 'echo 1'}",
                                    "{name: there, needs: [here], resources: {worker: far}, run: 'echo ${here.result}'}"))
        status, _, errors = self.submit("w.yaml", "--wait")
        self.assertEqual(status, 0, errors + self.log("host"))

    def test_a_worker_of_your_own(self):
        """Contract: U-5. A program with the public headers joins the fleet by URL and runs its handler."""
        program = os.path.join(os.path.dirname(ROTA), "..", "..", "examples", "squares")
        self.assertTrue(os.path.exists(program), "build the target `squares`")
        self.start_redis()
        self.start_host()
        self.spawn("squares", [program, self.url])
        self.wait_for_workers(1)
        self.write("w.yaml", stages("{name: s, handler: square, matrix: {n: [3, 4, 12]}, inputs: {n: '${matrix.n}'}}"))
        status, _, errors = self.submit("w.yaml", "--wait")
        self.assertEqual(status, 0, errors + self.log("host") + self.log("squares"))
        records = [json.loads(line) for line in self.rota("replay", self.state, "--records").stdout.splitlines()]
        results = {event["task"]: record["command"]["outcome"]["result"] for record in records
                   for event in record["events"] if event["event"] == "TaskSucceeded"}
        self.assertEqual(results, {"wf-1.0": "9", "wf-1.1": "16", "wf-1.2": "144"})
        self.assertEqual(self.stop("squares"), 0, self.log("squares"))
        self.wait_until_gone("squares")

    def test_the_demo(self):
        """examples/fleet/demo ends with 0: every result is right, and the log verifies."""
        done = subprocess.run([sys.executable, os.path.join(ROOT, "examples", "fleet", "demo")], capture_output=True,
                              text=True, check=False, timeout=4 * LIMIT_S, env={**self.environment, "TRAIN_STEP_MS": "150"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("everything is as it should be", done.stdout)
        self.assertIn("Verified", done.stdout)
        self.assert_nothing_runs()


if __name__ == "__main__":
    unittest.main()
