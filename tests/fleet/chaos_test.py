"""A fleet of real processes under faults (U-1, U-4, B-16, L-2).

Goal: whatever dies, every task takes effect exactly once according to its record, nothing is left running, and the log
replays. Method: a host, four workers and Redis run workflow after workflow while faults come at random moments: KILL and
STOP of each of them, Redis restarted empty, a full disk under the host. The result of every execution is unique, and each
task's dependants show which result they got: it must be the one in the log.

ROTA_CHAOS_SECONDS is the length (default 30; a long run is 300), ROTA_CHAOS_SEED the seed of the faults (default 1: the test
run draws the same faults every time; a hunt for bugs tries others).
"""

import collections
import json
import os
import random
import resource
import signal
import subprocess
import time
import unittest

from fleet_support import FleetCase, LIMIT_S

SECONDS = float(os.environ.get("ROTA_CHAOS_SECONDS") or 30)
SEED = int(os.environ.get("ROTA_CHAOS_SEED") or 1)
TTL_MS = 2000  # Short on purpose: workers that were only slow are given up as well, and that must do no harm.
PAUSE_S = 1.3  # Between two faults: 200 in five minutes.
SUBMIT_S = 2.5  # Between two workflows: faults hit a fleet at work.
SUBMIT_LIMIT_S = 5  # Then the answer counts as lost, and the same submission is repeated.
WORKERS = ("w1", "w2", "w3", "w4")
ITEMS = 12

# Each execution has a result of its own. The last task has all of them as its inputs.
WORKFLOW = f"""apiVersion: rota/v1
spec:
  resources: {{hardware: {{cpu: 500m}}}}
  stages:
    - name: first
      matrix: {{i: [{", ".join(str(i) for i in range(ITEMS))}]}}
      max_attempts: 50
      run: |
        read -r nonce < /proc/sys/kernel/random/uuid
        sleep 0.${{matrix.i}}
        echo "\\"$nonce\\""
    - name: second
      matrix: {{i: [{", ".join(str(i) for i in range(ITEMS))}]}}
      max_attempts: 50
      env: {{ALL: "${{first.result}}"}}
      run: |
        read -r nonce < /proc/sys/kernel/random/uuid
        echo "{{\\"saw\\": $ALL, \\"nonce\\": \\"$nonce\\"}}" > "$ROTA_RESULT"
    - name: last
      max_attempts: 50
      env: {{ALL: "${{second.result}}", FIRST: "${{first.result}}"}}
      run: |
        echo "{{\\"second\\": $ALL, \\"first\\": $FIRST}}" > "$ROTA_RESULT"
"""


class Chaos(FleetCase):
    ttl_ms = TTL_MS

    def setUp(self):
        super().setUp()
        self.dice = random.Random(SEED)
        self.faults = collections.Counter()
        self.submitted = 0
        self.stopped = {}  # Process name: when it continues.
        self.write("w.yaml", WORKFLOW)

    def start_one(self, name):
        if name == "redis":
            self.start_redis()
        elif name == "host":
            self.start_host("--drain", "1s")
        else:
            self.start_worker(name, "--cpu", "1", "--dir", self.path("dir-" + name))

    def restart_ended(self):
        """As a service manager does: what has ended is started again."""
        for name, process in list(self.running.items()):
            if process.poll() is not None:
                self.start_one(name)

    def continue_stopped(self, everybody=False):
        for name, until in list(self.stopped.items()):
            if everybody or time.monotonic() >= until:
                del self.stopped[name]
                self.running[name].send_signal(signal.SIGCONT)

    def fault(self):
        name = self.dice.choice(["host", "redis", *WORKERS, *WORKERS])
        kind = self.dice.choice(["kill", "kill", "stop", "fill"])
        if kind == "fill":
            name = "host"
        if name in self.stopped or self.running[name].poll() is not None:
            return
        if kind == "fill":
            self.fill_disk()
        elif kind == "kill":
            self.kill(name)
            self.start_one(name)
        else:
            # Half of the pauses are longer than the TTL.
            self.running[name].send_signal(signal.SIGSTOP)
            self.stopped[name] = time.monotonic() + self.dice.uniform(0.1, 2 * TTL_MS / 1000)
        self.faults[f"{kind} {name}"] += 1

    def fill_disk(self):
        """The host cannot write any more: no file may be written beyond its first page. It must end with an error at its
        next decision, for which a submission provides, and accept nothing. Then it starts again without the limit."""
        host = self.running["host"]
        resource.prlimit(host.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        until = time.monotonic() + LIMIT_S
        while host.poll() is None:
            self.assertLess(time.monotonic(), until, f"seed {SEED}: the host continues without its disk")
            before = self.submitted
            self.try_submit()
            # One may have been accepted by the host before the limit, with its answer lost then; none is decided now.
            self.assertEqual(self.repeated or self.submitted == before, True, f"seed {SEED}: accepted without a disk")
        self.assertGreater(host.returncode, 0, f"seed {SEED}")  # With an error; its log, too, is a file that is full.
        self.start_one("host")

    def try_submit(self):
        """With a key, so that a submission whose answer was lost is not made twice."""
        self.repeated = False
        try:
            done = self.rota("submit", "w.yaml", "--state", self.state, "--key", f"run-{self.submitted}", "--json",
                             timeout=SUBMIT_LIMIT_S)
        except subprocess.TimeoutExpired:
            return
        if done.returncode == 0:
            self.submitted += 1
            self.repeated = json.loads(done.stdout).get("repeated", False)

    def ended(self):
        done = self.rota("status", self.state, "--json", "--all")
        if done.returncode != 0:
            return None
        runs = json.loads(done.stdout)["runs"]
        return runs[0]["workflows"] if runs else []

    def test_chaos(self):
        print(f"seed {SEED}", flush=True)
        for name in ("redis", "host", *WORKERS):
            self.start_one(name)
        self.wait_for_workers(4)
        deadline = time.monotonic() + SECONDS
        next_submit = 0
        next_fault = time.monotonic() + PAUSE_S
        while time.monotonic() < deadline:
            self.restart_ended()
            self.continue_stopped()
            if time.monotonic() >= next_fault:
                self.fault()
                next_fault = time.monotonic() + self.dice.uniform(0.5, 1.5) * PAUSE_S
            elif "host" not in self.stopped and time.monotonic() >= next_submit:
                self.try_submit()
                next_submit = time.monotonic() + SUBMIT_S
            time.sleep(0.1)
        # The faults are over: everything that was accepted ends.
        self.continue_stopped(everybody=True)
        until = time.monotonic() + 2 * LIMIT_S
        while True:
            self.restart_ended()
            if self.submitted == 0:  # The machine was too slow for an answer in time.
                self.try_submit()
            workflows = self.ended()
            if (workflows and all(w["outcome"] not in ("running", "interrupted") for w in workflows)
                    and len(workflows) >= self.submitted > 0):
                break
            self.assertLess(time.monotonic(), until, f"seed {SEED}: not all workflows ended: "
                            f"{[(w['workflow'], w['outcome'], w['counts']) for w in workflows or []]}\n"
                            f"{self.log('host')[-3000:]}")
            time.sleep(0.2)
        self.check(workflows)

    def check(self, workflows):
        words = f"seed {SEED}, {sum(self.faults.values())} faults {dict(self.faults)}, {self.submitted} workflows"
        for name in (*WORKERS, "host"):
            self.assertEqual(self.stop(name), 0, f"{name}, {words}: {self.log(name)[-2000:]}")
        self.kill("redis")
        self.running.clear()
        self.assert_nothing_runs()
        self.assert_replays()
        self.assertGreater(self.submitted, 0, words)
        self.assertEqual({w["outcome"] for w in workflows}, {"succeeded"}, words)
        results = self.results()
        self.assertEqual(len(results), len(workflows) * (2 * ITEMS + 1), words)
        for workflow in workflows:
            # What each dependant saw is what the log has of the tasks before it: one effect per task.
            first = [results[f"{workflow['workflow']}.{i}"] for i in range(ITEMS)]
            second = [results[f"{workflow['workflow']}.{ITEMS + i}"] for i in range(ITEMS)]
            for each in second:
                self.assertEqual(each["saw"], first, words)
            self.assertEqual(results[f"{workflow['workflow']}.{2 * ITEMS}"], {"second": second, "first": first}, words)
        print(words, flush=True)

    def results(self):
        """Task id: result, one per success in the log; a second success of a task is a failure."""
        done = self.rota("replay", self.state, "--records", timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = {}
        for line in done.stdout.splitlines():
            record = json.loads(line)
            for event in record["events"]:
                if event["event"] == "TaskSucceeded":
                    self.assertNotIn(event["task"], found, "it succeeded twice")
                    found[event["task"]] = json.loads(record["command"]["outcome"]["result"] or "null")
        return found


if __name__ == "__main__":
    unittest.main()
