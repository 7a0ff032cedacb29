"""`rota run` in everyday use: edit and resume, parameters, partial runs, other files, values as written (dev build)."""

import json
import os
import signal
import stat
import unittest

from support import LIMIT_S, RunCase, graph, stages


def spec(*lines):
    return "apiVersion: rota/v1\nspec:\n" + "".join(f"  {line}\n" for line in lines)


class Edit(RunCase):
    # C-1: a task whose definition and inputs are unchanged keeps its result, and the run says so; a changed task runs
    # again, with the tasks that depend on it.
    def test_unchanged_tasks_keep_their_results(self):
        before = ["a: {run: echo a >> ran; echo 7}", "b: {needs: a, run: 'echo b >> ran'}",
                  "c: {needs: b, run: 'echo c >> ran; exit 1', max_attempts: 1}", "d: {run: echo d >> ran}"]
        self.write("w.yaml", graph(*before))
        self.assertEqual(self.rota("run", "w.yaml", "--jobs", "1").returncode, 1)
        self.assertEqual(sorted(self.read("ran").split()), ["a", "b", "c", "d"])
        self.write("w.yaml", graph(before[0], "b: {needs: a, run: 'echo B ${a.result} >> ran'}",
                                   "c: {needs: b, run: 'echo c >> ran'}", before[3]))
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(sorted(self.read("ran").splitlines()), ["B 7", "a", "b", "c", "c", "d"])
        self.assertIn("continuing wf-1", done.stdout)
        self.assertIn("keeping 2 results of 4 tasks: a, d", done.stdout)
        self.assertIn("b (the program changed", done.stdout)
        self.assertRegex(done.stdout, r"cached   a  unchanged since wf-1")
        explained = self.rota("explain", "w.yaml", "a")
        self.assertIn("unchanged since wf-1", explained.stdout)
        self.assertEqual(self.rota("replay", "w.yaml").returncode, 0)

    # C-1: what only runs elsewhere, longer or more often is not another task; --fresh starts over; a comment is no edit.
    def test_what_counts_as_a_change(self):
        self.write("w.yaml", stages("{name: a, run: echo a >> ran}", "{name: b, run: exit 1, max_attempts: 1}"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
        self.write("w.yaml", "# A comment.\n" + stages("{name: a, run: echo a >> ran}",
                                                       "{name: b, run: exit 1, max_attempts: 1}"))
        self.assertIn("resuming wf-1", self.rota("run", "w.yaml").stdout)
        self.write("w.yaml", stages("{name: a, run: echo a >> ran, timeout: 1h, priority: 3}",
                                    "{name: b, run: exit 1, max_attempts: 1}"))
        self.assertIn("keeping 1 result of 2 tasks: a", self.rota("run", "w.yaml").stdout)
        self.assertEqual(self.read("ran"), "a\n")
        self.assertEqual(self.rota("run", "w.yaml", "--fresh").returncode, 1)
        self.assertEqual(self.read("ran"), "a\na\n")
        # A fresh run that was interrupted does not fall back to results from before it.
        self.write("w.yaml", stages("{name: a, run: echo A >> ran}", "{name: b, run: exit 1, max_attempts: 1}"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
        self.assertEqual(self.read("ran"), "a\na\nA\n")
        # Back to the older version: its files may have been replaced since, so it runs again.
        self.write("w.yaml", stages("{name: a, run: echo a >> ran}", "{name: b, run: 'true'}"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 0)
        self.assertEqual(self.read("ran"), "a\na\nA\na\n")

    # C-1: a value that is added to a matrix does not run the others again; a stage that gathers them does.
    def test_a_longer_matrix(self):
        def file(values, last):
            return graph(f"m: {{run: 'echo ${{matrix.i}} >> ran; echo ${{matrix.i}}', matrix: {{i: {values}}}}}",
                         f"all: {{needs: m, run: 'echo \"${{m.result}}\" > all; {last}', max_attempts: 1}}")
        self.write("w.yaml", file([1, 2], "exit 1"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
        self.write("w.yaml", file([3, 1, 2], "true"))
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(sorted(self.read("ran").split()), ["1", "2", "3"])
        self.assertEqual(self.read("all"), "[3,1,2]\n")

    # C-1: editing and killing a workflow again and again loses nothing and does nothing twice that is unchanged.
    # ROTA_KILLS=200 for the long version.
    def test_kill_an_edited_workflow(self):
        names = [f"s{i}" for i in range(12)]

        def file(suffix):
            return stages(*[f"{{name: {n}, run: 'echo {n}{suffix if i >= 8 else ''} >> ran; sleep 0.02'}}"
                            for i, n in enumerate(names)], "{name: gate, run: test -e go, max_attempts: 1}")
        self.write("w.yaml", file(""))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
        kills = int(os.environ.get("ROTA_KILLS", "6"))
        for i in range(kills):
            self.write("w.yaml", file(f"x{i // 2}"))
            process = self.start("run", "w.yaml")
            lines = 1 + i % 9
            for _ in process.stdout:
                lines -= 1
                if lines == 0:
                    break
            process.kill()
            process.communicate(timeout=LIMIT_S)
        self.write("go", "")
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        ran = self.read("ran").split()
        self.assertEqual([ran.count(n) for n in names[:8]], [1] * 8, "unchanged tasks ran once, before the edits")
        for name in names[8:]:
            self.assertIn(f"{name}x{(kills - 1) // 2}", ran)
        self.assertEqual(self.rota("replay", "w.yaml").returncode, 0)
        self.assert_nothing_runs()


class Attempts(RunCase):
    # C-1: a task that was only queued when the process was killed has had no attempt.
    def test_queued_tasks_gain_no_attempts(self):
        self.write("w.yaml", stages("{name: block, run: 'echo >> begun; until [ -e go ]; do sleep 0.02; done'}",
                                    "{name: b, needs: [], matrix: {i: [1, 2, 3]}, run: 'echo ${task.attempt} >> out'}"))
        for i in range(3):
            process = self.start("run", "w.yaml", "--jobs", "1")
            self.wait_for(lambda count=i + 1: len(self.read("begun").splitlines()) == count)
            process.kill()
            process.communicate(timeout=LIMIT_S)
            self.assert_nothing_runs()
        self.write("go", "")
        done = self.rota("run", "w.yaml", "--jobs", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.read("out"), "1\n1\n1\n")


class EditAfterKill(RunCase):
    # C-1, Y-4: the process was killed during finally, and the file was edited: finally ends, and what is unchanged is kept, as
    # --dry-run says.
    def test_killed_during_finally(self):
        text = spec("stages:", "  - {name: a, run: 'echo a >> ran'}", "  - {name: b, run: 'echo b1 >> ran'}",
                    "finally:", "  - {name: f, run: 'echo f >> ran; until [ -e go ]; do sleep 0.02; done'}")
        self.write("w.yaml", text)
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: "f" in self.read("ran").split())
        process.kill()
        process.communicate(timeout=LIMIT_S)
        self.assert_nothing_runs()
        self.write("w.yaml", text.replace("b1", "b2"))
        self.write("go", "")
        plan = json.loads(self.rota("run", "w.yaml", "--dry-run", "--json").stdout)["plan"]
        self.assertEqual({each["stage"]: each["kept"] for each in plan if each["stage"] != "f"}, {"a": 1, "b": 0})
        self.write("ran", "")
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(sorted(self.read("ran").split()), ["b2", "f", "f"])


class Params(RunCase):
    FILE = spec("params:", "  size: 3", "  mode: {type: text, choices: [fast, exact], default: fast}",
                "  rates: {type: list, default: [0.10, 1e-4]}",
                "stages:", "  - name: a",
                "    run: echo \"${params.mode} ${params.size} ${matrix.rate}\" >> out",
                "    matrix: {rate: '${params.rates}'}", "    timeout: ${params.size}m",
                "    condition: ${params.mode} == 'fast' or ${params.size} > 5")

    # Y-1: defaults, --set, --params; in any value, with its type.
    def test_values(self):
        self.write("w.yaml", self.FILE)
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # Y-9: numbers arrive digit for digit.
        self.assertEqual(sorted(self.read("out").splitlines()), ["fast 3 0.10", "fast 3 1e-4"])
        self.write("p.yaml", "size: 10\nrates: [5]\n")
        self.write("out", "")
        done = self.rota("run", "w.yaml", "--params", "p.yaml", "--set", "mode=exact", "--set", "size=7")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.read("out"), "exact 7 5\n")

    # Y-1: a parameter in a shell text stays data.
    def test_a_value_is_not_code(self):
        self.write("w.yaml", spec("params: {x: a}", "stages:", "  - {name: a, run: 'echo \"${params.x}\" > out'}"))
        done = self.rota("run", "w.yaml", "--set", "x=$(touch bad) ${HOME} '\"")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.read("out"), "$(touch bad) ${HOME} '\"\n")
        self.assertFalse(os.path.exists(self.path("bad")))

    # Y-1: a wrong parameter is an error that gives its location.
    def test_errors(self):
        self.write("w.yaml", self.FILE)
        for arguments, message in [
                (["--set", "sise=4"], "--set sise=4: the workflow has no parameter 'sise'; did you mean 'size'?"),
                (["--set", "size=big"], "w.yaml:4:5: the parameter 'size' is \"big\"; it must be of the type number"),
                (["--set", "mode=fats"], "w.yaml:5:5: the parameter 'mode' is fats; it must be one of fast, exact"),
                (["--set", "size"], "write NAME=VALUE"), (["--params", "nowhere.yaml"], "nowhere.yaml")]:
            done = self.rota("run", "w.yaml", *arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr)
        self.write("w.yaml", spec("params: {need: {type: integer}}", "stages:", "  - {name: a, run: 'true'}"))
        done = self.rota("validate", "w.yaml")
        self.assertIn("w.yaml:3:12: the parameter 'need' has no default and no value; give it one: --set need=VALUE",
                      done.stderr)
        self.assertEqual(self.rota("validate", "w.yaml", "--set", "need=3").returncode, 0)
        self.assertIn("must be of the type integer", self.rota("validate", "w.yaml", "--set", "need=3.5").stderr)
        self.write("w.yaml", stages("{name: a, run: 'echo ${params.x}'}"))
        self.assertIn("w.yaml:4:22: '${params.x}' refers to a parameter 'x' that params does not declare",
                      self.rota("validate", "w.yaml").stderr)


class Files(RunCase):
    # Y-7: templates with `use`, include, env_file.
    def test_templates_includes_and_env_files(self):
        os.mkdir(self.path("parts"))
        self.write("parts/common.yaml", spec(
            "params: {greeting: hello}", "templates:", "  base: {env: {A: base, B: base}, max_attempts: 2}",
            "  loud: {use: base, env: {B: loud}}", "stages:", "  - {name: first, run: echo first >> out}"))
        self.write("some.env", "# A comment.\nB=file\nexport C=\"from ${file}\"\n\n")
        self.write("w.yaml", spec(
            "include: parts/common.yaml", "stages:", "  - name: second", "    use: loud",
            "    run: echo \"$A $B $C ${params.greeting}\" >> out", "    env_file: some.env",
            "    env: {A: own}"))
        done = self.rota("run", "w.yaml", "--set", "greeting=hi")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.read("out"), "first\nown file from ${file} hi\n")

    # Y-7: cycles, and includes that leave the workflow's folder, are rejected; errors name the file.
    def test_errors(self):
        os.mkdir(self.path("in"))
        self.write("outside.yaml", spec("templates: {t: {run: 'true'}}"))
        self.write("in/loop.yaml", spec("include: loop2.yaml", "templates: {t: {run: 'true', tiemout: 3s}}"))
        self.write("in/loop2.yaml", spec("include: loop.yaml"))
        self.write("in/w.yaml", spec("include: [../outside.yaml, loop.yaml, gone.yaml]", "templates:",
                                     "  x: {use: y}", "  y: {use: x, run: 'true'}", "stages:",
                                     "  - {name: a, use: x}", "  - {name: b, use: z, run: 'true'}",
                                     "  - {name: c, run: 'true', env_file: no.env}"))
        text = self.rota("validate", "in/w.yaml").stderr
        self.assertIn("in/w.yaml:3:13: the included file '../outside.yaml': it is outside the workflow's folder", text)
        self.assertIn("loop2.yaml:3:12: the included file 'loop.yaml' includes itself", text)
        self.assertIn("in/w.yaml:3:30: loop.yaml:4:32: unknown key 'tiemout'", text)
        self.assertIn("the included file 'gone.yaml': it cannot be opened", text)
        self.assertIn("the template 'x' uses itself", text)
        self.assertIn("use is 'z', but there is no such template", text)
        self.assertIn("the env_file 'no.env': it cannot be opened", text)

        # A template that no stage uses is checked as well.
        self.write("in/w.yaml", spec("templates:", "  x: {use: y}", "  y: {use: [x]}", "  z: {use: z}", "  u: {use: nothing}",
                                     "stages:", "  - {name: a, run: 'true'}"))
        done = self.rota("validate", "in/w.yaml")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("in/w.yaml:5:15: the template 'x' uses itself", done.stderr)
        self.assertIn("in/w.yaml:6:14: the template 'z' uses itself", done.stderr)
        self.assertIn("in/w.yaml:7:14: use is 'nothing', but there is no such template (there are u, x, y, z)", done.stderr)
        self.assertEqual(done.stderr.count("uses itself"), 2, done.stderr)

        # An env_file is read below the workflow's folder only, as an included file is; a link does not lead out of it.
        self.write("outside.env", "A=1\n")
        os.symlink("../outside.env", self.path("in/link.env"))
        self.write("in/w.yaml", spec("env_file: [../outside.env]", "stages:", "  - {name: a, run: 'true', env_file: link.env}",
                                     "  - {name: b, run: 'true', env_file: " + self.path("outside.env") + "}"))
        done = self.rota("validate", "in/w.yaml")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("in/w.yaml:3:14: the env_file '../outside.env': it is outside the workflow's folder", done.stderr)
        self.assertIn("in/w.yaml:5:40: the env_file 'link.env': it is outside the workflow's folder", done.stderr)
        self.assertIn("in/w.yaml:6:40: the env_file '" + self.path("outside.env") + "': it is outside", done.stderr)

        # A line that is not understood may be part of a key: it is not shown.
        self.write("keys.env", "A=1\nhunter22\n")
        self.write("w.yaml", spec("stages:", "  - {name: c, run: 'true', env_file: keys.env}"))
        text = self.rota("validate", "w.yaml").stderr
        self.assertIn("keys.env:2:1: the line is not NAME=value", text)
        self.assertNotIn("hunter22", text)

    # U-3: keys of other tools get a hint.
    def test_keys_of_other_tools(self):
        self.write("w.yaml", spec("stages:", "  - {name: a, command: x, depends_on: b, retries: 2, image: y, if: z}"))
        text = self.rota("validate", "w.yaml").stderr
        for hint in ["unknown key 'command' in a stage; write run", "'depends_on' in a stage; write needs",
                     "retries: 2 is max_attempts: 3", "'image' in a stage; Rota starts programs, not containers",
                     "'if' in a stage; write condition"]:
            self.assertIn(hint, text)

    # Y-2: include and exclude of a matrix.
    def test_matrix_include_and_exclude(self):
        self.write("w.yaml", spec(
            "stages:", "  - name: build", "    run: echo \"${matrix.os} ${matrix.cc} ${matrix.flag}\" >> out",
            "    matrix:", "      os: [linux, mac]", "      cc: [gcc, clang]",
            "      exclude: [{os: mac, cc: gcc}]",
            "      include: [{os: linux, cc: gcc, flag: -O3}, {os: bsd, cc: clang}]"))
        done = self.rota("run", "w.yaml", "-j", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(sorted(self.read("out").splitlines()),
                         ["bsd clang null", "linux clang null", "linux gcc -O3", "mac clang null"])

    # Y-8: the workflow from the standard input.
    def test_standard_input(self):
        done = self.rota("run", "-", input=stages("{name: a, run: pwd > out}"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.read("out").strip(), os.path.realpath(self.folder))
        self.assertIn("the file", self.rota("run", "./-").stderr)


class Partial(RunCase):
    FILE = graph("a: {run: echo a >> ran; echo 1}", "b: {needs: a, run: 'echo b${a.result} >> ran; echo 2'}",
                 "m: {needs: a, run: 'echo m${matrix.i} >> ran', matrix: {i: [0, 1]}}",
                 "c: {needs: [b, m], run: 'echo c${b.result} >> ran'}")

    def ran(self):
        text = self.read("ran")
        self.write("ran", "")
        return sorted(text.split())

    # Y-6: --until, --from, --only, one task by name; --dry-run says what would run and why.
    def test_partial_runs(self):
        self.write("w.yaml", self.FILE)
        done = self.rota("run", "w.yaml", "--only", "b")
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        self.assertIn("no earlier run has a result of a; run them first", done.stderr)
        plan = self.rota("run", "w.yaml", "--only", "b", "--dry-run")
        self.assertEqual((plan.returncode, plan.stderr), (4, done.stderr), plan.stdout)
        self.assertEqual(self.rota("run", "w.yaml", "--until", "b").returncode, 0)
        self.assertEqual(self.ran(), ["a", "b1"])
        done = self.rota("run", "w.yaml", "--only", "b")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.ran(), ["b1"])
        plan = self.rota("run", "w.yaml", "--dry-run")
        self.assertRegex(plan.stdout, r"a: .*: done, its result is kept")
        self.assertRegex(plan.stdout, r"c: .*: runs \(not done yet\)")
        self.assertEqual(self.rota("run", "w.yaml").returncode, 0)
        self.assertEqual(self.ran(), ["c2", "m0", "m1"])
        self.assertEqual(self.rota("run", "w.yaml", "--from", "m").returncode, 0)
        self.assertEqual(self.ran(), ["c2", "m0", "m1"])
        self.assertEqual(self.rota("run", "w.yaml", "--only", "m[1]").returncode, 0)
        self.assertEqual(self.ran(), ["m1"])
        plan = json.loads(self.rota("run", "w.yaml", "--from", "b", "--dry-run", "--json").stdout)
        self.assertEqual([(p["stage"], p["kept"], p.get("why")) for p in plan["plan"]],
                         [("a", 1, None), ("b", 0, "chosen"), ("m", 2, None), ("c", 0, "chosen")])
        done = self.rota("run", "w.yaml", "--only", "bb")
        self.assertIn("--only 'bb': the workflow has no such stage; did you mean 'b'?", done.stderr)
        done = self.rota("run", "w.yaml", "--only", "m[-1]")
        self.assertIn("--only 'm[-1]': write the number of a task in the brackets, counted from 0", done.stderr)
        # --only and --from take over results, and --fresh keeps none: nothing runs. --until takes over nothing.
        for selection, words in (("--only", "use `--fresh --until b`"), ("--from", "leave out one of them")):
            done = self.rota("run", "w.yaml", "--fresh", selection, "b")
            self.assertEqual((done.returncode, self.ran()), (2, []), done.stdout + done.stderr)
            self.assertIn(words, done.stderr)
        self.assertEqual(self.rota("run", "w.yaml", "--fresh", "--until", "b").returncode, 0)
        self.assertEqual(self.ran(), ["a", "b1"])


class Partial(RunCase):
    # C-1, Y-6: what --only took over although it had changed does not pass for a result of the new definition.
    def test_an_old_result_that_only_used_is_not_kept(self):
        text = spec("stages:", "  - {name: a, run: 'echo a1 >> out; echo 1'}",
                    "  - {name: b, run: 'echo b >> out; echo \"${a.result}\"'}",
                    "  - {name: c, run: 'echo c >> out; echo \"${b.result}\"'}")
        self.write("w.yaml", text)
        self.assertEqual(self.rota("run", "w.yaml").returncode, 0)
        self.write("w.yaml", text.replace("a1", "a2").replace("echo 1", "echo 2"))
        self.assertEqual(self.rota("run", "w.yaml", "--only", "c").returncode, 0)
        os.remove(self.path("out"))
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.read("out"), "a2\nb\nc\n")
        self.assertIn("  | 2\n", done.stdout)

    # The same after --from: what did not change, and what ran with it, is kept.
    def test_results_that_a_partial_run_shows_are_kept(self):
        text = spec("stages:", "  - {name: a, run: 'echo a >> out; echo 1'}",
                    "  - {name: b, run: 'echo b1 >> out; echo \"${a.result}\"'}",
                    "  - {name: c, run: 'echo c >> out; echo \"${b.result}\"; test -e ok', max_attempts: 1}")
        self.write("w.yaml", text)
        self.assertNotEqual(self.rota("run", "w.yaml").returncode, 0)
        self.write("w.yaml", text.replace("b1", "b2"))
        self.assertEqual(self.rota("run", "w.yaml", "--only", "b").returncode, 0)
        os.remove(self.path("out"))
        self.write("ok", "")
        self.assertEqual(self.rota("run", "w.yaml").returncode, 0)
        self.assertEqual(self.read("out"), "c\n")


class Positions(RunCase):
    STAGES = ("  - {name: a, matrix: {x: [%s]}, run: 'echo ${matrix.x}%s'}",
              "  - {name: z, needs: a, run: 'echo \"${a.result}\" >> out; test -e ok', max_attempts: 1}")

    def results(self, before, after, extra="", each=None):
        """What the last stage sees after an edit of the matrix."""
        def write(values):
            stages = (self.STAGES[0] % (values, extra), *([each] if each else []), self.STAGES[1])
            text = spec("stages:", *stages)
            self.write("w.yaml", text.replace("${a.result}\" >> out", "${b.result}\" >> out").replace("needs: a, run: 'echo \"${b",
                       "needs: b, run: 'echo \"${b") if each else text)
        write(before)
        self.assertNotEqual(self.rota("run", "w.yaml").returncode, 0)
        write(after)
        os.remove(self.path("out"))
        self.write("ok", "")
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(self.read("out"))

    # C-1: the position of a task is an input of those that refer to it.
    def test_a_task_that_refers_to_its_position_runs_again(self):
        self.assertEqual(self.results("1, 2, 3", "3, 1, 2", "${task.index}"), [30, 11, 22])

    # C-1, Y-3: the counterparts of a task are its inputs.
    def test_equal_counterparts_that_disappear(self):
        each = "  - {name: b, needs: [{stage: a, each: [x]}], matrix: {x: [1, 2, 3]}, run: 'echo \"${a.result}\"'}"
        self.assertEqual(self.results("1, 2, 3, 1", "1, 2, 3", each=each), [1, 2, 3])


class Limits(RunCase):
    # Y-5: at most so many tasks of a stage run at once.
    def test_parallel(self):
        self.write("w.yaml", stages("{name: a, parallel: 2, matrix: {i: [%s]}, max_attempts: 1, run: 'mkdir lock$ROTA_TASK; "
                                    "ls -d lock* | wc -l >> counts; sleep 0.05; rmdir lock$ROTA_TASK'}" %
                                    ", ".join(str(i) for i in range(12))))
        done = self.rota("run", "w.yaml", "--jobs", "8")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        counts = [int(word) for word in self.read("counts").split()]
        self.assertEqual(len(counts), 12)
        self.assertLessEqual(max(counts), 2)

    # Y-5: a deadline for the whole workflow.
    def test_deadline(self):
        self.write("w.yaml", spec("deadline: 200ms", "stages:", "  - {name: a, run: sleep 60}"))
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 6, done.stdout + done.stderr)
        self.assertIn("the deadline of the workflow has passed", done.stdout + done.stderr)
        self.assert_nothing_runs()

    # Y-5: fail_fast cancels what runs; --keep-going overrides it.
    def test_fail_fast(self):
        self.write("w.yaml", spec("fail_fast: true", "graph:",
                                  "  a: {run: 'until [ -e begun ]; do sleep 0.02; done; exit 1', max_attempts: 1}",
                                  "  b: {run: 'touch begun; until [ -e go ]; do sleep 0.02; done; touch done'}"))
        done = self.rota("run", "w.yaml", "--jobs", "2")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertFalse(os.path.exists(self.path("done")))
        self.write("go", "")
        self.assertEqual(self.rota("run", "w.yaml", "--keep-going").returncode, 1)
        self.assertTrue(os.path.exists(self.path("done")))

    # Y-5: a stage that runs after a failure, and finally, run in a workflow that fail_fast or a deadline stops.
    def test_stopped_workflows_end_properly(self):
        end = ["finally:", "  - {name: tell, run: 'echo ${workflow.state} >> end'}"]
        self.write("w.yaml", spec("fail_fast: true", "graph:",
                                  "  a: {run: 'until [ -e begun ]; do sleep 0.02; done; exit 1', max_attempts: 1}",
                                  "  b: {run: 'touch begun; sleep 60'}",
                                  "  c: {needs: a, when: failure, run: 'echo ${a.state} > mended'}", *end))
        done = self.rota("run", "w.yaml", "--jobs", "2")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual((self.read("mended"), self.read("end")), ("failed\n", "failed\n"))
        self.assertIn("fail_fast", self.rota("explain", "w.yaml", "b").stdout)
        self.write("w.yaml", spec("deadline: 200ms", "stages:", "  - {name: a, run: sleep 60}", *end))
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 6, done.stdout + done.stderr)
        self.assertEqual(self.read("end"), "failed\ncancelled\n")
        self.assertIn("deadline", self.rota("explain", "w.yaml", "a").stdout)
        self.assertEqual(self.rota("replay", "w.yaml").returncode, 0)


class End(RunCase):
    FILE = ["graph:", "  a: {run: 'echo out; echo because >&2; exit 3', max_attempts: 1}", "  b: {needs: a, run: echo b >> ran}",
            "  mend: {needs: a, when: failure, run: 'echo mend ${a.state} >> ran'}",
            "  log: {needs: a, when: always, run: echo log >> ran}",
            "finally:", "  - {name: clean, run: 'echo clean ${workflow.state} ${b.state} >> ran'}",
            "  - {name: cheer, when: success, run: echo cheer >> ran}"]

    # Y-4: what runs after a failure; a second run retries the failure and runs the end again.
    def test_failure_and_retry(self):
        self.write("w.yaml", spec(*self.FILE))
        done = self.rota("run", "w.yaml", "--jobs", "1", "--json")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(sorted(self.read("ran").splitlines()[:2]), ["log", "mend failed"])
        self.assertEqual(self.read("ran").splitlines()[2:], ["clean failed cancelled"])
        states = {task["name"]: task["state"] for task in self.summary(done)["tasks"]}
        self.assertEqual(states, {"a": "failed", "b": "cancelled", "mend": "succeeded", "log": "succeeded",
                                  "clean": "succeeded", "cheer": "skipped"})
        self.assertIn("it runs on success", self.rota("explain", "w.yaml", "cheer").stdout)
        self.assertEqual(self.rota("replay", "w.yaml").returncode, 0)
        again = self.rota("run", "w.yaml", "--jobs", "1")
        self.assertIn("resuming wf-1: 0 of 6 tasks already done", again.stdout)
        self.assertEqual(self.read("ran").splitlines()[-1], "clean failed cancelled")
        self.assertEqual(len(self.read("ran").splitlines()), 6)
        # After an edit that repairs it.
        self.write("ran", "")
        self.write("w.yaml", spec("graph:", "  a: {run: 'true'}", *self.FILE[2:]))
        done = self.rota("run", "w.yaml", "--jobs", "1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(sorted(self.read("ran").splitlines()[:2]), ["b", "log"])
        self.assertEqual(self.read("ran").splitlines()[2:], ["clean succeeded succeeded", "cheer"])

    # Y-4: Ctrl-C stops the tasks and runs finally; the next run resumes the rest.
    def test_interrupt(self):
        self.write("w.yaml", spec("stages:", "  - {name: a, run: 'touch begun; [ -e go ] || sleep 60'}",
                                  "finally:", "  - {name: clean, run: 'echo ${workflow.state} ${a.state} >> end'}"))
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: os.path.exists(self.path("begun")))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(LIMIT_S), 7)
        self.assertIn("then finally runs", process.stdout.read())
        self.assertEqual(self.read("end"), "cancelled cancelled\n")
        self.write("go", "")
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.read("end"), "cancelled cancelled\nsucceeded succeeded\n")
        self.assert_nothing_runs()

    # Y-4: a second Ctrl-C exits at once, without finally; the next run goes on with the tasks.
    def test_interrupt_twice(self):
        self.write("w.yaml", spec("stages:", "  - {name: a, run: 'trap \"touch asked\" TERM; touch begun; "
                                  "until [ -e go ]; do sleep 0.02; done'}",
                                  "finally:", "  - {name: clean, run: 'echo ${workflow.state} >> end'}"))
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: os.path.exists(self.path("begun")))
        process.send_signal(signal.SIGINT)
        self.wait_for(lambda: os.path.exists(self.path("asked")))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(LIMIT_S), 7)
        self.assertEqual(self.read("end"), "")
        self.assert_nothing_runs()
        self.write("go", "")
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.read("end"), "succeeded\n")

    # Y-4: the graph, partial runs, and mistakes with their positions.
    def test_graph_and_mistakes(self):
        self.write("w.yaml", spec(*self.FILE))
        self.assertEqual(self.rota("graph", "w.yaml").stdout.splitlines(),
                         ["a", "b <- a", "mend (on failure) <- a", "log (always) <- a",
                          "clean (finally) <- b, mend, log", "cheer (finally, on success) <- clean"])
        self.assertEqual(self.rota("run", "w.yaml", "--until", "log").returncode, 1)
        self.assertEqual(self.read("ran"), "log\n")
        self.assertIn("a stage of finally", self.rota("run", "w.yaml", "--only", "clean").stderr)
        self.write("w.yaml", spec("stages:", "  - {name: a, when: failure, run: 'true'}",
                                  "  - {name: b, when: fialure, run: 'echo ${workflow.state} ${z.state}', needs: z}",
                                  "finally:", "  - {name: z, needs: a, run: 'true'}"))
        errors = self.rota("validate", "w.yaml").stderr
        self.assertIn("w.yaml:4:23: when is about the stages that a stage needs, and this one needs none", errors)
        self.assertIn("w.yaml:5:23: when is 'fialure'; it must be success, failure or always; did you mean 'failure'?", errors)
        self.assertIn("'${workflow.state}' is known only in stages of finally", errors)
        self.assertIn("needs the stage 'z', which is in finally and runs after all others", errors)
        self.assertIn("refers to the stage 'z' of finally, which runs after 'b'", errors)
        self.assertIn("w.yaml:7:24: needs the stage 'a', but a stage of finally starts when", errors)


class ByItem(RunCase):
    FILE = ["stages:", "  - {name: map, matrix: {s: [x, y]}, max_attempts: 1, run: 'echo \\\"${matrix.s}1\\\"; "
            "[ ${matrix.s} = x ] || { until [ -e sorted.x ]; do sleep 0.02; done; [ -e fine ]; }'}",
            "  - {name: sort, needs: [{stage: map, each: [s]}], matrix: {s: [x, y]}, "
            "run: 'echo ${map.result} > sorted.${matrix.s}; echo 1'}",
            "  - {name: join, run: 'echo ${sort.result} > joined'}"]

    # Y-3: a task starts when its own counterpart is done, and gets its result: y is mapped only after x was sorted.
    def test_each(self):
        self.write("w.yaml", spec(*self.FILE))
        done = self.rota("run", "w.yaml", "--jobs", "2", "--json")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        states = {task["name"]: task["state"] for task in self.summary(done)["tasks"]}
        self.assertEqual(states, {"map[0]": "succeeded", "map[1]": "failed", "sort[0]": "succeeded",
                                  "sort[1]": "cancelled", "join": "cancelled"})
        self.assertEqual(self.read("sorted.x"), "x1\n")
        self.assertEqual(self.rota("replay", "w.yaml").returncode, 0)
        self.write("fine", "")
        done = self.rota("run", "w.yaml", "--jobs", "2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("resuming wf-1: 2 of 5 tasks already done", done.stdout)
        self.assertEqual((self.read("sorted.y"), self.read("joined")), ("y1\n", "[1,1]\n"))

    # Y-3: mistakes are reported with their positions.
    def test_mistakes(self):
        self.write("w.yaml", spec("graph:", "  map: {matrix: {sample: [x, y]}, run: 'true'}", "  one: {run: 'true'}",
                                  "  a: {needs: [{stage: map, each: [sampel]}], matrix: {sample: [x]}, run: 'true'}",
                                  "  b: {needs: {stage: map, each: sample}, matrix: {sample: [x, z]}, run: 'true'}",
                                  "  c: {needs: [{stage: one, each: [sample]}], matrix: {sample: [x]}, run: 'true'}",
                                  "  d: {needs: [{stage: mapp, eahc: [sample]}], run: 'true'}",
                                  "  e: {needs: [{each: [sample]}], run: 'true'}"))
        errors = self.rota("validate", "w.yaml").stderr
        self.assertIn("w.yaml:6:17: each has 'sampel', which the matrix of the stage 'map' does not have (it has sample); "
                      "did you mean 'sample'?", errors)
        self.assertIn("w.yaml:7:16: no task of the stage 'map' has the values of {\"sample\":\"z\"}", errors)
        self.assertIn("w.yaml:8:17: each compares values of the matrix, but the stage 'one' has none", errors)
        self.assertIn("needs a stage 'mapp' that does not exist; did you mean 'map'?", errors)
        self.assertIn("unknown key 'eahc' in an item of needs; did you mean 'each'?", errors)
        self.assertIn("an item of needs has no stage", errors)


class Values(RunCase):
    # Y-9: results in full up to the bound; a larger one fails the task with an explanation, and never becomes null.
    def test_large_results(self):
        self.write("w.yaml",
                   stages("{name: a, run: 'head -c 100000 /dev/zero | tr \"\\0\" x'}",
                          "{name: b, run: 'if [ -n \"$ROTA_INPUTS_FILE\" ]; then wc -c < \"$ROTA_INPUTS_FILE\" > size; "
                          "fi', inputs: {v: '${a.result}'}}"))
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(int(self.read("size")), 100000 + len('{"v":""}'))
        self.write("w.yaml", stages("{name: a, run: 'head -c 1100000 /dev/zero | tr \"\\0\" x', max_attempts: 1}"))
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 1)
        self.assertIn("which is the task's result, has more than 1048576 bytes", done.stdout)

    # Y-9: numbers are not rewritten, and a line of JSON that is nested deeply is text.
    def test_numbers_and_deep_lines(self):
        deep = "[" * 100 + "]" * 100
        self.write("w.yaml", stages("{name: a, run: 'echo \"[1e-4,0.10,1E5,1e400,12345678901234567890]\"'}",
                                    f"{{name: b, run: 'echo \"{deep}\"', inputs: {{x: 0.10, y: 1E5}}}}",
                                    "{name: c, needs: [a, b], run: 'printf \"%s\\n\" \"${a.result}\" \"${b.result}\" > out'}"))
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.read("out"), f"[1e-4,0.10,1E5,1e400,12345678901234567890]\n{deep}\n")

    # A reference in single quotes would reach the program as it is.
    def test_single_quotes(self):
        self.write("w.yaml", "apiVersion: rota/v1\nspec:\n  stages:\n    - {name: a, run: echo 1}\n    - name: b\n"
                   "      run: |\n        # don't mind the comment\n        echo \"it's ${a.result}\"\n"
                   "        echo 'the ${a.result}'\n")
        text = self.rota("validate", "w.yaml").stderr
        self.assertEqual(text.count("is in single quotes, where a shell replaces nothing"), 1, text)


class State(RunCase):
    # U-3, C-1: the state folder, with the environment of every task, is for its owner alone.
    def test_mode(self):
        self.write("w.yaml", stages("{name: a, run: echo hello, env: {SECRET: x}}"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 0)
        for name in [".rota/w.yaml", ".rota/w.yaml/logs"]:
            self.assertEqual(stat.S_IMODE(os.stat(self.path(name)).st_mode), 0o700, name)
        self.assertEqual(stat.S_IMODE(os.stat(self.path(".rota/w.yaml/ledger.db")).st_mode), 0o600)

    # C-1: a run whose state folder is deleted does not end as if it had been kept.
    def test_the_state_folder_is_deleted(self):
        self.write("w.yaml", stages("{name: a, run: 'touch begun; until [ -e go ]; do sleep 0.02; done'}",
                                    "{name: b, run: 'true'}"))
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: os.path.exists(self.path("begun")))
        os.rename(self.path(".rota/w.yaml"), self.path("away"))
        output, _ = process.communicate(timeout=LIMIT_S)
        self.write("go", "")
        self.assertEqual(process.returncode, 10, output)
        self.assertIn("was deleted or replaced while the workflow ran", output)
        self.assert_nothing_runs()

    # L-1, C-1: an empty ledger is not taken for a new one.
    def test_an_empty_ledger(self):
        self.write("w.yaml", stages("{name: a, run: echo a >> ran}", "{name: b, run: exit 1, max_attempts: 1}"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
        for name in os.listdir(self.path(".rota/w.yaml")):
            if name.startswith("ledger.db-"):
                os.unlink(self.path(".rota/w.yaml/" + name))
        self.write(".rota/w.yaml/ledger.db", "")
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 10, done.stdout + done.stderr)
        self.assertIn("has no bytes", done.stderr)
        self.assertEqual(self.read("ran"), "a\n")

    # With a link to a workflow file, programs run and the state lies where the link is.
    def test_a_link(self):
        os.mkdir(self.path("there"))
        os.mkdir(self.path("here"))
        self.write("there/w.yaml", stages("{name: a, run: pwd > out}"))
        os.symlink("../there/w.yaml", self.path("here/w.yaml"))
        self.assertEqual(self.rota("run", "here/w.yaml").returncode, 0)
        self.assertTrue(self.read("here/out").strip().endswith("/here"))
        self.assertTrue(os.path.exists(self.path("here/.rota/w.yaml/ledger.db")))
        self.assertFalse(os.path.exists(self.path("there/.rota")))

    # U-3: SIGHUP ends programs as SIGTERM does.
    def test_hangup(self):
        # A program under nohup ignores this signal, and so does this test if it was started in that way.
        former = signal.signal(signal.SIGHUP, signal.SIG_DFL)
        self.addCleanup(signal.signal, signal.SIGHUP, former)
        self.write("w.yaml", stages("{name: a, run: 'trap \"touch stopped; exit 1\" TERM; touch begun; "
                                    "while :; do sleep 0.02; done'}"))
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: os.path.exists(self.path("begun")))
        process.send_signal(signal.SIGHUP)
        output, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 7, output)
        self.assertTrue(os.path.exists(self.path("stopped")), output)


class Clean(RunCase):
    # C-1: old logs and runs are removed on request, and nothing of a run that is under way.
    def test_clean(self):
        self.write("w.yaml", stages("{name: a, run: echo hello}"))
        for _ in range(3):
            self.assertEqual(self.rota("run", "w.yaml").returncode, 0)
        logs = self.path(".rota/w.yaml/logs")
        self.assertEqual(len(os.listdir(logs)), 3)
        self.assertIn("would remove 2 logs", self.rota("clean", "--dry-run").stdout)
        self.assertEqual(len(os.listdir(logs)), 3)
        done = self.rota("clean", "w.yaml")
        self.assertIn("removed 2 logs of older runs, 12 bytes", done.stdout, done.stderr)
        self.assertEqual(len(os.listdir(logs)), 1)
        self.assertEqual(self.rota("logs", "w.yaml", "a").stdout, "hello\n")
        self.write("w.yaml", stages("{name: a, run: 'touch begun; until [ -e go ]; do sleep 0.02; done'}"))
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: os.path.exists(self.path("begun")))
        done = self.rota("clean", "w.yaml", "--all")
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        self.assertIn("is being run by process", done.stderr)
        self.write("go", "")
        process.communicate(timeout=LIMIT_S)
        self.assertEqual(self.rota("clean", "w.yaml", "--all").returncode, 0)
        self.assertFalse(os.path.exists(self.path(".rota/w.yaml")))


class Shortage(RunCase):
    # U-3: a shortage of descriptors is not a failure of tasks: they wait.
    def test_few_descriptors(self):
        self.write("w.yaml", stages("{name: a, run: 'ulimit -n; sleep 0.05', matrix: {i: [%s]}, max_attempts: 1}" %
                                    ", ".join(str(i) for i in range(150))))
        limited = ["bash", "-c", "ulimit -n 256; exec \"$0\" run w.yaml --jobs 100 --json", self.executable()]
        done = self.run_program(limited)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr)
        # The soft limit is raised for Rota alone.
        limited[2] = "ulimit -Sn 200; exec \"$0\" run w.yaml --jobs 100"
        done = self.run_program(limited)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr)
        logs = os.listdir(self.path(".rota/w.yaml/logs"))
        self.assertIn("200", {self.read(".rota/w.yaml/logs/" + name).strip() for name in logs})


if __name__ == "__main__":
    unittest.main()
