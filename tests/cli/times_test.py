"""Times of tasks: the summary of `rota run`, `rota status` and `rota trace` show those that the worker measured (dev build)."""

import json
import signal
import time
import unittest

from support import LIMIT_S, RunCase, graph, stages

MANY = "[" + ", ".join(str(i) for i in range(300)) + "]"


class Times(RunCase):
    def run_it(self, *arguments, status=0):
        """The summary of a run of w.yaml."""
        done = self.rota("run", "w.yaml", "--json", *arguments)
        self.assertEqual(done.returncode, status, done.stdout[-3000:] + done.stderr)
        return self.summary(done)

    def status(self):
        done = self.rota("status", "w.yaml", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["runs"][0]["workflows"][0]

    def slices(self):
        """The slices of the latest run: (name, attempt) to (start, end), as wall times in ns."""
        done = self.rota("trace", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stderr)
        trace = json.loads(done.stdout)
        origin = trace["otherData"]["from_wall_ns"]
        found = {}
        for each in trace["traceEvents"]:
            if each["ph"] == "X":
                start = origin + round(each["ts"] * 1000)
                found[each["name"], each["args"]["attempt"]] = (start, start + round(each["dur"] * 1000))
        return found

    def check(self, summary):
        """All views agree; no task that ran is without a time or a slice; the critical path is not longer than the run."""
        status, slices = self.status(), self.slices()
        self.assertEqual(status["tasks"], summary["tasks"])
        self.assertLessEqual(summary["critical_path"]["run_ns"], summary["elapsed_ns"])
        for task in summary["tasks"]:
            if task["attempts"] == 0:
                self.assertEqual([key for key in ("run_ns", "wait_ns", "started_ns", "ended_ns", "worker") if key in task], [], task)
                self.assertFalse([key for key in slices if key[0] == task["name"]], task)
            elif "started_ns" in task:
                self.assertGreater(task["run_ns"], 0, task)
                self.assertGreaterEqual(task["started_ns"], status["submitted_ns"])
                start, end = slices[task["name"], task["attempts"]]
                self.assertEqual(start, task["started_ns"], task)
                self.assertEqual(end, max(task["ended_ns"], start + 1000), task)
        return status, slices

    # C-1, C-2: the table, `status` and `trace` have the same times; a retried task has a slice for each attempt.
    def test_all_views_agree(self):
        self.write("w.yaml", graph("a: {run: sleep 0.05}", "b: {needs: a, matrix: {i: [1, 2, 3]}, run: sleep 0.02}",
                                   "c: {needs: b, run: 'test $ROTA_ATTEMPT = 2', max_attempts: 2}",
                                   "d: {needs: c, condition: '1 == 2', run: 'true'}"))
        summary = self.run_it()
        status, slices = self.check(summary)
        self.assertEqual(status["elapsed_ns"], summary["elapsed_ns"])
        tasks = {task["name"]: task for task in summary["tasks"]}
        self.assertEqual(sorted(slices), [("a", 1), ("b[0]", 1), ("b[1]", 1), ("b[2]", 1), ("c", 1), ("c", 2)])
        self.assertGreaterEqual(tasks["a"]["run_ns"], 50_000_000)
        self.assertLess(slices["c", 1][1], slices["c", 2][0])
        self.assertEqual(summary["critical_path"]["tasks"][0], "a")
        self.assertEqual(summary["critical_path"]["tasks"][-1], "c")
        self.assertEqual((tasks["d"]["state"], tasks["d"]["attempts"]), ("skipped", 0))

    # C-1: the times are those that the worker measured, to the nanosecond, however short the task was.
    def test_short_tasks_keep_their_times(self):
        self.write("w.yaml", stages("{name: a, run: sleep 0.002}", "{name: b, run: echo 1}", "{name: c, run: echo 1}"))
        done = self.rota("run", "w.yaml", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        reported = {each["name"]: each["ended_ns"] - each["started_ns"]
                    for each in map(json.loads, done.stdout.splitlines()) if each.get("report") == "succeeded"}
        shown = {task["name"]: task["run_ns"] for task in self.summary(done)["tasks"]}
        self.assertEqual(shown, reported)

    # C-2: no task is missing from a trace, however short it was.
    def test_many_short_tasks(self):
        self.write("w.yaml", stages("{name: t, matrix: {i: " + MANY + "}, run: ['true']}", "{name: z, run: ['true']}"))
        _, slices = self.check(self.run_it())
        self.assertEqual(len(slices), 301)

    # A task whose earlier result is used has a time and a slice as well.
    def test_cached_tasks(self):
        self.write("w.yaml", stages("{name: a, matrix: {i: [1, 2]}, run: 'true', cache: true}", "{name: b, run: 'true'}"))
        self.run_it()
        summary = self.run_it()
        self.assertEqual([task.get("cached") for task in summary["tasks"]], [True, True, None])
        _, slices = self.check(summary)
        self.assertEqual(len(slices), 3)

    # C-1: after Ctrl-C, tasks that were sent to the worker and never started have no attempt, no run time and no slice.
    def test_tasks_that_never_ran(self):
        self.write("w.yaml", graph("a: {matrix: {i: " + MANY + "}, run: 'touch began; exec sleep 100'}",
                                   "z: {needs: a, run: 'true'}"))
        process = self.start("run", "w.yaml", "--json", "--jobs", "1")
        for line in process.stdout:
            if '"report":"started"' in line:
                break
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 7, rest[-2000:])
        summary = json.loads(rest.splitlines()[-1])
        self.check(summary)
        ran = [task["name"] for task in summary["tasks"] if task["attempts"] > 0]
        self.assertEqual(len(ran), 1, ran)
        self.assertEqual({task["state"] for task in summary["tasks"]}, {"cancelled"})
        # With many tasks there is one row per stage.
        self.assertRegex(self.rota("status", "w.yaml").stdout, r"a +300 +0 +0 +300 ")

    # C-1: of a run that was resumed, elapsed time and critical path are about the time since then.
    def test_a_resumed_run(self):
        self.write("w.yaml", stages("{name: a, run: sleep 0.5}", "{name: b, run: test -e there, max_attempts: 1}"))
        first = self.run_it(status=1)
        self.check(first)
        self.assertGreaterEqual(first["critical_path"]["run_ns"], 500_000_000)
        self.write("there", "")
        begun_ns = time.monotonic_ns()
        second = self.run_it()
        took_ns = time.monotonic_ns() - begun_ns
        self.check(second)
        self.assertEqual(second["critical_path"]["tasks"], ["b"])
        self.assertLess(second["elapsed_ns"], took_ns)  # Since the submission it is half a second more.
        self.assertEqual(self.status()["outcome"], "succeeded")


if __name__ == "__main__":
    unittest.main()
