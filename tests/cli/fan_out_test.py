"""Fan-out over data, and how a run ends: what a user sees of `rota run` (dev build)."""

import json
import os
import re
import signal
import unittest

from support import LIMIT_S, RunCase, graph


def spec(*lines):
    return "apiVersion: rota/v1\nspec:\n" + "".join(f"  {line}\n" for line in lines)


class FanOut(RunCase):
    LIST = "list: {run: 'echo list >> ran; cat items'}"
    WORK = ("work: {needs: list, matrix: {item: '${list.result.items}'}, max_attempts: 1, "
            "run: 'echo w-${matrix.item.n} >> ran; [ ! -e no-${matrix.item.n} ] || exit 1; echo ${matrix.item.n}'}")
    GATHER = "gather: {needs: work, run: 'echo ${work.result} >> ran'}"

    def items(self, *numbers):
        self.write("items", json.dumps({"items": [{"n": n} for n in numbers]}) + "\n")

    def ran(self):
        return sorted(self.read("ran").split("\n"))[1:]

    # Contract: Y-2. A task for each item of a result, in the order of the list; every command knows these tasks.
    def test_everywhere(self):
        self.write("w.yaml", graph(self.LIST, self.WORK, self.GATHER))
        self.items(3, 1, 2)
        self.assertIn("work x item in ${list.result.items} <- list", self.rota("graph", "w.yaml").stdout)
        matrix = json.loads(self.rota("graph", "w.yaml", "--json").stdout)["stages"][1]["matrix"]
        self.assertEqual(matrix, {"item": "${list.result.items}"})
        self.assertIn("its tasks are known when the results are", self.rota("run", "w.yaml", "--dry-run").stdout)
        done = self.rota("run", "w.yaml", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.ran(), ["[3,1,2]", "list", "w-1", "w-2", "w-3"])
        names = [task["name"] for task in self.summary(done)["tasks"]]
        self.assertEqual(names, ["list", "work[0]", "work[1]", "work[2]", "gather"])
        self.assertIn("succeeded", self.rota("explain", "w.yaml", "work[2]").stdout)
        self.assertIn("work[1]", self.rota("status", "w.yaml").stdout)
        self.assertIn('"verified":true', self.rota("replay", "w.yaml", "--json").stdout.replace(" ", ""))
        self.assertEqual(self.rota("trace", "w.yaml").returncode, 0)
        self.write("fleet.yaml", "apiVersion: rota/v1\nkind: Fleet\nworkers:\n  - {name: one, cpu: 2, memory: 1GiB}\n")
        simulated = self.rota("simulate", "w.yaml", "--fleet", "fleet.yaml", "--items", "4", "--runs", "1")
        self.assertIn("6 tasks", simulated.stdout + simulated.stderr)

    # Contract: Y-2. No items: the stage is skipped and what gathers it gets []. Not a list: the stage fails and says so.
    def test_no_items_and_no_list(self):
        self.write("w.yaml", graph(self.LIST, self.WORK, self.GATHER))
        self.items()
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.ran(), ["[]", "list"])
        self.write("items", '{"items": 7}\n')
        done = self.rota("run", "w.yaml", "--fresh")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the matrix: ${list.result.items} is a number, not a list: 7", done.stdout)

    # Contract: Y-2, C-1. A failure and a second run; an edit: items of unchanged stages keep their results.
    def test_failure_and_edit(self):
        self.write("w.yaml", graph(self.LIST, self.WORK, self.GATHER))
        self.items(1, 2, 3)
        self.write("no-2", "")
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
        os.remove(self.path("no-2"))
        plan = self.rota("run", "w.yaml", "--dry-run").stdout
        self.assertIn("1 task of 3 run", plan)
        self.write("ran", "")
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("resuming wf-1: 3 of 5 tasks already done", done.stdout)
        self.assertEqual(self.ran(), ["[1,2,3]", "w-2"])
        # A run that fails in the end, and an edit of its last stage.
        self.write("w.yaml", graph(self.LIST, self.WORK, "gather: {needs: work, run: exit 1, max_attempts: 1}"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
        self.write("ran", "")
        self.write("w.yaml", graph(self.LIST, self.WORK, self.GATHER))
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("work (3 items)", done.stdout)
        self.assertEqual(self.ran(), ["[1,2,3]"])
        self.assertEqual(self.rota("replay", "w.yaml").returncode, 0)

    # Contract: Y-2, U-3. kill -9 while items run: the next run does what was not done, and nothing twice that was.
    def test_killed(self):
        self.write("w.yaml", graph(self.LIST, self.WORK.replace("echo ${matrix.item.n}'", "until [ -e go-${matrix.item.n} ]; "
                                   "do sleep 0.02; done; echo e-${matrix.item.n} >> ended; echo ${matrix.item.n}'"),
                                   self.GATHER))
        self.items(1, 2, 3)
        process = self.start("run", "w.yaml", "--jobs", "3")
        self.wait_for(lambda: self.read("ran").count("w-") == 3)
        self.write("go-2", "")
        self.wait_for(lambda: "work[1]" in self.done_tasks())
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT_S)
        self.assert_nothing_runs()
        self.write("go-1", "")
        self.write("go-3", "")
        done = self.rota("run", "w.yaml", "--jobs", "3")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(sorted(self.read("ended").split()), ["e-1", "e-2", "e-3"])
        self.assertEqual(self.read("ran").split("\n")[-2], "[1,2,3]")
        self.assertEqual(self.rota("replay", "w.yaml").returncode, 0)

    def done_tasks(self):
        status = self.rota("status", "w.yaml", "--json")
        if status.returncode != 0:
            return []
        run, = json.loads(status.stdout)["runs"]
        return [task["name"] for flow in run["workflows"] for task in flow["tasks"] if task["state"] == "succeeded"]


class End(RunCase):
    # Contract: Y-4. A first Ctrl-C while finally runs lets it run to its end, as the message says.
    def test_interrupt_during_finally(self):
        self.write("w.yaml", spec("stages:", "  - {name: a, run: 'true'}", "finally:",
                                  "  - {name: clean, run: 'touch begun; until [ -e go ]; do sleep 0.02; done; echo end >> end'}"))
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: os.path.exists(self.path("begun")))
        process.send_signal(signal.SIGINT)
        for line in process.stdout:
            if "finally runs to its end" in line:
                break
        self.write("go", "")
        self.assertEqual(process.wait(LIMIT_S), 0)
        self.assertEqual(self.read("end"), "end\n")

    # Contract: Y-4, C-1. Ctrl-C, then kill -9 while finally runs: the next run finishes finally, and then resumes.
    def test_killed_during_finally(self):
        self.write("w.yaml", spec("stages:", "  - {name: a, run: 'touch begun; until [ -e go ]; do sleep 0.02; done'}",
                                  "finally:", "  - {name: clean, run: 'echo begin ${workflow.state} >> end; "
                                  "until [ -e go ]; do sleep 0.02; done; echo end ${workflow.state} >> end'}"))
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: os.path.exists(self.path("begun")))
        process.send_signal(signal.SIGINT)
        self.wait_for(lambda: self.read("end") == "begin cancelled\n")
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT_S)
        self.assert_nothing_runs()
        self.write("go", "")
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("finishing finally of wf-1", done.stdout)
        self.assertIn("resuming wf-1", done.stdout)
        self.assertEqual(self.read("end").splitlines()[1:], ["begin cancelled", "end cancelled", "begin succeeded", "end succeeded"])
        self.assertEqual(self.rota("replay", "w.yaml").returncode, 0)

    # Contract: Y-4, Y-5. ${stage.error} says why a stage was cancelled.
    def test_why_cancelled(self):
        last = ["finally:", "  - {name: tell, run: 'echo ${b.error} > told'}"]
        self.write("w.yaml", spec("fail_fast: true", "graph:", "  a: {run: 'until [ -e b ]; do sleep 0.02; done; exit 1', "
                                  "max_attempts: 1}", "  b: {run: 'touch b; sleep 60'}", *last))
        self.assertEqual(self.rota("run", "w.yaml", "--jobs", "2").returncode, 1)
        self.assertIn("because another task had failed (fail_fast)", self.read("told"))
        self.write("w.yaml", spec("deadline: 100ms", "graph:", "  b: {run: 'sleep 60'}", *last))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 6)
        self.assertIn("because the deadline of the workflow had passed", self.read("told"))

    # Contract: Y-6, C-1. A stage after one with `when` keeps its result after an unrelated edit, and --dry-run agrees.
    def test_after_when(self):
        before = ["a: {run: echo a >> ran}", "w: {needs: a, when: always, run: echo w >> ran}",
                  "x: {needs: w, run: echo x >> ran}"]
        self.write("w.yaml", graph(*before, "z: {run: exit 1, max_attempts: 1}"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
        plan = json.loads(self.rota("run", "w.yaml", "--dry-run", "--json").stdout)["plan"]
        self.assertEqual({each["stage"]: each["kept"] for each in plan}, {"a": 1, "w": 1, "x": 1, "z": 0})
        self.write("w.yaml", graph(*before, "z: {run: 'true'}"))
        plan = json.loads(self.rota("run", "w.yaml", "--dry-run", "--json").stdout)["plan"]
        self.assertEqual({each["stage"]: each["kept"] for each in plan}, {"a": 1, "w": 1, "x": 1, "z": 0})
        self.assertEqual(self.rota("run", "w.yaml").returncode, 0)
        self.assertEqual(sorted(self.read("ran").split()), ["a", "w", "x"])
        # What a stage with `when` needs is not done: it runs again, and what needs it.
        self.write("w.yaml", graph("a: {run: 'echo a >> ran; exit 1', max_attempts: 1}", *before[1:]))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
        self.write("ran", "")
        self.write("w.yaml", graph(*before))
        plan = json.loads(self.rota("run", "w.yaml", "--dry-run", "--json").stdout)["plan"]
        self.assertEqual({each["stage"]: each["kept"] for each in plan}, {"a": 0, "w": 0, "x": 0})
        self.assertEqual(self.rota("run", "w.yaml").returncode, 0)
        self.assertEqual(sorted(self.read("ran").split()), ["a", "w", "x"])

    # Contract: Y-3, Y-6. --only of one task needs the earlier results of its own counterparts, and nothing of the others.
    def test_only_with_each(self):
        self.write("w.yaml", graph("map: {matrix: {s: [x, y]}, max_attempts: 1, run: '[ ${matrix.s} = x ]; echo \"{\\\"v\\\":7}\"'}",
                                   "n: {needs: [{stage: map, each: [s]}], matrix: {s: [x, y]}, run: 'echo n-${matrix.s} ${map.result.v} >> ran'}")
                   .replace("'[ ${matrix.s} = x ]; ", "'[ ${matrix.s} = x ] || exit 1; "))
        self.assertEqual(self.rota("run", "w.yaml", "--until", "map").returncode, 1)
        done = self.rota("run", "w.yaml", "--only", "n[0]")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.read("ran"), "n-x 7\n")
        done = self.rota("run", "w.yaml", "--only", "n[1]")
        self.assertIn("no earlier run has a result of map[1]", done.stderr)

    # Contract: Y-3. The graph shows which needs are by item.
    def test_graph_of_each(self):
        self.write("w.yaml", graph("map: {matrix: {s: [x, y]}, run: 'true'}",
                                   "n: {needs: [{stage: map, each: [s]}], matrix: {s: [x, y]}, run: 'true'}"))
        self.assertIn("n x2 <- map (each s)", self.rota("graph", "w.yaml").stdout)
        self.assertIn("s0 -->|each s| s1", self.rota("graph", "w.yaml", "--format", "mermaid").stdout)
        self.assertEqual(json.loads(self.rota("graph", "w.yaml", "--json").stdout)["stages"][1]["each"], {"map": ["s"]})

    # Contract: C-1, B-20. A running task is explained as of now, not as of the last record.
    def test_explain_says_how_long(self):
        self.write("w.yaml", graph("a: {run: 'touch begun; until [ -e go ]; do sleep 0.02; done'}"))
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: os.path.exists(self.path("begun")))
        self.wait_for(lambda: re.search(r"sent there ([1-9]\d*|\d+\.\d*[1-9])(ms|s)", self.rota("explain", "w.yaml", "a").stdout))
        first = self.rota("explain", "w.yaml", "a").stdout
        self.wait_for(lambda: self.rota("explain", "w.yaml", "a").stdout.split(" ago")[0] != first.split(" ago")[0])
        self.write("go", "")
        self.assertEqual(process.wait(LIMIT_S), 0)

    # Contract: L-1. A pipe is not a ledger; nobody waits for it.
    def test_verify_a_pipe(self):
        os.mkfifo(self.path("pipe"))
        done = self.rota("ledger", "verify", "pipe")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("'pipe' is neither a file nor a folder", done.stderr)


if __name__ == "__main__":
    unittest.main()
