"""./dev and the test run: a planted violation fails the whole run, results are counted right, failures are named."""

import os
import re
import signal
import sys
import threading
import time
import unittest

from support import ROOT, CheckCase

sys.path.insert(0, os.path.join(ROOT, "scripts"))
import test_run  # noqa: E402 (found in the folder above)

GOOD = "echo '[ RUN      ] A.One'; echo '[       OK ] A.One (0 ms)'; echo '[  SKIPPED ] x'\n"
BAD = ("echo '[ RUN      ] A.Two'; echo 'a_test.cc:7: Failure'; echo 'Expected: 1'; echo '[  FAILED  ] A.Two (3 ms)'; "
       "echo '[  FAILED  ] 1 test, listed below:'; echo '[  FAILED  ] A.Two'\n")


class DevTest(CheckCase):
    def last_line(self, said):
        return said.rstrip().splitlines()[-1]

    def test_help_names_every_command(self):
        status, said = self.run_script("./dev", "--help")
        self.assertEqual(status, 0)
        for command in ("setup", "build", "run", "test", "bench", "contract", "lint", "format", "clean"):
            self.assertRegex(said, rf"(?m)^  {command}\b")

    def test_an_unknown_command_or_preset_is_refused_with_the_choices(self):
        status, said = self.run_script("./dev", "fly")
        self.assertEqual(status, 2)
        self.assertIn("no command 'fly'", said)
        status, said = self.run_script("./dev", "build", "fast")
        self.assertEqual(status, 1)
        self.assertIn("dev release program asan-ubsan tsan coverage clang aarch64", said)

    def test_clean_tree_passes_the_test_run(self):
        for suite, passed in (("lint", 6), ("contract", 1)):
            status, said = self.run_script("./dev", "test", suite)
            self.assertEqual(status, 0, said)
            self.assertEqual(self.last_line(said), f"{passed} passed, 0 failed")

    def test_planted_violations_fail_the_test_run(self):
        planted = [
            ("lint", "src/graph/dag.cc", '#include "fiber/run.h"\n', "src/graph/dag.cc:1", "5 passed, 1 failed"),
            ("lint", "src/fleet/brain.cc", "auto t = clock.now();\n", "src/fleet/brain.cc:1", "5 passed, 1 failed"),
            ("contract", "docs/CONTRACT.md", "- **F-3** Uncited.\n", "F-3", "0 passed, 1 failed"),
        ]
        for suite, path, text, named, last in planted:
            with self.subTest(path=path):
                self.plant(path, text)
                status, said = self.run_script("./dev", "test", suite)
                self.assertEqual(status, 1, said)
                self.assertIn(named, said)
                self.assertIn("failed: ", said)
                self.assertIn(f"log:    build/logs/{suite}.log", said)
                self.assertEqual(self.last_line(said), last)
                os.remove(os.path.join(self.root, path))

    def test_a_run_needs_no_packages_for_tests(self):
        # scripts/setup says what it is asked for and fails, so that nothing is built.
        self.plant("scripts/setup", '#!/bin/sh\necho "setup: $*."\nexit 9\n')
        for command, groups in (("run", "build"), ("test", "")):
            status, said = self.run_script("./dev", command)
            self.assertEqual((status, said), (9, f"setup: {groups}.\n"))

    def test_bench_says_what_does_not_exist_yet(self):
        status, said = self.run_script("./dev", "bench")
        self.assertEqual(status, 1)
        self.assertIn("no benchmarks yet", said)


class SetupTest(CheckCase):
    def setup_on(self, os_release, *groups):
        self.plant("os-release", os_release)
        return self.run_script("scripts/setup", *groups,
                               env={"ROTA_NO_SETUP": "", "ROTA_OS_RELEASE": os.path.join(self.root, "os-release")})

    def test_an_unknown_system_gets_a_sentence(self):
        for os_release in ('ID=fedora\nVERSION_ID=40\nPRETTY_NAME="Fedora Linux 40"\n', 'ID=debian\nVERSION_ID="11"\n'
                           'PRETTY_NAME="Debian 11"\n'):
            status, said = self.setup_on(os_release)
            self.assertEqual(status, 1)
            self.assertRegex(said, r"setup knows Debian 12, and this is (Fedora Linux 40|Debian 11)\.")
            self.assertIn("cmake", said)

    def test_nothing_missing_is_silent(self):
        self.plant("scripts/packages.txt", "[build]\ndpkg  # surely there\n[test]\nbash\n")
        status, said = self.setup_on('ID=debian\nVERSION_ID="12"\n')
        self.assertEqual((status, said), (0, ""))

    def test_the_page_needs_its_packages_for_tests_only(self):
        self.plant("web/package.json", "{}\n")
        self.plant("scripts/packages.txt", "[build]\ndpkg\n[test]\nbash\n[web]\nno-such-package-of-rota\n")
        status, said = self.setup_on('ID=debian\nVERSION_ID="12"\n', "build")
        self.assertEqual((status, said), (0, ""))
        self.plant("os-release", "ID=fedora\n")
        _, said = self.setup_on("ID=fedora\n")
        self.assertIn("no-such-package-of-rota", said)

    def test_a_failed_install_names_command_and_log(self):
        self.plant("scripts/packages.txt", "[build]\nno-such-package-of-rota\n")
        self.plant("bin/apt-get", "#!/bin/sh\necho E: Unable to locate package\nexit 100\n")
        self.plant("bin/sudo", '#!/bin/sh\nexec "$@"\n')
        for name in ("apt-get", "sudo"):
            os.chmod(os.path.join(self.root, "bin", name), 0o755)
        self.plant("os-release", 'ID=debian\nVERSION_ID="12"\n')
        status, said = self.run_script("scripts/setup", "build", env={
            "ROTA_NO_SETUP": "", "ROTA_OS_RELEASE": os.path.join(self.root, "os-release"),
            "PATH": os.path.join(self.root, "bin") + ":" + os.environ["PATH"]})
        self.assertEqual(status, 1)
        self.assertIn("Unable to locate package", said)
        self.assertRegex(said, r"failed: .*apt-get.*no-such-package-of-rota")
        self.assertIn("build/logs/setup.log", said)


class LanesTest(unittest.TestCase):
    """The order of the whole run: what is built is tested while the next suite is being built."""

    def run_suites(self, *suites):
        tally = test_run.Tally()
        test_run.everything(tally, [test_run.Suite(*suite) for suite in suites])
        return tally

    def test_a_suite_runs_while_the_next_one_is_built(self):
        started = threading.Event()
        self.run_suites((lambda _: started.set(), None, "programs"), (lambda _: None, lambda _: started.wait(600), "scripts"))
        self.assertTrue(started.is_set())

    def test_a_suite_whose_build_failed_is_counted_and_not_run(self):
        ran = []
        tally = self.run_suites((ran.append, lambda tally: tally.step("x", False), "programs"),
                                (ran.append, lambda tally: tally.step("y", True), "scripts"))
        self.assertEqual((len(ran), tally.failed), (1, 1))

    def test_an_exception_in_a_lane_ends_the_run(self):
        def broken(_):
            raise RuntimeError("broken suite")
        with self.assertRaisesRegex(RuntimeError, "broken suite"):
            self.run_suites((broken, None, "scripts"))


SCRIPT = """import unittest
class A(unittest.TestCase):
    def test_1_passes(self):
        print("Ran 7 tests, says a test")
    def test_2_fails(self):
        self.fail("on purpose")
    @unittest.skip("not here")
    def test_3_is_skipped(self):
        pass
"""
HANGS = """import threading, unittest
class A(unittest.TestCase):
    def test_hangs(self):
        def waits_for_nothing():
            threading.Event().wait()
        waits_for_nothing()
"""
TALKS = """import time, unittest
class A(unittest.TestCase):
    def test_talks(self):
        while True:
            print("still here")
            time.sleep(0.01)
"""
STOPPED = """test_1 (some_test.A.test_1) ... ok
test_2 (some_test.A.test_2)
What it shows. ... FAIL
test_3 (some_test.A.test_3) ... it prints
ok
test_4 (some_test.A.test_4) ... skipped 'not here'
test_5 (some_test.A.test_5) ... """


class ScriptsTest(CheckCase):
    """The counting of a folder of scripts, and the end of one that hangs."""

    def count(self, text, **limits):
        self.plant("tests/some/some_test.py", text)
        script = ("import sys; sys.path.insert(0, 'scripts'); import test_run; "
                  + "".join(f"test_run.{name} = {value}; " for name, value in limits.items())
                  + "tally = test_run.Tally(); test_run.script_tests(tally, 'tests/some', 'some'); print(tally.passed, tally.failed)")
        status, said = self.run_script(sys.executable, "-B", "-c", script)
        self.assertEqual(status, 0, said)
        return tuple(int(n) for n in said.split()[-2:]), said

    def test_passes_failures_and_skips(self):
        counted, said = self.count(SCRIPT)
        self.assertEqual(counted, (1, 1), said)
        self.assertIn("1 passed, 1 skipped, 1 FAILED", said)
        self.assertIn("AssertionError: on purpose", said)

    def test_nothing_to_run_is_a_failure(self):
        self.assertEqual(self.count("import unittest\n")[0], (0, 1))
        self.assertEqual(self.count("this is no Python\n")[0], (0, 1))

    def test_a_test_that_hangs_is_stopped_and_its_place_is_named(self):
        counted, said = self.count(HANGS, SCRIPT_QUIET_S=1)
        self.assertEqual(counted, (0, 1), said)
        self.assertIn("stopped: nothing was heard from it for 1 s", said)
        self.assertIn("some_test.A.test_hangs", said)
        self.assertIn("in waits_for_nothing", said)

    def test_a_suite_that_does_not_end_is_stopped(self):
        counted, said = self.count(TALKS, SCRIPT_LIMIT_S=2)
        self.assertEqual(counted, (0, 1), said)
        self.assertIn("stopped: it ran for more than 2 s", said)

    def test_the_verdicts_before_the_end_are_counted(self):
        self.plant("log", STOPPED)
        self.assertEqual(test_run.count_scripts(os.path.join(self.root, "log"), None), (2, 2, 1))


class CountTest(CheckCase):
    """The counting of test programs, with scripts in place of GoogleTest programs."""

    def count(self, kind, body, quiet_s=600):
        """What the test run says of one program."""
        self.plant("build/dev/program", "#!/bin/sh\n" + body)
        os.chmod(os.path.join(self.root, "build/dev/program"), 0o755)
        self.plant("build/dev/tests.list", f"{kind}\tfiber\tprogram\t{self.root}/build/dev/program\t\n")
        script = (f"import sys; sys.path.insert(0, 'scripts'); import test_run; test_run.JOBS = 1; test_run.QUIET_S = {quiet_s}; "
                  "test_run.steps.LAST_WORDS_S = 3; tally = test_run.Tally(); "
                  "test_run.run_programs(tally, 'dev', [(*p, None) for p in test_run.test_programs('dev')]); "
                  "print(tally.passed, tally.failed)")
        status, said = self.run_script(sys.executable, "-B", "-c", script)
        self.assertEqual(status, 0, said)
        return tuple(int(n) for n in said.split()[-2:]), said

    def test_passes_failures_and_skips(self):
        counted, said = self.count("gtest", GOOD + BAD + "exit 1\n")
        self.assertEqual(counted, (1, 1), said)
        self.assertIn("a_test.cc:7: Failure", said)
        self.assertIn("build/dev/program --gtest_filter=A.Two", said)

    def test_a_crash_is_a_failure_that_names_the_test(self):
        counted, said = self.count("gtest", GOOD + "echo '[ RUN      ] A.Crash'; kill -SEGV $$\n")
        self.assertEqual(counted, (1, 1), said)
        self.assertIn("A.Crash did not end", said)
        self.assertIn("ended by SIGSEGV", said)

    def test_a_bad_end_after_good_tests_is_a_failure(self):
        counted, said = self.count("gtest", GOOD + "echo 'LeakSanitizer: detected memory leaks'; exit 23\n")
        self.assertEqual(counted, (1, 1), said)
        self.assertIn("LeakSanitizer", said)

    def test_a_test_without_end_is_stopped(self):
        counted, said = self.count("gtest", "echo '[ RUN      ] A.Hangs'; sleep 600 & wait\n", quiet_s=1)
        self.assertEqual(counted, (0, 1), said)
        self.assertIn("nothing was heard from it for 1 s", said)
        self.assertIn("A.Hangs did not end", said)

    def test_whoever_stops_the_run_stops_the_tests(self):
        self.plant("build/dev/program", "#!/bin/sh\necho $$ > pid\nexec sleep 600\n")
        os.chmod(os.path.join(self.root, "build/dev/program"), 0o755)
        script = ("import os, signal, sys, threading, time; sys.path.insert(0, 'scripts'); import steps; steps.end_together()\n"
                  "def stop():\n"
                  "    while not os.path.exists('pid') or not open('pid').read().strip(): time.sleep(0.01)\n"
                  "    os.kill(os.getpid(), signal.SIGINT)\n"
                  "threading.Thread(target=stop, daemon=True).start()\n"
                  "steps.execute(['build/dev/program'], 'log')")
        status, said = self.run_script(sys.executable, "-B", "-c", script)
        self.assertEqual(status, 130, said)
        with open(os.path.join(self.root, "pid"), encoding="utf-8") as file:
            pid = int(file.read())
        with self.assertRaises((ProcessLookupError, FileNotFoundError)):
            for _ in range(12_000):  # The kernel may take a moment to clear it away.
                os.kill(pid, 0)
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    if file.read().split()[2] == "Z":
                        raise ProcessLookupError
                time.sleep(0.01)

    def test_what_a_program_leaves_behind_is_not_waited_for(self):
        """A process that keeps the output open, in its own group or in another one, does not keep the run from ending."""
        for left in ("sleep 600", "setsid sleep 600"):
            with self.subTest(left=left):
                counted, said = self.count("gtest", GOOD + f"{left} & echo $! > pid\n")
                self.assertEqual(counted, (1, 0), said)
                with open(os.path.join(self.root, "pid"), encoding="utf-8") as file:
                    pid = int(file.read())
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def test_output_before_the_mark_does_not_hide_it(self):
        counted, said = self.count("gtest", "echo '[ RUN      ] A.One'; echo 'printed[       OK ] A.One (0 ms)'\n")
        self.assertEqual(counted, (1, 0), said)

    def test_other_programs_count_as_one(self):
        self.assertEqual(self.count("program", "exit 0\n")[0], (1, 0))
        self.assertEqual(self.count("program", "exit 3\n")[0], (0, 1))

    def test_a_run_without_tests_fails(self):
        self.plant("empty.py", "import sys; sys.path.insert(0, 'scripts'); import test_run; "
                               "test_run.SUITES = {'lint': test_run.Suite(lambda tally: None)}; sys.argv = ['test', 'lint']; "
                               "sys.exit(test_run.main())\n")
        status, said = self.run_script(sys.executable, "-B", "empty.py")
        self.assertEqual(status, 1)
        self.assertTrue(re.search(r"^0 passed, 0 failed$", said, re.MULTILINE), said)


if __name__ == "__main__":
    unittest.main()
