"""Stages with `cache`, and `rota run --output`, as a user sees them (dev build)."""

import json
import os
import pty
import re
import unittest

from support import LIMIT_S, ROTA, RunCase, stages


class Cache(RunCase):
    """A stage with `cache` that records each of its executions in the file `ran`."""

    LINES = ("{name: a, run: \"echo a >> ran; cat in.csv\", inputs: {n: 1}, env: {MODE: fast}, cache: {files: ['*.csv']}}",
             "{name: b, run: 'echo \"b ${a.result}\" >> ran; echo done'}")

    def setUp(self):
        super().setUp()
        self.write("in.csv", "11\n")
        self.write("w.yaml", stages(*self.LINES))

    def run_ok(self, *arguments):
        done = self.rota("run", "w.yaml", "--state", "state", *arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def explain(self, task, *arguments):
        done = self.rota("explain", task, "--log", "state", *arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def runs(self, name="a"):
        return self.read("ran").splitlines().count(name)

    # C-1: an unchanged stage is not run again; later stages get its earlier result; the table, the lines, `explain` and
    # the JSON say so.
    def test_unchanged(self):
        first = self.run_ok()
        self.assertIn("log      a  runs: no earlier success", first)
        self.assertRegex(first, r"a +succeeded +1 ")
        self.assertIn("runs: no earlier success", self.explain("a"))
        second = self.run_ok()
        self.assertRegex(second, r"cached   a  program, inputs, environment and 1 file are unchanged since 20\d\d-\d\d-\d\d "
                                 r"\d\d:\d\d UTC \(workflow w, task a\)")
        self.assertRegex(second, r"a +cached +1 ")
        self.assertRegex(second, r"b +succeeded +1 ")
        self.assertIn("2 of 2 tasks succeeded (1 cached)", second)
        self.assertEqual(self.read("ran"), "a\nb 11\nb 11\n")
        self.assertIn("(a) was not run: program, inputs, environment and 1 file are unchanged since", self.explain("a"))
        self.assertEqual(json.loads(self.explain("a", "--json"))["facts"]["cached"], True)
        lines = [json.loads(line) for line in self.run_ok("--json").splitlines()]
        task = lines[-1]["tasks"][0]
        self.assertEqual((task["state"], task["cached"]), ("succeeded", True))
        self.assertIn("are unchanged since", task["cache"])
        report = next(line for line in lines if line.get("report") == "succeeded" and line["name"] == "a")
        self.assertTrue(report["cached"])

    # C-1: after each change the stage runs and says what changed; after the change is undone, the earlier result is used.
    def test_each_part(self):
        self.run_ok()
        runs = 1
        for before, after, words in (
                ("echo a >> ran; cat", "echo a >> ran;  cat", "the program changed"),
                ("n: 1", "n: 2", "the inputs changed"),
                ("MODE: fast", "MODE: slow", "the variable MODE changed"),
                ("env: {MODE: fast}", "env: {MODE: fast, X: 1}", "the variable X is new"),
                ("'*.csv'", "'*.csv', more", "cache.files changed"),
        ):
            self.write("w.yaml", stages(*self.LINES).replace(before, after))
            output = self.run_ok()
            runs += 1
            self.assertIn("runs: " + words, output)
            self.assertIn("runs: " + words, self.explain("a"))
            self.assertEqual(self.runs(), runs, words)
            self.write("w.yaml", stages(*self.LINES))
            self.assertIn("cached   a", self.run_ok())
        for change, words in (
                (lambda: self.write("in.csv", "12\n"), "the file in.csv changed"),
                (lambda: self.write("new.csv", "1\n"), "the file new.csv is new"),
                (lambda: os.remove(self.path("in.csv")) or self.write("new.csv", "2\n"),
                 "the file in.csv is gone and the file new.csv changed"),
        ):
            change()
            self.write("w.yaml", stages(*self.LINES).replace("cat in.csv", "cat *.csv"))
            output = self.run_ok()
            self.assertIn(words, output)

    # C-1: a reference counts by its value: an upstream change that leads to the same value is not a change.
    def test_references(self):
        self.write("w.yaml", stages("{name: a, run: echo a >> ran; wc -l < in.csv}",
                                    "{name: b, run: 'echo b >> ran; echo $((${a.result} + 1))', cache: true}",
                                    "{name: c, run: 'echo c-${b.result} >> ran'}"))
        self.run_ok()
        self.write("in.csv", "99\n")
        self.assertIn("cached   b", self.run_ok())
        self.assertEqual(self.read("ran"), "a\nb\nc-2\na\nc-2\n")
        self.write("in.csv", "1\n2\n")
        self.assertIn("runs: the value of reference 1 in run changed", self.run_ok())
        self.assertEqual(self.read("ran").split()[-3:], ["a", "b", "c-3"])

    # C-1: a missing or changed output file makes the stage run again.
    def test_outputs(self):
        self.write("w.yaml", stages("{name: a, run: 'echo a >> ran; sort in.csv > out.csv', "
                                    "cache: {files: '*.csv', outputs: out.csv}}"))
        self.run_ok()
        self.assertIn("; its output is unchanged", self.run_ok())
        os.remove(self.path("out.csv"))
        self.assertIn("runs: output out.csv is missing", self.run_ok())
        self.assertEqual(self.read("out.csv"), "11\n")
        self.write("out.csv", "spoilt\n")
        self.assertIn("runs: output out.csv changed", self.run_ok())
        self.assertEqual((self.read("out.csv"), self.runs()), ("11\n", 3))
        self.assertIn("cached   a", self.run_ok())

    # A program that changes its own input files is detected, and its result is not kept.
    def test_it_changes_what_it_reads(self):
        self.write("w.yaml", stages("{name: a, run: echo 1 >> in.csv, cache: {files: in.csv}}"))
        self.assertIn("not kept: while it ran, the file in.csv changed; list the files that it writes in cache.outputs", self.run_ok())
        self.assertIn("runs: no earlier success", self.run_ok())
        self.assertIn("not kept: while it ran", self.explain("a"))

    # C-1: a file that changes and has its former content again when the program ends has changed while it ran.
    def test_changed_and_changed_back(self):
        self.write("w.yaml", stages("{name: a, run: 'echo 12 > in.csv; cat in.csv; echo 11 > in.csv', cache: {files: in.csv}}"))
        for _ in range(2):
            os.utime(self.path("in.csv"), (1_000_000_000, 1_000_000_000))  # A write is seen, however soon it comes.
            output = self.run_ok()
            self.assertIn("runs: no earlier success", output)
            self.assertIn("not kept: while it ran, the file in.csv was written or replaced, so it is unknown which content it read", output)

    # C-1: an output that may no longer be executed is not as the task left it; an input that may be now has changed.
    def test_the_right_to_be_executed(self):
        self.write("w.yaml", stages("{name: a, run: 'echo a >> ran; echo echo hi > prog; chmod 755 prog', cache: {files: in.csv, outputs: prog}}",
                                    "{name: b, run: ./prog, max_attempts: 1}"))
        self.run_ok()
        os.chmod(self.path("prog"), 0o644)
        self.assertIn("runs: output prog changed", self.run_ok())
        self.assertIn("cached   a", self.run_ok())
        os.chmod(self.path("in.csv"), 0o755)
        self.assertIn("runs: the file in.csv changed", self.run_ok())
        self.assertEqual(self.runs(), 3)

    # Y-6: --dry-run knows the cache, as far as what a task depends on is known before the run, and changes nothing.
    def test_dry_run(self):
        self.write("w.yaml", stages(*self.LINES, "{name: c, run: 'echo \"${a.result}\"', cache: true}",
                                    "{name: d, run: 'echo \"${b.result}\"', cache: true}",
                                    "{name: e, matrix: {i: [1, 2]}, run: 'echo ${matrix.i}', cache: {files: 'e${matrix.i}'}}"))

        def plan(*arguments):
            done = self.rota("run", "w.yaml", "--state", "state", "--dry-run", *arguments)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return done.stdout

        def stage(name, *arguments):
            return next(each for each in json.loads(plan("--json", *arguments))["plan"] if each["stage"] == name)

        self.assertIn("a: cpu 1: runs (no earlier success)\n", plan())
        self.assertEqual(stage("c"), {"stage": "c", "tasks": 1, "kept": 0, "maybe_cached": 1, "why": "no earlier run"})
        self.assertFalse(os.path.exists(self.path("state")))
        self.run_ok()
        said = plan()
        self.assertRegex(said, r"a: cpu 1: cached \(program, inputs, environment and 1 file are unchanged since .*\)\n")
        self.assertRegex(said, r"c: .*: cached \(program, inputs and environment are unchanged since .*\)\n")
        self.assertRegex(said, r"d: .*: runs \(a new run\), unless it is cached; that depends on what runs before\n")
        self.assertEqual(stage("a"), {"stage": "a", "tasks": 1, "kept": 0, "cached": 1})
        self.assertEqual(stage("a", "--no-cache"), {"stage": "a", "tasks": 1, "kept": 0, "why": "a new run"})
        self.assertEqual(stage("e"), {"stage": "e", "tasks": 2, "kept": 0, "cached": 2})
        self.write("e2", "")
        self.assertEqual(stage("e"), {"stage": "e", "tasks": 2, "kept": 0, "cached": 1, "why": "the file e2 is new"})
        self.assertRegex(plan(), r"1 task of 2 run \(the file e2 is new\), 1 is cached\n")
        self.write("in.csv", "12\n")
        self.assertEqual(stage("a")["why"], "the file in.csv changed")
        self.assertEqual(stage("c"), {"stage": "c", "tasks": 1, "kept": 0, "maybe_cached": 1, "why": "a new run"})
        output = self.run_ok()
        self.assertIn("6 of 6 tasks succeeded (2 cached)", output)

    # Y-6: after a failure, what the cache has counts for the tasks that are not done.
    def test_dry_run_of_a_resumed_run(self):
        self.write("w.yaml", stages(self.LINES[0], "{name: b, run: test -e go, max_attempts: 1}",
                                    "{name: c, run: 'echo c >> ran; echo \"${a.result}\"', cache: true}"))
        self.write("go", "")
        self.run_ok()
        os.unlink(self.path("go"))
        self.assertEqual(self.rota("run", "w.yaml", "--state", "state").returncode, 1)
        done = self.rota("run", "w.yaml", "--state", "state", "--dry-run", "--json")
        plan = {each["stage"]: (each["kept"], each.get("cached", 0)) for each in json.loads(done.stdout)["plan"]}
        self.assertEqual(plan, {"a": (1, 0), "b": (0, 0), "c": (0, 1)})
        self.write("go", "")
        self.assertRegex(self.run_ok(), r"c +cached +1 ")

    # C-1: each task of a matrix is cached by its values: a new first value changes nothing for the other tasks.
    def test_matrix(self):
        def write(values):
            self.write("w.yaml", stages("{name: a, matrix: {i: [" + values + "]}, run: 'echo a-${matrix.i} >> ran; "
                                        "echo ${matrix.i}', cache: true}", "{name: b, run: 'echo \"${a.result}\" >> ran'}"))
        write("1, 2, 3")
        self.run_ok()
        self.assertIn("4 of 4 tasks succeeded (3 cached)", self.run_ok())
        write("0, 1, 2, 3")
        output = self.run_ok()
        self.assertIn("5 of 5 tasks succeeded (3 cached)", output)
        self.assertRegex(output, r"a\[0\] i=0 +succeeded +1 ")
        ran = self.read("ran").split()
        self.assertEqual(sorted(line for line in ran if line.startswith("a-")), ["a-0", "a-1", "a-2", "a-3"])
        self.assertEqual(ran[-1], "[0,1,2,3]")

    # Tasks with different matrix values are different tasks, even if their programs do not use the values.
    def test_matrix_of_equal_commands(self):
        self.write("w.yaml", stages("{name: a, matrix: {trial: [1, 2, 3]}, run: echo a >> ran, cache: true}"))
        self.run_ok("--jobs", "1")
        self.assertEqual(self.runs(), 3)

    # C-1: a damaged cache entry is a miss, and the message says so.
    def test_damaged_entry(self):
        self.run_ok()
        folder = self.path("state/cache/entries")
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "r+b") as file:
                file.seek(60)
                file.write(b"\xff\xff")
        self.assertRegex(self.run_ok(), r"runs: the kept result of an earlier success cannot be used: '.*' is damaged")
        self.assertIn("cached   a", self.run_ok())

    def test_no_cache_and_off(self):
        self.run_ok()
        self.assertIn("runs: the worker was told not to use kept results", self.run_ok("--no-cache"))
        self.assertEqual(self.runs(), 2)
        self.assertIn("cached   a", self.run_ok())
        self.write("w.yaml", stages("{name: a, run: echo a >> ran, cache: false}"))
        for _ in range(2):
            output = self.run_ok()
            self.assertNotIn("cached", output)
            self.assertNotIn("runs:", output)
        self.assertEqual(self.runs(), 4)

    # A failure is not cached.
    def test_failures_run_again(self):
        self.write("w.yaml", stages("{name: a, run: echo a >> ran; exit 1, max_attempts: 2, cache: true}"))
        for _ in range(2):
            self.assertEqual(self.rota("run", "w.yaml", "--state", "state").returncode, 1)
        self.assertEqual(self.runs(), 4)
        self.assertIn("runs: no earlier success", self.explain("a"))

    # C-1: after a kill, only the results of tasks that had succeeded are cached.
    def test_killed(self):
        self.write("w.yaml", stages("{name: a, run: echo a >> ran, cache: true}",
                                    "{name: b, run: 'echo b >> ran; [ -e go ] || sleep 1000', cache: true}"))
        process = self.start("run", "w.yaml", "--state", "state")
        self.wait_for(lambda: self.runs("b") == 1)
        process.kill()
        process.wait()
        self.write("go", "")
        self.assertIn("runs: no earlier success", self.run_ok("--fresh"))
        self.assertEqual(self.read("ran"), "a\nb\nb\n")
        self.assertIn("2 of 2 tasks succeeded (2 cached)", self.run_ok())

    def test_excludes_merge_and_replicas(self):
        self.write("w.yaml", stages("{name: a, run: x, merge: true, cache: true}",
                                    "{name: b, run: x, replicas: 2, cache: true}"))
        done = self.rota("validate", "w.yaml")
        self.assertEqual(done.returncode, 2)
        self.assertIn("w.yaml:4:45: a stage has merge or cache, not both", done.stdout + done.stderr)
        self.assertIn("w.yaml:5:45: a stage has replicas or cache, not both", done.stdout + done.stderr)


class Output(RunCase):
    # U-2: whole lines are shown while their task runs, each after the name of the task.
    def test_lines_as_they_come(self):
        self.write("w.yaml", stages("{name: talk, run: 'echo one; echo oh >&2; while [ ! -e go ]; do sleep 0.01; done; "
                                    "printf \"two\\tand\\nthree\"'}"))
        process = self.start("run", "w.yaml", "--output")
        seen = ""
        for line in process.stdout:
            seen += line
            if "talk | one" in seen and "talk ! oh" in seen:
                break
        self.write("go", "")
        output, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 0, seen + output)
        self.assertRegex(output, r"s  talk \| two\tand\n")
        self.assertRegex(output, r"s  talk \| three\n")

    def test_json_and_without(self):
        self.write("w.yaml", stages("{name: talk, run: 'echo one; echo oh >&2; printf \"\\033[1mtwo\"'}"))
        done = self.rota("run", "w.yaml", "--output", "--json")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        told = {(line["stream"], line["text"]) for line in lines if line.get("report") == "output"}
        self.assertEqual(told, {("stdout", "one"), ("stdout", "\x1b[1mtwo"), ("stderr", "oh")})
        self.assertNotIn("talk |", self.rota("run", "w.yaml").stdout)

    # On a terminal, control sequences in the output of a task are escaped.
    def test_on_a_terminal(self):
        self.write("w.yaml", stages("{name: talk, run: 'printf \"10%%\\r20%%\\n\\033]0;evil\\007\\tx\\n\"'}"))
        output = self.on_a_terminal("run", "w.yaml", "--output")
        self.assertIn("talk | 20%", output)
        self.assertIn(r"talk | \x1b]0;evil\x07 x", output)
        self.assertNotIn("\x1b]0;", output)

    # U-2: if a task writes faster than rota shows it, it waits, or the number of bytes that are not shown is reported.
    def test_much(self):
        self.write("w.yaml", stages("{name: loud, run: yes | head -c 4000000}"))
        done = self.rota("run", "w.yaml", "--output", timeout=4 * LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        dropped = sum(int(count) for count in re.findall(r"loud ! \[(\d+) bytes are not shown here", done.stdout))
        shown = 2 * done.stdout.count("loud | y\n")
        self.assertLessEqual(abs(dropped + shown - 4_000_000), 4 * done.stdout.count("not shown here"))

    def on_a_terminal(self, *arguments):
        """What `rota` writes to a pseudo-terminal."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execv(ROTA, [ROTA, *arguments])
        self.addCleanup(os.close, terminal)
        output = b""
        try:
            while piece := os.read(terminal, 65536):
                output += piece
        except OSError:  # The other end is closed.
            pass
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0, output)
        return output.decode()


if __name__ == "__main__":
    unittest.main()
