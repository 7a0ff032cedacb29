"""`rota run` again after a kill, after lost files and with equal items: what runs, and whether --dry-run says the same
(dev build)."""

import json
import os
import unittest

from support import LIMIT_S, RunCase, graph, stages


class ResumeCase(RunCase):
    def plan(self, *arguments):
        """What --dry-run says: by stage, how many tasks run."""
        done = self.rota("run", "w.yaml", "--dry-run", "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return {each["stage"]: each["tasks"] - each["kept"] - each.get("cached", 0) for each in json.loads(done.stdout)["plan"]}

    def ran(self):
        """What ran since the last call."""
        words = self.read("ran").split() if os.path.exists(self.path("ran")) else []
        self.write("ran", "")
        return words

    def run_ok(self):
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def kill(self, process):
        process.kill()
        process.communicate(timeout=LIMIT_S)
        self.assert_nothing_runs()


class AfterKill(ResumeCase):
    # C-1, Y-6: a task that had failed when the process was killed is not done: it is retried, as --dry-run says.
    def test_a_failed_task_is_retried(self):
        self.write("w.yaml", graph("bad: {run: 'echo bad >> ran; test -e ok', max_attempts: 1}", "good: {run: echo good >> ran}",
                                   "after: {needs: bad, run: echo after >> ran}",
                                   "slow: {run: 'echo slow >> ran; until [ -e ok ]; do sleep 0.02; done'}"))
        process = self.start("run", "w.yaml", "--jobs", "4")
        for task, state in (("bad", "failed"), ("good", "succeeded"), ("slow", "runs on")):
            self.wait_for(lambda task=task, state=state: state in self.rota("explain", "w.yaml", task).stdout)
        self.kill(process)
        self.assertEqual(sorted(self.ran()), ["bad", "good", "slow"])
        self.write("ok", "")
        self.assertEqual(self.plan(), {"bad": 1, "good": 0, "after": 1, "slow": 1})
        self.assertIn("resuming wf-1: 1 of 4 tasks already done", self.run_ok())
        self.assertEqual(sorted(self.ran()), ["after", "bad", "slow"])
        self.assertEqual(self.rota("replay", "w.yaml").returncode, 0)

    # C-1, Y-4: the same if `finally` was running then: it runs again, after the task.
    def test_a_failed_task_is_retried_before_finally(self):
        self.write("w.yaml", stages("{name: bad, run: 'echo bad >> ran; test -e ok', max_attempts: 1}") +
                   "  finally:\n    - {name: f, run: 'echo f >> ran; until [ -e ok ]; do sleep 0.02; done; echo end >> ran'}\n")
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: os.path.exists(self.path("ran")) and "f" in self.read("ran").split())
        self.kill(process)
        self.assertEqual(self.ran(), ["bad", "f"])
        self.write("ok", "")
        self.assertEqual(self.plan(), {"bad": 1, "f": 1})
        self.run_ok()
        self.assertEqual(self.ran(), ["bad", "f", "end"])

    # C-1, Y-6: a success that nobody was told is told, and nothing is run; --dry-run says so.
    def test_an_untold_success(self):
        self.write("w.yaml", stages("{name: a, run: echo a >> ran}", "{name: b, run: echo b >> ran, matrix: {i: [1, 2]}}"))
        self.run_ok()
        self.assertEqual(self.plan(), {"a": 1, "b": 2})
        os.unlink(self.path(".rota/w.yaml/told"))
        self.assertEqual(self.plan(), {"a": 0, "b": 0})
        self.assertIn("nothing is run again. The next `rota run` starts from the beginning", self.run_ok())
        self.assertEqual(self.ran(), ["a", "b", "b"])
        self.run_ok()
        self.assertEqual(self.ran(), ["a", "b", "b"])

    # B-20: the worker has left when the run has ended; the log knows its name.
    def test_explain_names_the_worker(self):
        self.write("w.yaml", stages("{name: a, run: echo a}"))
        for _ in range(4):
            self.run_ok()
            done = self.rota("explain", "w.yaml", "a")
            self.assertIn("(a) succeeded on 'local' in attempt 1", done.stdout)
            self.assertIn("worker: local\n", done.stdout)


class StoredFiles(ResumeCase):
    LINES = ("{name: make, run: 'echo make >> ran; echo w > f', outputs: f}", "{name: other, needs: [], run: echo other >> ran}",
             "{name: gate, needs: make, run: 'echo gate >> ran; test -e ok', max_attempts: 1}",
             "{name: use, needs: gate, dir: work, fetch: make, run: 'echo use >> ../ran; cat f', max_attempts: 1}")

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("work"))
        self.write("w.yaml", stages(*self.LINES))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
        self.assertEqual(sorted(self.ran()), ["gate", "make", "other"])
        self.write("ok", "")

    def content(self):
        found = [os.path.join(folder, name) for folder, _, names in os.walk(self.path(".rota/w.yaml/files/sha256")) for name in names]
        self.assertEqual(len(found), 1, found)
        return found[0]

    # U-6, C-1, Y-6: a task whose stored file is damaged or gone is not done: it runs again, with what needs it.
    def test_damaged_or_gone(self):
        def damage(path):
            os.chmod(path, 0o600)
            with open(path, "w", encoding="ascii") as file:
                file.write("z\n")
        for spoil in (damage, lambda path: os.truncate(path, 0), os.unlink):
            with self.subTest(spoil):
                path = self.content()
                os.chmod(path, 0o600)
                spoil(path)
                self.assertEqual(self.plan(), {"make": 1, "other": 0, "gate": 1, "use": 1})
                said = self.run_ok()
                self.assertRegex(said, r"continuing wf-\d+ in a new run: keeping 1 result of 4 tasks: other; running again: "
                                       r"make \(files that it stored are gone\); --fresh")
                self.assertEqual(self.ran()[-3:], ["make", "gate", "use"])
                self.assertEqual(self.read("work/f"), "w\n")
            os.unlink(self.path("work/f"))
            os.unlink(self.path("ok"))
            self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
            self.write("ok", "")
            self.ran()

    # U-6: after an edit as well; and --only says which result is missing.
    def test_after_an_edit(self):
        os.unlink(self.content())
        done = self.rota("run", "w.yaml", "--only", "use")
        self.assertIn("no earlier run has a result of make", done.stderr)
        self.write("w.yaml", stages(*self.LINES, "{name: more, run: echo more >> ran}"))
        self.assertEqual(self.plan(), {"make": 1, "other": 0, "gate": 1, "use": 1, "more": 1})
        self.run_ok()
        self.assertEqual(self.ran(), ["make", "gate", "use", "more"])

    # C-1: files that nobody needs any more make nothing run.
    def test_not_needed(self):
        self.write("w.yaml", stages(*self.LINES, "{name: last, run: 'echo last >> ran; test -e go', max_attempts: 1}"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
        self.ran()
        os.unlink(self.content())
        self.write("go", "")
        self.assertEqual(self.plan(), {"make": 0, "other": 0, "gate": 0, "use": 0, "last": 1})
        self.run_ok()
        self.assertEqual(self.ran(), ["last"])


class EqualItems(ResumeCase):
    GATE = "gate: {run: test -e ok, max_attempts: 1}"

    # C-1: elements that are equal are tasks of their own: one that was added has no result yet.
    def test_static(self):
        def write(items):
            self.write("w.yaml", graph("a: {run: 'echo ${matrix.i} >> ran', matrix: {i: [%s]}}" % items, self.GATE))
        write("x, y")
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
        for items, wanted in (("x, x, y", ["x"]), ("y, x, x", []), ("x, z, x, y, y", ["y", "z"])):
            self.ran()
            write(items)
            plan = self.plan()
            self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
            self.assertEqual(sorted(self.ran()), wanted, items)
            self.assertEqual(plan["a"], len(wanted), items)

    # C-1, Y-2: the same for items that come from a result.
    def test_from_a_result(self):
        def write(items, extra=""):
            self.write("w.yaml", graph("list: {run: cat list}", "a: {needs: list, run: 'echo ${matrix.i} >> ran', "
                                       "matrix: {i: '${list.result}'}}", self.GATE + extra))
            self.write("list", items + "\n")
        write('["x", "x", "y"]')
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
        self.assertEqual(sorted(self.ran()), ["x", "x", "y"])
        write('["x", "x", "y"]', "\n    b: {run: echo b >> ran}")
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
        self.assertEqual(self.ran(), ["b"])


if __name__ == "__main__":
    unittest.main()
