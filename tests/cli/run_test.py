"""`rota run`, `config`, `graph`, `validate` and `version`, as a user runs them (dev build)."""

import json
import os
import signal
import stat
import unittest

from support import LIMIT_S, ROOT, RunCase, graph, stages


class Run(RunCase):
    # C-1: with nothing else installed or started; the table has tasks, attempts, times, critical path.
    def test_hello(self):
        done = self.rota("run", os.path.join(ROOT, "examples", "hello.yaml"), "--state", self.path("state"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("hello succeeded", done.stdout)
        self.assertIn("critical path", done.stdout)
        self.assertIn("retry    flaky", done.stdout)
        self.assertRegex(done.stdout, r"celebrate +skipped +0 ")
        self.assertRegex(done.stdout, r"flaky +succeeded +2 ")
        self.assertIn("letters: [6,5,6,7]; attempts: 2; open files: 64", done.stdout)
        self.assertIn("Try next", done.stdout)
        self.assertNotIn("\x1b", done.stdout, "no control characters in a pipe")

    # C-1: a failure is shown with the last lines of its log and the path of the log; tasks that need it are cancelled.
    def test_a_failing_task(self):
        self.write("w.yaml", stages("{name: a, run: echo fine}", "{name: b, run: echo oh no >&2; exit 3, max_attempts: 2}",
                                    "{name: c, run: touch never}"))
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("b failed: exit status 3; its last words: oh no", done.stdout)
        log = next(line for line in done.stdout.splitlines() if "full log:" in line).split(": ", 1)[1]
        with open(log, encoding="utf-8") as file:
            self.assertEqual(file.read(), "oh no\n")
        self.assertRegex(done.stdout, r"c +cancelled +0 ")
        self.assertFalse(os.path.exists(self.path("never")))

    # C-1: a second run resumes: tasks that succeeded are not run again.
    def test_a_second_run_resumes(self):
        self.write("w.yaml", stages("{name: a, run: echo a >> ran}", "{name: b, run: test -e there, max_attempts: 1}",
                                    "{name: c, run: echo c >> ran}"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
        self.write("there", "")
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("resuming wf-1: 1 of 3 tasks already done", done.stdout)
        self.assertEqual(self.read("ran"), "a\nc\n")
        # After a success it is a new run.
        self.assertEqual(self.rota("run", "w.yaml").returncode, 0)
        self.assertEqual(self.read("ran"), "a\nc\na\nc\n")

    def test_fresh_and_changed_files_start_a_new_run(self):
        self.write("w.yaml", stages("{name: a, run: echo a >> ran}", "{name: b, run: exit 1, max_attempts: 1}"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 1)
        self.assertEqual(self.rota("run", "w.yaml", "--fresh").returncode, 1)
        self.assertEqual(self.read("ran"), "a\na\n")
        # What is unchanged keeps its result (everyday_test.py).
        self.write("w.yaml", stages("{name: a, run: echo a >> ran}", "{name: b, run: echo b >> ran}"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 0)
        self.assertEqual(self.read("ran"), "a\na\nb\n")

    # C-1: Ctrl-C ends the running programs, and the exit status says so; a second run resumes.
    def test_interrupt(self):
        self.write("w.yaml", graph("a: {run: echo a >> ran}",
                                   "b: {needs: a, run: 'if [ -e stopped ]; then exit 0; fi; "
                                   "trap \"touch stopped; exit 1\" TERM; echo $$ > pid; while :; do sleep 0.05; done'}"))
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: self.read("pid").strip())
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 7, output)
        self.assertIn("w cancelled", output)
        self.assertTrue(os.path.exists(self.path("stopped")), output)
        self.wait_for(lambda: not os.path.exists("/proc/" + self.read("pid").strip()), "the program runs on")
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.read("ran"), "a\n")

    # C-1: a second Ctrl-C does not wait for a program that ignores TERM.
    def test_interrupt_twice(self):
        self.write("w.yaml", graph("a: {run: 'trap \"\" TERM; echo $$ > pid; while :; do sleep 0.05; done'}"))
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: self.read("pid").strip())
        process.send_signal(signal.SIGINT)
        for line in process.stdout:
            if "cancelling" in line:
                break
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=LIMIT_S), 7)
        pid = self.read("pid").strip()
        self.wait_for(lambda: not os.path.exists("/proc/" + pid))

    def test_a_missing_program(self):
        self.write("w.yaml", stages("{name: a, run: [/no/such/program], max_attempts: 1}"))
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no file '/no/such/program'", done.stdout)

    def test_much_output_is_bounded(self):
        self.write("w.yaml", stages("{name: loud, run: yes | head -c 30000000}"))
        done = self.rota("run", "w.yaml", "--state", "state")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        size = sum(os.path.getsize(os.path.join(self.path("state/logs"), name)) for name in os.listdir(self.path("state/logs")))
        self.assertGreater(size, 0)
        self.assertLess(size, 5_000_000)

    # A stage that no worker could ever run fails with a message instead of waiting for ever.
    def test_more_than_there_is(self):
        self.write("w.yaml", stages("{name: big, run: echo x, resources: {hardware: {gpu: {count: 8, memory: 900GiB}}}}"))
        done = self.rota("run", "w.yaml", env={"TASK_NO_WORKER_GRACE_SEC": "0"})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("gpu", done.stdout)

    # `--workers`: workers of given sizes; the report then has a cost.
    def test_a_fleet_of_its_own(self):
        self.write("fleet.yaml", "workers:\n  - {name: w, count: 3, cpu: 1, memory: 1GiB, cost_per_hour: 3600}\n")
        self.write("w.yaml", "apiVersion: rota/v1\nspec:\n  stages:\n    - {name: t, matrix: {i: [1, 2, 3]}, run: sleep 0.3}\n")
        done = self.rota("run", "w.yaml", "--workers", "fleet.yaml", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = self.summary(done)
        self.assertEqual({task["worker"] for task in report["tasks"]}, {"w-1", "w-2", "w-3"})
        self.assertGreaterEqual(report["cost_microdollars"], 3 * 300_000)

    # B-8: workers register in the order of the file, which first_fit shows; it is neither that of their names nor reversed.
    def test_workers_register_in_the_order_of_the_file(self):
        self.write("fleet.yaml", "workers:\n" + "".join(f"  - {{name: {name}, cpu: 1, memory: 1GiB}}\n"
                                                         for name in ("mid", "zeta", "alpha")))
        self.write("w.yaml", stages("{name: a, run: echo 1}"))
        done = self.rota("run", "w.yaml", "--workers", "fleet.yaml", "--json", env={"ORCHESTRATOR_WORKER_SELECTION": "first_fit"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([task["worker"] for task in self.summary(done)["tasks"]], ["mid"])

    # B-18: work that no worker of the file could ever run is reported before anything runs, by stage.
    def test_a_stage_that_no_worker_could_run_is_reported_before(self):
        self.write("fleet.yaml", "workers:\n  - {name: one, cpu: 1, memory: 1GiB}\n  - {name: two, cpu: 2, memory: 1GiB}\n")
        self.write("w.yaml", stages("{name: small, run: echo x}",
                                    "{name: large, run: echo x, resources: {hardware: {cpu: 3}}}"))
        for command in (("validate", "w.yaml", "--workers", "fleet.yaml"),
                        ("run", "w.yaml", "--workers", "fleet.yaml", "--dry-run")):
            with self.subTest(command=command):
                done = self.rota(*command)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("stage 'large': cpu: 3 needed, 2 available (worker 'two' comes nearest)", done.stderr)
                self.assertNotIn("'small'", done.stderr)

    def test_json_is_one_event_per_line(self):
        self.write("w.yaml", stages("{name: a, run: echo 1}"))
        done = self.rota("run", "w.yaml", "--json")
        self.assertEqual(done.returncode, 0)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        names = [line.get("event") for line in lines]
        for expected in ("WorkerRegistered", "WorkflowAccepted", "TaskAssigned", "TaskSucceeded", "WorkflowEnded", "Summary"):
            self.assertIn(expected, names)

    def test_dry_run_touches_nothing(self):
        self.write("w.yaml", stages("{name: a, run: touch ran}"))
        done = self.rota("run", "w.yaml", "--dry-run")
        self.assertEqual(done.returncode, 0)
        self.assertIn("nothing was run", done.stdout)
        self.assertEqual(os.listdir(self.folder), ["w.yaml"])

    # Bad input of every kind: the exit status of the table, and a message with the place.
    def test_bad_input(self):
        self.write("bad.yaml", stages("{nam: a, run: echo x}"))
        self.write("good.yaml", stages("{name: a, run: echo x}"))
        self.write("file", "")
        os.mkdir(self.path("closed"))
        os.chmod(self.path("closed"), stat.S_IRUSR | stat.S_IXUSR)
        for arguments, status, words in (
                (["run", "bad.yaml"], 2, "bad.yaml:4:8: unknown key 'nam' in a stage; did you mean 'name'?"),
                (["run", "nowhere.yaml"], 3, "nowhere.yaml"),
                (["run"], 2, "FILE is required"),
                (["run", "good.yaml", "--jobs", "0"], 2, "--jobs"),
                (["run", "good.yaml", "--durability", "maybe"], 2, "--durability"),
                (["run", "good.yaml", "--state", "file/x"], 10, "--state DIR"),
                (["run", "good.yaml", "--workers", "nowhere.yaml"], 3, "nowhere.yaml"),
                (["validate", "bad.yaml"], 2, "did you mean 'name'?"),
                (["vlidate", "x"], 2, "unknown command 'vlidate'; did you mean 'validate'?"),
        ):
            done = self.rota(*arguments)
            self.assertEqual(done.returncode, status, f"{arguments}: {done.stdout}{done.stderr}")
            self.assertIn(words, done.stdout + done.stderr)
        if os.getuid() != 0:
            done = self.rota("run", "good.yaml", "--state", "closed/x")
            self.assertEqual(done.returncode, 9, done.stderr)

    # Two runs of the same file at once: the second names the process that has the state folder.
    def test_two_at_once(self):
        self.write("w.yaml", stages("{name: a, run: 'touch began; while [ ! -e go ]; do sleep 0.02; done'}"))
        first = self.start("run", "w.yaml")
        self.wait_for(lambda: os.path.exists(self.path("began")))
        second = self.rota("run", "w.yaml")
        self.assertEqual(second.returncode, 4, second.stdout + second.stderr)
        self.assertIn(str(first.pid), second.stderr)
        self.write("go", "")
        first.communicate(timeout=LIMIT_S)
        self.assertEqual(first.returncode, 0)


class OtherSubcommands(RunCase):
    # H-4: each setting with its value and where it came from.
    def test_config(self):
        done = self.rota("config", env={"SCHEDULER_LAMBDA_OTHER": "0.75"})
        self.assertEqual(done.returncode, 0, done.stderr)
        line = next(line for line in done.stdout.splitlines() if "policy.lambda_other" in line)
        self.assertIn("0.75", line)
        self.assertIn("environment SCHEDULER_LAMBDA_OTHER", line)
        self.assertIn("default", next(line for line in done.stdout.splitlines() if "policy.mode" in line))
        bad = self.rota("config", env={"SCHEDULER_LAMBDA_OTHER": "7"})
        self.assertEqual(bad.returncode, 2)
        self.assertIn("SCHEDULER_LAMBDA_OTHER", bad.stderr)

    def test_graph_and_validate(self):
        self.write("w.yaml", graph("a: {run: ./a}", "b: {needs: a, run: ./b, matrix: {i: [1, 2]}}"))
        self.assertEqual(self.rota("graph", "w.yaml").stdout, "a\nb x2 <- a\n")
        self.assertIn("s0 --> s1", self.rota("graph", "w.yaml", "--format", "mermaid").stdout)
        self.assertIn("s0 -> s1;", self.rota("graph", "w.yaml", "--format", "dot").stdout)
        done = self.rota("validate", "w.yaml")
        self.assertEqual((done.returncode, done.stdout), (0, "w.yaml: 'w' is valid: 2 stages, 3 tasks\n"))

    def test_version_and_help(self):
        self.assertRegex(self.rota("version").stdout, r"^rota \d+\.\d+\.\d+\n$")
        self.assertEqual(self.rota("--help").returncode, 0)
        self.assertEqual(self.rota("run", "--help").returncode, 0)


if __name__ == "__main__":
    unittest.main()
