"""`rota run` killed with KILL at random moments, and run again each time until it is done (C-1, U-1, U-4, L-1).

Goal: a crash at any moment loses nothing, and no completed task takes effect twice. Method: a workflow of 500 tasks
(matrices, needs, results, retries) in which the result of every execution is unique. The results that dependants received
show whether each task took effect once: there is one record of success per task, and all dependants got its result.

ROTA_KILL_ROUNDS is the number of kills (default 30), ROTA_KILL_SEED their seed (default 1: the test run draws the same moments
every time; a hunt for bugs tries others). When a workflow ends before all kills are done, the next one starts.
"""

import json
import os
import random
import shutil
import time
import unittest

from support import LIMIT_S, RunCase, stages

ROUNDS = int(os.environ.get("ROTA_KILL_ROUNDS") or 30)
SEED = int(os.environ.get("ROTA_KILL_SEED") or 1)
EACH = 248  # Tasks of each matrix: 500 with the four others.
RETRIED = 31  # Every so many-th task of the second matrix fails the first time.
NUMBERS = ", ".join(str(i) for i in range(EACH))

# `nonce` is different in every execution. Shell builtins read it, so that most of these tasks start no other process.
NONCE = "read -r nonce < /proc/sys/kernel/random/uuid; echo \"${task.name} $nonce\" >> ran"
WORKFLOW = f"""apiVersion: rota/v1
spec:
  resources: {{hardware: {{cpu: 500m}}}}
  stages:
    - name: seed
      run: |
        {NONCE}
        echo "{{\\"nonce\\": \\"$nonce\\"}}"
    - name: first
      matrix: {{i: [{NUMBERS}]}}
      run: |
        {NONCE}
        echo "{{\\"i\\": ${{matrix.i}}, \\"from\\": \\"${{seed.result.nonce}}\\", \\"nonce\\": \\"$nonce\\"}}"
    - name: middle
      env: {{ALL: "${{first.result}}"}}
      run: |
        {NONCE}
        printf '%s' "$ALL" > "middle-$nonce"
        echo "{{\\"nonce\\": \\"$nonce\\"}}"
    - name: second
      matrix: {{i: [{NUMBERS}]}}
      max_attempts: 2
      run: |
        {NONCE}
        if [ $((${{matrix.i}} % {RETRIED})) = 0 ] && [ ! -e "failed-${{matrix.i}}" ]; then
          : > "failed-${{matrix.i}}"
          exit 1
        fi
        echo "{{\\"i\\": ${{matrix.i}}, \\"from\\": \\"${{middle.result.nonce}}\\", \\"nonce\\": \\"$nonce\\"}}" > "$ROTA_RESULT"
    - name: third
      needs: [middle]
      run: |
        {NONCE}
        sleep 0.1
        echo "{{\\"from\\": \\"${{middle.result.nonce}}\\", \\"nonce\\": \\"$nonce\\"}}"
    - name: last
      needs: [first, second, third]
      env: {{FIRST: "${{first.result}}", SECOND: "${{second.result}}", THIRD: "${{third.result}}"}}
      run: |
        {NONCE}
        echo "{{\\"first\\": $FIRST, \\"second\\": $SECOND, \\"third\\": $THIRD, \\"nonce\\": \\"$nonce\\"}}" > "$ROTA_RESULT"
        cp "$ROTA_RESULT" "copy-$nonce" && mv "copy-$nonce" "last-$nonce"
"""
TASKS = 2 * EACH + 4


class Kill(RunCase):
    def new_workflow(self):
        for name in os.listdir(self.folder):
            path = self.path(name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)  # pylint: disable=expression-not-assigned
        self.write("w.yaml", WORKFLOW)
        self.kills = 0

    def test_killed_at_random_moments(self):
        dice = random.Random(SEED)
        self.new_workflow()
        done = 0
        while done < ROUNDS:
            # With --json, the events that were printed can be compared with the final ledger.
            with open(self.path(f"events-{self.kills:04}"), "w", encoding="utf-8") as events:
                process = self.start("run", "w.yaml", "--json", stdout=events, stderr=events)
                # Most kills come while tasks run, some while rota starts.
                moment = time.monotonic() + dice.choice((0.05, 0.3, 0.3, 0.6)) * dice.random()
                while time.monotonic() < moment and process.poll() is None:
                    time.sleep(0.001)
                if process.poll() is None:
                    process.kill()
                    self.kills += 1
                    done += 1
                    process.wait()
                    self.assert_nothing_runs()
                    if not self.was_told():
                        continue
            self.check(f"seed {SEED}, ended by itself after {self.kills} kills; {done} in all")
            self.new_workflow()
        with open(self.path(f"events-{self.kills:04}"), "w", encoding="utf-8") as events:
            self.assertEqual(self.start("run", "w.yaml", "--json", stdout=events, stderr=events).wait(LIMIT_S), 0,
                             self.read(f"events-{self.kills:04}")[-2000:])
        self.check(f"seed {SEED}, after {self.kills} kills of {done}")

    def was_told(self):
        """Whether the run that was just killed had printed its summary: then the user knows its end."""
        lines = self.read(f"events-{self.kills - 1:04}").splitlines()
        if not lines or not lines[-1].startswith('{"event":"Summary"') or not lines[-1].endswith("}"):
            return False
        self.kills -= 1  # So that its file is the last one.
        return True

    def events(self):
        """The events of all runs, by record. Printed events are durable, so a record is printed by one run only."""
        by_record = {}
        for name in sorted(name for name in os.listdir(self.folder) if name.startswith("events-")):
            in_this = {}
            for line in self.read(name).splitlines():
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # The last one of a killed run may be torn.
                if "record" in event:
                    in_this.setdefault(event["record"], []).append(event)
            for record, events in in_this.items():
                self.assertNotIn(record, by_record, f"{name} says record {record} again")
                by_record[record] = events
        return by_record

    def check(self, where):
        with self.subTest(where):
            last_events = self.read(f"events-{self.kills:04}")
            self.assertIn('"event":"Summary"', last_events.splitlines()[-1], last_events[-2000:])
            report = json.loads(last_events.splitlines()[-1])
            self.assertEqual(report["outcome"], "succeeded", last_events[-2000:])
            self.assertEqual([task["state"] for task in report["tasks"]], ["succeeded"] * TASKS)

            # The log verifies: every decision is made again with the same result.
            replayed = self.rota("replay", ".rota/w.yaml", "--json")
            self.assertEqual(replayed.returncode, 0, replayed.stdout + replayed.stderr)
            replayed = json.loads(replayed.stdout)
            self.assertTrue(replayed["verified"])
            figures = replayed["courses"][0]["figures"]
            self.assertEqual((figures["succeeded"], figures["failed"], figures["cancelled"]), (TASKS, 0, 0))

            # Each task succeeded once.
            successes = [event["task"] for events in self.events().values() for event in events
                         if event.get("event") == "TaskSucceeded"]
            self.assertEqual(len(successes), len(set(successes)), "a task succeeded twice")

            # All dependants of a task received the same result, and an execution of that task wrote it.
            ran = {}
            for line in self.read("ran").splitlines():
                name, nonce = line.rsplit(" ", 1)
                ran.setdefault(name, set()).add(nonce)
            final = json.loads(self.rota("explain", "last", "--log", ".rota/w.yaml", "--json").stdout)
            self.assertEqual(final["state"], "Succeeded")
            received = [json.loads(self.read(name)) for name in os.listdir(self.folder) if name.startswith("last-")]
            self.assertEqual(len({json.dumps({**each, "nonce": ""}) for each in received}), 1, "`last` got two answers")
            last = received[0]
            for stage in ("first", "second"):
                self.assertEqual([each["i"] for each in last[stage]], list(range(EACH)))
                for each in last[stage]:
                    self.assertIn(each["nonce"], ran[f"{stage}[{each['i']}]"])
            self.assertEqual(len({each["from"] for each in last["first"]}), 1)
            self.assertEqual({each["from"] for each in last["second"]} | {last["third"]["from"]},
                             {last["second"][0]["from"]})
            self.assertIn(last["first"][0]["from"], ran["seed"])
            self.assertIn(last["second"][0]["from"], ran["middle"])
            self.assertEqual(json.loads(self.read("middle-" + last["second"][0]["from"])), last["first"])

            # After a kill, tasks run again that were running, or whose end was not durable yet. While the disk is slow,
            # these may be all tasks that were queued at the worker. No other task runs again.
            retried = (EACH - 1) // RETRIED + 1
            at_once = 2 * os.cpu_count() + 16 * (os.cpu_count() + 1)
            executions = sum(map(len, ran.values()))
            self.assertLessEqual(executions, TASKS + retried + self.kills * at_once)
            self.assertGreaterEqual(executions, TASKS)
            self.assert_nothing_runs()

    # A run that was killed after its success was durable, but before the summary, is reported and not run again.
    def test_killed_before_the_summary(self):
        self.write("w.yaml", stages("{name: a, run: echo a >> ran}"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 0)
        os.unlink(self.path(".rota/w.yaml/told"))
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("wf-1 had succeeded, but its process was killed before it could say so; nothing is run again", done.stdout)
        self.assertRegex(done.stdout, r"a +succeeded +1 ")
        self.assertEqual(self.read("ran"), "a\n")
        self.assertEqual(self.rota("run", "w.yaml").returncode, 0)  # Now it is a new run.
        self.assertEqual(self.read("ran"), "a\na\n")


if __name__ == "__main__":
    unittest.main()
