"""Faults around `rota run`, as its user sees them: each has a message and its exit status, and leaves no processes.

Goal: no fault is a crash, a hang or a silent success (C-1, L-2, U-3, U-4). Where one needs root or a tool, the test is
skipped and says so; what can be had without is tested without.
"""

import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import unittest

from support import LIMIT_S, ROTA, RunCase, graph, stages

NOBODY = 65534
MANY = "[" + ", ".join(str(i) for i in range(400)) + "]"


class FaultCase(RunCase):
    def ok_workflow(self, name="ok.yaml"):
        self.write(name, stages("{name: a, run: echo a >> ran}", "{name: b, run: echo b >> ran}"))

    def check(self, done, status, *words):
        """Checks the exit status and that the output contains the words; returns the output."""
        said = (done.stdout or "") + (done.stderr or "")
        self.assertEqual(done.returncode, status, said)
        for word in words:
            self.assertIn(word, said)
        return said


class Disk(FaultCase):
    def mount(self, *options):
        """Mounts a tmpfs; skips the test where that is not possible."""
        place = self.path("mounted")
        os.mkdir(place)
        if os.getuid() != 0:
            self.skipTest("only root may mount")
        done = subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", place], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skipTest("nothing can be mounted here: " + done.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", "-l", place], check=False)
        return place

    # If the disk fills up during a run, the run ends with a message; when there is room again, it can be resumed.
    def test_full_disk(self):
        place = self.mount("-o", "size=400k")
        self.write("w.yaml", stages("{name: t, matrix: {i: " + MANY + "}, run: head -c 20000 /dev/zero}", "{name: z, run: echo z}"))
        done = self.rota("run", "w.yaml", "--state", os.path.join(place, "state"))
        self.check(done, 5, "disk is full", "make room")
        self.assert_nothing_runs()
        subprocess.run(["mount", "-o", "remount,size=64m", place], check=True)
        done = self.rota("run", "w.yaml", "--state", os.path.join(place, "state"), "--json")
        self.check(done, 0)
        self.assertEqual({task["state"] for task in self.summary(done)["tasks"]}, {"succeeded"})
        self.check(self.rota("replay", os.path.join(place, "state")), 0, "Verified")

    def test_full_from_the_start(self):
        place = self.mount("-o", "size=8k")
        self.ok_workflow()
        self.check(self.rota("run", "ok.yaml", "--state", os.path.join(place, "state")), 5, "disk is full")

    def test_read_only(self):
        place = self.mount("-o", "ro,size=64k")
        self.ok_workflow()
        self.check(self.rota("run", "ok.yaml", "--state", os.path.join(place, "state")), 9, "Read-only", "--state DIR")

    # The same without a mount: the ledger reaches the size limit of the process (ulimit -f).
    def test_file_size_limit(self):
        # Results of 20 kB each. The guard's program, a file in memory, is smaller than the limit.
        self.write("w.yaml", stages("{name: t, matrix: {i: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], j: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}, "
                                    "run: 'head -c 20000 /dev/zero | tr \"\\0\" x'}", "{name: z, run: echo z}"))
        limit = 1_000_000
        done = self.rota("run", "w.yaml", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.check(done, 10, "ledger.db", "disk I/O error")
        self.assert_nothing_runs()
        self.check(self.rota("run", "w.yaml"), 0, "resuming wf-1: ")
        self.check(self.rota("replay", ".rota/w.yaml"), 0, "Verified")

    def test_unwritable_directory(self):
        if os.getuid() == 0 and shutil.which("setpriv") is None:
            self.skipTest("root may write everywhere, and there is no setpriv to be somebody else")
        as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.getuid() == 0 else []
        self.ok_workflow()
        os.makedirs(self.path("theirs/logs"))
        for path in ("theirs/logs", "theirs", ""):
            os.chmod(self.path(path), 0o555)
        self.addCleanup(os.chmod, self.folder, 0o755)
        self.addCleanup(os.chmod, self.path("theirs"), 0o755)
        if as_nobody and subprocess.run([*as_nobody, ROTA, "version"], capture_output=True, check=False).returncode != 0:
            self.skipTest("nobody may not run the command where it is built")
        for arguments in (["ok.yaml"], ["ok.yaml", "--state", "theirs/x"], ["ok.yaml", "--state", "theirs"]):
            done = subprocess.run([*as_nobody, ROTA, "run", *arguments], cwd=self.folder, capture_output=True, text=True,
                                  check=False, timeout=LIMIT_S)
            self.check(done, 9, "Permission denied", "--state DIR")


class Ledger(FaultCase):
    def setUp(self):
        super().setUp()
        self.ok_workflow()
        self.check(self.rota("run", "ok.yaml"), 0)
        self.ledger = self.path(".rota/ok.yaml/ledger.db")

    def both(self, status, *words):
        """`run` and `replay` report the problem, and leave the ledger unchanged."""
        with open(self.ledger, "rb") as file:
            before = file.read()
        self.check(self.rota("run", "ok.yaml"), status, *words, "to start from scratch, move", "--state DIR")
        self.check(self.rota("replay", ".rota/ok.yaml"), status, *words)
        with open(self.ledger, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_a_damaged_record(self):  # L-2
        with open(self.ledger, "r+b") as file:
            content = file.read()
            at = content.index(b"echo a >> ran")
            file.seek(at)
            file.write(b"echo b")
        self.both(10, "is damaged", "was not opened or changed")

    def test_a_truncated_file(self):
        os.truncate(self.ledger, 5000)
        self.both(10, "ledger.db", "malformed")

    def test_something_else(self):
        with open(self.ledger, "wb") as file:
            file.write(bytes(range(256)) * 40)
        self.check(self.rota("run", "ok.yaml"), 10, "not a database", "to start from scratch, move")

    def test_from_the_future(self):
        with sqlite3.connect(self.ledger) as database:
            database.execute("PRAGMA user_version = 99")
        database.close()
        self.both(2, "a ledger of format 99", "Use the version that wrote it")

    def test_in_use(self):
        self.write("w.yaml", stages("{name: a, run: 'touch began; while [ ! -e go ]; do sleep 0.02; done'}"))
        first = self.start("run", "w.yaml", "--state", "state")
        self.wait_for(lambda: os.path.exists(self.path("began")))
        self.check(self.rota("run", "ok.yaml", "--state", "state"), 4, str(first.pid))
        self.write("go", "")
        first.communicate(timeout=LIMIT_S)
        self.assertEqual(first.returncode, 0)


class Commands(FaultCase):
    # U-3: a missing program is reported by name.
    def test_missing_programs(self):
        self.write("w.yaml", graph("a: {run: [no-such-program-at-all], max_attempts: 1}",
                                   "b: {run: [./not-executable], max_attempts: 1}",
                                   "c: {run: no-such-program-at-all, max_attempts: 1}",
                                   "d: {run: [./no-interpreter], max_attempts: 1}",
                                   "e: {run: echo e, dir: nowhere, max_attempts: 1}"))
        self.write("not-executable", "#!/bin/sh\n")
        self.write("no-interpreter", "#!/no/such/shell\n")
        os.chmod(self.path("no-interpreter"), 0o755)
        self.check(self.rota("run", "w.yaml"), 1, "there is no program 'no-such-program-at-all' in PATH",
                   "may not be executed", "exit status 127", "the interpreter in its first line",
                   "cannot work in the directory")

    # U-3: the log on disk and the memory of the process are bounded.
    def test_a_gigabyte_of_output(self):
        self.write("w.yaml", stages("{name: loud, run: head -c 1000000000 /dev/zero; echo; echo end}"))
        runner = ("import resource, subprocess, sys\n"
                  "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
                  "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        done = subprocess.run([sys.executable, "-c", runner, ROTA, "run", "w.yaml"], cwd=self.folder, capture_output=True,
                              text=True, check=True, timeout=4 * LIMIT_S, env=self.environment)
        status, kilobytes = map(int, done.stdout.split())
        self.assertEqual(status, 0, done.stderr)
        self.assertLess(kilobytes, 200_000)
        logs = self.path(".rota/w.yaml/logs")
        self.assertLess(sum(os.path.getsize(os.path.join(logs, name)) for name in os.listdir(logs)), 2_000_000)

    # U-3: a program gets TERM and, after the grace period, KILL: after its timeout, and after Ctrl-C.
    def test_one_that_ignores_term(self):
        deaf = "trap \"\" TERM; echo $$ > pid-NAME; while :; do sleep 0.05; done"
        self.write("asked.yaml", stages("{name: deaf, run: '" + deaf.replace("NAME", "0") + "'}"))
        asked = self.start("run", "asked.yaml")
        self.wait_for(lambda: self.read("pid-0").strip())
        asked.send_signal(signal.SIGINT)
        # On a slow machine the limit may be over before the shell ignores TERM, and it then just ends: once more, with a longer one.
        for attempt, limit in enumerate(("200ms", "5s", "1m"), 1):
            self.write(f"limit-{attempt}.yaml", stages("{name: deaf, timeout: " + limit + ", max_attempts: 1, run: '" +
                                                       deaf.replace("NAME", str(attempt)) + "'}"))
            limited = self.rota("run", f"limit-{attempt}.yaml")
            self.assertEqual(limited.returncode, 1, limited.stdout + limited.stderr)
            self.assertIn(f"ran longer than its limit of {limit}", limited.stdout)
            if self.read(f"pid-{attempt}").strip():
                break
        self.assertIn(f"ran longer than its limit of {limit}; it ignored TERM and was killed", limited.stdout)
        said, _ = asked.communicate(timeout=LIMIT_S)
        self.assertEqual(asked.returncode, 7, said)
        self.assertIn("cancelling: running tasks get TERM, then KILL", said)
        self.assert_nothing_runs()

    # U-3, U-4: a daemon (setsid and a second fork) is killed when its task ends, and the user is told.
    def test_one_that_forks_a_daemon(self):
        self.write("w.yaml", graph(
            "d: {run: 'setsid sh -c \"(sleep 987 & echo \\$! > daemon)\"; while [ ! -s daemon ]; do sleep 0.01; done'}",
            "e: {needs: d, run: 'if kill -0 $(cat daemon) 2>/dev/null; then exit 1; fi; echo gone'}"))
        self.check(self.rota("run", "w.yaml"), 0, "note     d  exit status 0; it left 1 process behind, which was killed")
        self.assert_nothing_runs()

    # The same daemon when the run itself is killed.
    def test_a_daemon_when_the_run_is_killed(self):
        self.write("w.yaml", graph("d: {run: 'setsid sh -c \"(sleep 987 & echo \\$! > daemon)\"; sleep 987'}"))
        process = self.start("run", "w.yaml")
        self.wait_for(lambda: self.read("daemon").strip())
        process.kill()
        process.wait()
        self.assert_nothing_runs()

    def test_the_workflow_file_vanishes(self):
        self.write("w.yaml", stages("{name: a, run: rm w.yaml}", "{name: b, run: echo b >> ran}"))
        self.check(self.rota("run", "w.yaml"), 0)  # It was read once, at the start.
        self.assertEqual(self.read("ran"), "b\n")
        self.check(self.rota("run", "w.yaml"), 3, "w.yaml")

    def test_without_proc(self):
        if os.getuid() != 0 or shutil.which("unshare") is None:
            self.skipTest("only root may hide /proc, with unshare")
        self.write("w.yaml", stages("{name: a, run: echo a, max_attempts: 1}"))
        done = subprocess.run(["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh", ROTA, "run",
                               "w.yaml"], cwd=self.folder, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        if "unshare" in done.stderr or "mount" in done.stderr:
            self.skipTest("/proc cannot be hidden here: " + done.stderr.strip())
        self.check(done, 1, "needs /proc")


class Output(FaultCase):
    def slow_workflow(self):
        self.write("w.yaml", stages("{name: a, run: echo a >> ran}", "{name: b, run: 'while [ ! -e go ]; do sleep 0.02; done'}",
                                    "{name: c, run: echo c >> ran}"))

    # With `rota run FILE | head -1` the run continues to its end, and says that its output was not read.
    def test_a_reader_that_goes_away(self):
        for arguments in ((), ("--json",)):
            for name in ("ran", "go"):
                if os.path.exists(self.path(name)):
                    os.unlink(self.path(name))
            self.slow_workflow()
            process = self.start("run", "w.yaml", *arguments, stderr=subprocess.PIPE)
            self.addCleanup(process.stderr.close)
            self.assertTrue(process.stdout.readline())
            process.stdout.close()
            self.write("go", "")
            said = process.stderr.read()
            self.assertEqual(process.wait(LIMIT_S), 0, said)
            self.assertIn("the reader of the output has closed it", said)
            self.assertEqual(self.read("ran"), "a\nc\n")
            self.assert_nothing_runs()

    # Output that could not be written is an error.
    def test_output_to_a_full_disk(self):
        self.ok_workflow()
        with open("/dev/full", "w", encoding="ascii") as full:
            for arguments in (["run", "ok.yaml"], ["graph", "ok.yaml"]):
                process = self.start(*arguments, stdout=full, stderr=subprocess.PIPE)
                self.addCleanup(process.stderr.close)
                said = process.stderr.read()
                self.assertEqual(process.wait(LIMIT_S), 10, said)
                self.assertIn("not all of the output could be written", said)
        self.assertEqual(self.read("ran"), "a\nb\n")

    # If descriptors 0, 1 and 2 are closed at the start, no file of Rota gets these numbers.
    def test_no_standard_descriptors(self):
        self.ok_workflow()
        for closed in ("<&-", ">&-", "<&- >&- 2>&-"):
            with self.subTest(closed):
                done = subprocess.run(["sh", "-c", f"\"$0\" run ok.yaml --state state {closed}", ROTA], cwd=self.folder,
                                      check=False, timeout=LIMIT_S, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertNotIn("succeeded", self.read("state/ledger.db-lock"))
                replayed = self.rota("replay", "state", "--json")
                self.assertTrue(json.loads(replayed.stdout)["verified"], replayed.stderr)


if __name__ == "__main__":
    unittest.main()
