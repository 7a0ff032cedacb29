"""`rota run` killed with KILL at random moments, and run again each time until it is done (C-1, U-1, U-4, L-1).

Goal: a crash at any moment loses nothing and does nothing twice that was done. Method: a workflow of 500 tasks (matrices,
needs, results, retries) in which every execution gives a result that no other one gives. So it shows in what dependants
received whether a task took effect once: one record of success for each task, and everybody got that one's result.

ROTA_KILL_ROUNDS says how many kills (30), ROTA_KILL_SEED which ones. When a workflow ends before that, the next begins.
"""

import json
import os
import random
import shutil
import time
import unittest

from support import LIMIT_S, RunCase, stages

ROUNDS = int(os.environ.get("ROTA_KILL_ROUNDS") or 30)
SEED = int(os.environ.get("ROTA_KILL_SEED") or time.time_ns())
EACH = 248  # Tasks of each matrix: 500 with the four others.
RETRIED = 31  # Every so many-th task of the second matrix fails the first time.
NUMBERS = ", ".join(str(i) for i in range(EACH))

# `nonce` is different in every execution, by a builtin of the shell alone: most of these tasks start no process.
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
            # --json, so that what was durable and said can be compared with what is there in the end.
            with open(self.path(f"events-{self.kills:04}"), "w", encoding="utf-8") as events:
                process = self.start("run", "w.yaml", "--json", stdout=events, stderr=events)
                # Most while tasks run, some in the middle of the start; a moment is all it should live on average.
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
        """Had the run that was killed just now said its last word? Then it was over for whoever listens."""
        lines = self.read(f"events-{self.kills - 1:04}").splitlines()
        if not lines or not lines[-1].startswith('{"event":"Summary"') or not lines[-1].endswith("}"):
            return False
        self.kills -= 1  # So that its file is the last one.
        return True

    def events(self):
        """Of all runs, by record: what was said was durable, so that no two runs may differ in what a record holds."""
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

            # The chain verifies, and every decision is made again.
            replayed = self.rota("replay", ".rota/w.yaml", "--json")
            self.assertEqual(replayed.returncode, 0, replayed.stdout + replayed.stderr)
            replayed = json.loads(replayed.stdout)
            self.assertTrue(replayed["verified"])
            figures = replayed["courses"][0]["figures"]
            self.assertEqual((figures["succeeded"], figures["failed"], figures["cancelled"]), (TASKS, 0, 0))

            # One record of success for each task; those that were said are those of the log's own numbers.
            successes = [event["task"] for events in self.events().values() for event in events
                         if event.get("event") == "TaskSucceeded"]
            self.assertEqual(len(successes), len(set(successes)), "a task succeeded twice")

            # Who received what: one result of each task, everywhere the same, and given by an execution of that task.
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

            # Again runs what ran when it was killed, and what had ended but was not yet durable: all that waits at the
            # worker may have come to that while the disk was slow. Nothing else does.
            retried = (EACH - 1) // RETRIED + 1
            at_once = 2 * os.cpu_count() + 16 * (os.cpu_count() + 1)
            executions = sum(map(len, ran.values()))
            self.assertLessEqual(executions, TASKS + retried + self.kills * at_once)
            self.assertGreaterEqual(executions, TASKS)
            self.assert_nothing_runs()

    # A success that nobody was told of is told, not done again: killed between the last record and the last word.
    def test_killed_before_the_last_word(self):
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
