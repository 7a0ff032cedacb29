"""`rota status`, `logs`, `explain`, `trace`, `replay` and `completion`, as a user runs them: during a run and after it
(dev build)."""

import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from support import LIMIT_S, ROOT, ROTA, RunCase, graph, stages  # noqa: E402

# Runs until the file `go` exists.
HELD = "echo held; touch held; while [ ! -e go ]; do sleep 0.02; done; echo released"


class SubcommandCase(RunCase):
    def ok(self, *arguments):
        done = self.rota(*arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("\x1b", done.stdout + done.stderr, "no control characters in a pipe")
        return done.stdout

    def refused(self, status, *arguments):
        done = self.rota(*arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertTrue(done.stderr.startswith("rota: "), done.stderr)
        return done.stderr

    def status(self, *arguments):
        return json.loads(self.ok("status", "--json", *arguments))["runs"]

    def files(self, folder):
        found = {}
        for where, _, names in os.walk(self.path(folder)):
            for name in names:
                with open(os.path.join(where, name), "rb") as file:
                    found[os.path.relpath(os.path.join(where, name), self.folder)] = file.read()
        return found

    def start_held(self):
        """Starts a run whose task `held` runs until the file `go` exists."""
        self.write("w.yaml", graph("first: {run: echo one; echo two}", f"held: {{needs: first, run: '{HELD}'}}",
                                   "last: {needs: held, run: echo the end}"))
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: os.path.exists(self.path("held")))
        return process

    def release(self, process):
        self.write("go", "")
        output, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 0, output)


class WhileItRuns(SubcommandCase):
    # C-2: a run can be inspected from another terminal without disturbing it.
    def test_status_logs_explain_trace_and_replay(self):
        process = self.start_held()
        table = self.ok("status")
        self.assertRegex(table, r"w\.yaml +wf-1 w +running ")
        self.assertRegex(table, r"held +running +1 ")
        self.assertIn("running now:\n  held on local since ", table)
        self.assertIn(f"It is run by process {process.pid} (rota)", table)
        (run,) = self.status("w.yaml")
        self.assertTrue(run["in_use"])
        self.assertEqual(run["workflows"][0]["outcome"], "running")
        self.assertEqual(run["workflows"][0]["counts"], {"running": 1, "succeeded": 1, "queued": 1})
        self.assertEqual([task["state"] for task in run["workflows"][0]["tasks"]], ["succeeded", "running", "queued"])

        self.assertEqual(self.ok("logs", "first"), "one\ntwo\n")
        self.wait_for(lambda: self.rota("logs", "held").stdout == "held\n")
        done = self.rota("logs", "w.yaml", "last")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("last has not run: wf-1.2 (last) waits for 1 stage", done.stderr)
        self.assertIn("runs on 'local'", self.ok("explain", "held"))
        self.assertIn("waits for 1 stage that has not succeeded: held", self.ok("explain", "w.yaml", "last"))
        self.assertIn("Verified", self.ok("replay"))
        slices = [event for event in json.loads(self.ok("trace"))["traceEvents"] if event["ph"] == "X"]
        self.assertEqual([(each["name"], each["args"]["outcome"]) for each in slices],
                         [("first", "succeeded"), ("held", "running")])
        self.release(process)
        self.assertRegex(self.ok("status"), r"w\.yaml +wf-1 w +succeeded ")
        # S-3: with another fleet.
        self.assertIn("other fleet", self.ok("replay", "w.yaml", "--fleet", "worker=local,count=2"))
        refused = self.rota("replay", "w.yaml", "--fleet", "worker=nobody")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("the log has no worker 'nobody'; it has local", refused.stderr)

    # C-2: --follow ends when the task ends.
    def test_follow(self):
        process = self.start_held()
        follower = self.start("logs", "held", "-f")
        self.assertEqual(follower.stdout.readline(), "held\n")
        everything = self.start("logs", "--follow", "--json")
        self.release(process)
        rest, _ = follower.communicate(timeout=LIMIT_S)
        self.assertEqual((follower.returncode, rest), (0, "released\n"))
        lines, _ = everything.communicate(timeout=LIMIT_S)
        self.assertEqual(everything.returncode, 0, lines)
        said = [json.loads(line) for line in lines.splitlines()]
        self.assertEqual([(each["name"], each["line"]) for each in said if "line" in each],
                         [("first", "one"), ("first", "two"), ("held", "held"), ("held", "released"),
                          ("last", "the end")])

    # C-1, C-2: after a kill the run is interrupted; inspecting it changes nothing, and it can be resumed.
    def test_after_a_kill(self):
        process = self.start_held()
        self.wait_for(lambda: self.rota("logs", "held").stdout == "held\n")  # Output that has not reached the log yet is lost in a kill.
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = self.files(".rota")
        self.assertIn(".rota/w.yaml/ledger.db-wal", before, "reading does not checkpoint the write-ahead log")
        self.assertRegex(self.ok("status"), r"w\.yaml +wf-1 w +interrupted ")
        self.assertIn("No process runs it now; `rota run` resumes it.", self.ok("status", "w.yaml"))
        done = self.rota("logs", "held", "-f")
        self.assertEqual((done.returncode, done.stdout), (0, "held\n"))
        self.assertIn("no process runs it now; `rota run` resumes it", done.stderr)
        self.ok("explain", "held")
        self.ok("trace")
        self.ok("replay")
        self.assertEqual(self.files(".rota"), before)
        self.write("go", "")
        self.assertEqual(self.rota("run", "w.yaml").returncode, 0)
        self.assertEqual(self.status()[0]["workflows"][0]["outcome"], "succeeded")

    # Processes that read the ledger do not prevent a run from starting.
    def test_readers_do_not_prevent_a_run_from_starting(self):
        self.write("w.yaml", stages("{name: a, run: 'true'}"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 0)
        readers = [subprocess.Popen(["bash", "-c", f"while :; do {ROTA} status > /dev/null 2> said || exit; done"],
                                    cwd=self.folder, env=self.environment) for _ in range(2)]
        for reader in readers:
            self.addCleanup(reader.wait)
            self.addCleanup(reader.kill)
        for _ in range(5):
            done = self.rota("run", "w.yaml")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for reader in readers:
            self.assertIsNone(reader.poll(), "a reader has failed: " + self.read("said"))


class Status(SubcommandCase):
    def test_nothing_there(self):
        self.assertIn("nothing was run in this folder", self.refused(3, "status"))
        self.assertIn("`rota run FILE` creates one", self.refused(3, "status", "."))
        self.assertIn("No such file or folder", self.refused(3, "status", "w.yaml"))
        self.write("w.yaml", stages("{name: a, run: 'true'}"))
        self.assertIn("has not been run", self.refused(3, "status", "w.yaml"))
        for verb in ("logs", "trace", "replay"):
            self.refused(3, verb)
        self.refused(3, "explain", "a")
        self.assertFalse(os.path.exists(self.path(".rota")), "nothing is created")

    # C-2: WHERE as a file, a state folder, or a folder that contains .rota/; several workflows; older runs.
    def test_all_the_ways_to_name_it(self):
        self.write("a.yaml", stages("{name: x, run: 'true'}"))
        self.write("b.yaml", stages("{name: y, run: exit 1, max_attempts: 1}"))
        for _ in range(2):
            self.assertEqual(self.rota("run", "a.yaml").returncode, 0)
        self.assertEqual(self.rota("run", "b.yaml").returncode, 1)
        self.assertEqual(self.rota("run", "a.yaml", "--state", "elsewhere").returncode, 0)
        self.assertEqual([run["name"] for run in self.status()], ["b.yaml", "a.yaml"], "the latest first")
        for where in ("a.yaml", ".rota/a.yaml", ".rota/a.yaml/ledger.db", "./a.yaml"):
            (run,) = self.status(where)
            self.assertEqual([each["workflow"] for each in run["workflows"]], ["wf-2"], where)
            self.assertEqual([task["name"] for task in run["workflows"][0]["tasks"]], ["x"], where)
        (run,) = self.status("--all", "a.yaml")
        self.assertEqual([each["workflow"] for each in run["workflows"]], ["wf-2", "wf-1"])
        self.assertIn("1 older run not shown; --all shows all runs.", self.ok("status", "a.yaml"))
        table = self.ok("status")
        self.assertRegex(table, r"a\.yaml +wf-2 a +succeeded .* 1 succeeded")
        self.assertRegex(table, r"b\.yaml +wf-1 b +failed .* 1 failed")
        self.assertEqual(len(self.status("elsewhere")), 1)
        # The state of a run remains after its file was removed.
        os.remove(self.path("a.yaml"))
        self.assertEqual(self.status("a.yaml")[0]["name"], "a.yaml")
        # Of several runs the latest is used, and a note says so.
        done = self.rota("explain", "y")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("using the latest of 2 runs here, that of b.yaml", done.stderr)

    def test_a_damaged_ledger(self):
        self.write("a.yaml", stages("{name: x, run: 'true'}"))
        self.write("b.yaml", stages("{name: x, run: 'true'}"))
        for name in ("a.yaml", "b.yaml"):
            self.assertEqual(self.rota("run", name).returncode, 0)
        ledger = self.path(".rota/a.yaml/ledger.db")
        with open(ledger, "r+b") as file:
            text = file.read()
            at = text.rindex(b"true")  # In the record of the submission.
            file.seek(at)
            file.write(b"fals")
        self.refused(10, "status", "a.yaml")
        done = self.rota("status")
        self.assertEqual(done.returncode, 10, done.stdout)
        self.assertRegex(done.stdout, r"a\.yaml +- +unreadable ")
        self.assertRegex(done.stdout, r"b\.yaml +wf-1 b +succeeded ")


class Logs(SubcommandCase):
    def run_three(self):
        self.write("w.yaml", graph("a: {run: printf \"one\\ntwo\\nthree\\n\"}",
                                   "b: {matrix: {i: [x, y]}, run: 'echo ${matrix.i}'}",
                                   "c: {run: 'echo try $ROTA_ATTEMPT; exit 1', max_attempts: 2}",
                                   "d: {run: 'true'}", "e: {needs: a, condition: '1 == 2', run: echo never}"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)

    # C-2: tasks by name, id, stage, attempt and outcome.
    def test_which(self):
        self.run_three()
        self.assertEqual(self.ok("logs", "a"), "one\ntwo\nthree\n")
        self.assertEqual(self.ok("logs", "wf-1.0"), "one\ntwo\nthree\n")
        self.assertEqual(self.ok("logs", "w/a", "--tail", "2"), "two\nthree\n")
        self.assertEqual(self.ok("logs", "a", "--tail", "0"), "")
        self.assertEqual(self.ok("logs", "b"), "b[0] | x\nb[1] | y\n")
        self.assertEqual(self.ok("logs", "w.yaml", "b[1]", "a", "--tail", "1"), "b[1] | y\na | three\n")
        self.assertEqual(self.ok("logs", "c"), "try 2\n")
        self.assertEqual(self.ok("logs", "c", "--attempt", "1"), "try 1\n")
        self.assertEqual(self.ok("logs", "--failed"), "try 2\n")
        self.assertEqual(self.ok("logs").splitlines(),
                         ["a | one", "a | two", "a | three", "b[0] | x", "b[1] | y", "c | try 2"])
        path = self.ok("logs", "c", "--path").strip()
        with open(os.path.join(self.folder, path), encoding="utf-8") as file:
            self.assertEqual(file.read(), "try 2\n")
        lines = [json.loads(line) for line in self.ok("logs", "b", "--json").splitlines()]
        self.assertEqual(lines[1], {"task": "wf-1.2", "name": "b[1]", "attempt": 1, "line": "y"})

    # C-2: if there is no log, a note says why.
    def test_none(self):
        self.run_three()
        self.assertIn("attempt 1 of d wrote nothing", self.rota("logs", "d").stderr)
        self.assertIn("was skipped: its condition does not hold", self.rota("logs", "e").stderr)
        self.assertIn("did you mean", self.refused(3, "logs", "aa"))
        self.assertIn("it has had 2", self.refused(3, "logs", "c", "--attempt", "3"))
        self.assertIn("none of these tasks has failed", self.refused(3, "logs", "a", "--failed"))
        self.assertEqual(self.rota("logs", "a", "--attempt", "0").returncode, 2)
        self.assertEqual(self.rota("logs", "a", "--tail", "-1").returncode, 2)


class Trace(SubcommandCase):
    # C-2: slices of one track do not overlap, arrows go forward in time, and there are counters.
    def test_a_run(self):
        # The first two tasks of b wait for each other, so that they run at the same time.
        self.write("w.yaml", graph("a: {run: sleep 0.05}",
                                   "b: {needs: a, matrix: {i: [1, 2, 3, 4]}, run: 'touch here-${matrix.i}; "
                                   "while [ $(ls -d here-* | wc -l) -lt 2 ]; do sleep 0.01; done'}",
                                   "c: {needs: [a, b], run: 'test $ROTA_ATTEMPT = 2', max_attempts: 2}"))
        self.assertEqual(self.rota("run", "w.yaml", "--jobs", "2").returncode, 0)
        self.assertIn("t.json: 7 slices", self.ok("trace", "-o", "t.json"))
        events = json.loads(self.read("t.json"))["traceEvents"]
        slices = [event for event in events if event["ph"] == "X"]
        self.assertEqual(sorted(each["name"] for each in slices), ["a", "b[0]", "b[1]", "b[2]", "b[3]", "c", "c"])
        names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        self.assertEqual(set(names.values()), {"local", "local (2)"})
        for track in names:
            ends = 0
            for each in sorted((each for each in slices if each["tid"] == track), key=lambda each: each["ts"]):
                self.assertGreaterEqual(each["ts"] + 0.001, ends)
                ends = each["ts"] + each["dur"]
        self.assertEqual([each["args"]["outcome"] for each in slices if each["name"] == "c"],
                         ["requeued: failed", "succeeded"])
        last = next(each for each in slices if each["name"] == "c")
        self.assertEqual(last["args"]["needs"], ["a", "b"])
        self.assertIn("worker 'local'", last["args"]["why"])
        self.assertIn("wait_ns", last["args"])
        starts = {event["id"]: event["ts"] for event in events if event["ph"] == "s"}
        ends = {event["id"]: event["ts"] for event in events if event["ph"] == "f"}
        self.assertEqual(set(starts), set(ends))
        self.assertEqual(len(starts), 4 + 2)
        for arrow, at in starts.items():
            self.assertLessEqual(at, ends[arrow])
        self.assertEqual({event["name"] for event in events if event["ph"] == "C"}, {"ready tasks", "running tasks"})

    def test_what_cannot_be_written(self):
        self.write("w.yaml", stages("{name: a, run: 'true'}"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 0)
        self.assertIn("could not be written", self.refused(10, "trace", "-o", "no/such/folder.json"))


class Small(SubcommandCase):
    # C-2: --json of the subcommands that only read a file.
    def test_json(self):
        self.write("w.yaml", graph("a: {run: 'true'}", "b: {needs: a, matrix: {i: [1, 2]}, run: 'true'}"))
        self.assertEqual(json.loads(self.ok("validate", "w.yaml", "--json")),
                         {"file": "w.yaml", "valid": True, "name": "w", "stages": 2, "tasks": 3})
        self.assertEqual(json.loads(self.ok("graph", "w.yaml", "--json"))["stages"][1],
                         {"name": "b", "tasks": 2, "needs": ["a"]})
        self.assertIn("version", json.loads(self.ok("version", "--json")))
        self.write("bad.yaml", graph("a: {runs: 'true'}"))
        done = self.rota("validate", "bad.yaml", "--json")
        self.assertEqual(done.returncode, 2)
        problems = json.loads(done.stdout)
        self.assertFalse(problems["valid"])
        self.assertIn("bad.yaml:4:", problems["problems"][0])

    # C-2: every row measures something, and leaves nothing behind.
    def test_bench(self):
        figures = {each["name"]: each for each in json.loads(self.ok("bench", "--quick", "--json"))["benchmarks"]}
        self.assertEqual(list(figures), ["switch", "spawn", "sync", "record", "group", "decision", "process", "task"])
        for each in figures.values():
            self.assertGreater(each["ns"], 0, each)
            self.assertGreater(each["per_second"], 0, each)
        self.assertEqual(os.listdir(self.folder), [])
        self.assertIn("a decision about 100 workers", self.ok("bench", "--quick", "decision"))
        self.assertIn("there is no row 'synk'; did you mean 'sync'? The rows are switch,", self.refused(2, "bench", "synk"))
        self.assertIn("choose another folder with --dir", self.refused(10, "bench", "--quick", "sync", "--dir", "no/such"))

    def test_an_unknown_subcommand(self):
        self.assertIn("unknown command 'statsu'; did you mean 'status'?", self.refused(2, "statsu"))


class Completion(SubcommandCase):
    def complete(self, *words):
        """The words that bash offers as completions of the last word."""
        quoted = " ".join("'" + word + "'" for word in words)
        script = (f"source <('{ROTA}' completion bash)\nCOMP_WORDS=({quoted})\nCOMP_CWORD={len(words) - 1}\n_rota\n"
                  'for word in "${COMPREPLY[@]}"; do printf "%s\\n" "$word"; done\n')
        done = subprocess.run(["bash", "--norc", "-c", script], cwd=self.folder, capture_output=True, text=True,
                              check=False, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    # C-2: bash completes subcommands, options, values and files.
    def test_bash(self):
        self.write("a b.yaml", "")
        os.mkdir(self.path("folder"))
        self.assertEqual(self.complete("rota", "st"), ["status"])
        self.assertEqual(self.complete("rota", "rep"), ["replay"])
        self.assertIn("completion", self.complete("rota", ""))
        self.assertNotIn("help-page", self.complete("rota", ""))
        self.assertEqual(self.complete("rota", "logs", "--f"), ["--follow", "--failed"])
        self.assertEqual(self.complete("rota", "run", "w.yaml", "--durability", ""), ["full", "relaxed"])
        self.assertEqual(self.complete("rota", "graph", "--format", "=", "m"), ["mermaid"])
        self.assertEqual(self.complete("rota", "graph", "--format", "="), ["text", "mermaid", "dot", "json"])
        self.assertEqual(self.complete("rota", "run", "a"), ["a b.yaml"])
        self.assertEqual(self.complete("rota", "run", "--state", ""), ["folder"])
        self.assertEqual(self.complete("rota", "logs", "--tail", ""), [])
        self.assertEqual(self.complete("rota", "completion", "z"), ["zsh"])

    def check_syntax(self, shell, *command):
        if shutil.which(shell) is None:
            self.skipTest(f"{shell} is not installed")
        self.write("script", self.ok("completion", shell))
        done = subprocess.run([*command, self.path("script")], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_bash_syntax(self):
        self.check_syntax("bash", "bash", "-n")

    def test_zsh_syntax(self):
        self.check_syntax("zsh", "zsh", "-n")

    def test_fish_syntax(self):
        self.check_syntax("fish", "fish", "--no-execute")

    def test_an_unknown_shell(self):
        self.assertEqual(self.rota("completion", "tcsh").returncode, 2)


class ManPage(SubcommandCase):
    # groff formats the man page without warnings.
    def test_no_warnings(self):
        page = os.path.join(ROOT, "docs", "man", "rota.1")
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed")
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", page], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("success", done.stdout)


if __name__ == "__main__":
    unittest.main()
