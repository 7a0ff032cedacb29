"""The test run behind ./dev test: test_run.py [FILTER] [--preset PRESET]

Without a filter everything runs: the static checks, the contract, the release build's tests, the tests of the scripts, the
installed package and its consumers, the sanitizers' builds with the fuzzers, and clang's build of each file by itself. What
is built is tested while the next preset is being built. With a filter, one suite, or the matching tests of one preset. One
line per suite; the last line is `N passed, N failed`.

docs/decisions/0070-build-and-test-time.md says what each build is for.
"""

import argparse
import concurrent.futures
import glob
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time

import build
import steps

# The rooms whose tests run under the sanitizers as well. A room joins once it has threads, memory or parsing to get
# wrong, which is nearly at once.
SANITIZED = {
    "asan-ubsan": ["base", "fiber", "graph", "flow", "model", "fleet", "net", "workflow", "ledger", "bus", "worker", "host"],
    "tsan": ["base", "fiber", "flow", "net", "ledger", "bus", "worker", "host"],
}
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "abort_on_error=0:detect_stack_use_after_return=0:strict_string_checks=1:check_initialization_order=1",
    "LSAN_OPTIONS": "print_suppressions=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:suppressions="
                    + os.path.join(os.path.dirname(os.path.abspath(__file__)), "tsan_suppressions.txt"),
}
# A test program that says nothing for so long hangs. GoogleTest speaks before and after each test. These limits, like all
# of them, are far longer than anything takes on a busy machine: they end a run that hangs while it can still report.
QUIET_S = 600
QUIET_EMULATED_S = 1200  # In an emulator.
PROGRAM_LIMIT_S = 3600
# The same for the scripts. The tests' own limits are shorter and say more; these are for a test that has none where it hangs.
SCRIPT_QUIET_S = 900  # unittest speaks before and after each test.
SCRIPT_LIMIT_S = 2700
CHECK_LIMIT_S = 1200  # The static checks.
EMULATED = {"aarch64"}
JOBS = os.cpu_count() or 1


class Tally:
    """What the whole run came to. Several threads may count and report at the same time."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.lock = threading.Lock()

    def suite(self, title, passed, failed, seconds, skipped=0, command=None, log=None, part=None):
        """Counts a suite and prints its line."""
        words = [f"{passed} passed"] + [f"{skipped} skipped"] * bool(skipped) + [f"{failed} FAILED"] * bool(failed)
        with self.lock:
            self.passed += passed
            self.failed += failed
            steps.line(title, ", ".join(words), seconds)
            if failed and command:
                steps.report_failure(command, log, part)

    def step(self, title, ok):
        """Counts a step that has printed its own line; one that only prepares counts when it fails."""
        with self.lock:
            self.failed += not ok
        return ok


def fixed_layout():
    """A prefix that turns address randomisation off: g++ 12's sanitizers cannot start under much of it."""
    prefix = ["setarch", platform.machine(), "-R"]
    try:
        works = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        works = False
    return prefix if works else []


def test_programs(preset, rooms=None):
    """(kind, name, command) of each test program of a build, from the list that CMake wrote."""
    with open(os.path.join(build.folder(preset), "tests.list"), encoding="utf-8") as file:
        for text in file:
            kind, room, name, *command = text.rstrip("\n\t").split("\t")
            if rooms is None or room in rooms:
                yield kind, name, command


class Outcome:
    """What one process said. GoogleTest's own lines are counted, so that a crash loses no result."""

    def __init__(self, kind, command, log, status):
        self.command, self.log = command, log
        self.passed = self.failed = self.skipped = 0
        self.part = None
        self.failures = []
        if kind == "gtest":
            self.count(log)
            if status != 0 and not self.failed:  # The process ended badly although no test did.
                self.failed = 1
                self.part = steps.failing_part(log)
        else:
            self.passed, self.failed = (1, 0) if status == 0 else (0, 1)
            self.part = steps.failing_part(log) if self.failed else None
        if self.failed and status is None:
            self.part = (self.part or []) + [steps.stop_reason(log)]
        elif self.failed and status < 0:
            self.part = (self.part or []) + [f"ended by {signal.Signals(-status).name}"]

    def count(self, log):
        running, start = None, 0
        with open(log, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
        part = []
        for i, text in enumerate(lines):
            match = re.match(r"\[ (RUN     |      OK| FAILED |SKIPPED) \] ([\w/.]+)", text)
            # Output of the test itself may stand before the mark of its end.
            end = re.search(r"\[( +OK|  FAILED | +SKIPPED) \] ([\w/.]+).*\(\d+ ms\)$", text)
            if match and match.group(1).strip() == "RUN":
                running, start = match.group(2), i
            elif end and end.group(2) == running:
                verdict = end.group(1).strip()
                self.passed += verdict == "OK"
                self.skipped += verdict == "SKIPPED"
                if verdict == "FAILED":
                    self.failures.append(running)
                    part += lines[start:i + 1]
                running = None
        if running is not None:
            self.failures.append(running)
            part += [f"{running} did not end:"] + steps.failing_part(log)
        self.failed = len(self.failures)
        self.part = part[:80] or None


def run_program(preset, kind, name, command, prefix, gtest_filter, shard):
    env = build.environment()
    for key, value in SANITIZER_OPTIONS.items():
        env.setdefault(key, value)
    full = prefix + command
    if kind == "gtest":
        if gtest_filter:
            full = full + [f"--gtest_filter={gtest_filter}"]
        env["GTEST_TOTAL_SHARDS"], env["GTEST_SHARD_INDEX"] = str(JOBS), str(shard)
        env["GTEST_BRIEF"] = "0"
    log = steps.log_path(f"{preset}_{name}" + (f"_{shard}" if kind == "gtest" else ""))
    start = time.monotonic()
    quiet_s = QUIET_EMULATED_S if preset in EMULATED else QUIET_S
    status = steps.execute(full, log, env=env, quiet_s=quiet_s, limit_s=PROGRAM_LIMIT_S)
    return Outcome(kind, full, log, status), time.monotonic() - start


def run_programs(tally, preset, programs):
    """Runs (kind, name, command, filter) each; GoogleTest programs in as many shards as there are cores."""
    prefix = fixed_layout() if preset in SANITIZED else []
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        running = [(name, [pool.submit(run_program, preset, kind, name, command, prefix, gtest_filter, shard)
                           for shard in range(JOBS if kind == "gtest" else 1)])
                   for kind, name, command, gtest_filter in programs]
        for name, shards in running:
            steps.progress(f"{preset} {name}", "...")
            results = [shard.result() for shard in shards]
            outcomes = [outcome for outcome, _ in results]
            passed, failed, skipped = (sum(getattr(o, what) for o in outcomes) for what in ("passed", "failed", "skipped"))
            if passed + failed + skipped == 0:
                continue  # The filter names nothing here.
            bad = next((o for o in outcomes if o.failed), None)
            command = bad.command if bad else None
            if bad and bad.failures:
                command = [c for c in command if not c.startswith("--gtest_filter")]
                command = command + ["--gtest_filter=" + ":".join(bad.failures)]
            tally.suite(f"{preset} {name}", passed, failed, max(seconds for _, seconds in results), skipped, command,
                        bad and bad.log, bad and bad.part)


def python(*arguments):
    return ["/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else "python3", "-B", *arguments]


def lint(tally):
    """The static checks, one by one: each is a check of its own in the count."""
    start = time.monotonic()
    command = python("scripts/lint/run.py")
    log = steps.log_path("lint")
    status = steps.execute(command, log, limit_s=CHECK_LIMIT_S)
    with open(log, encoding="utf-8") as file:
        text = file.read()
    passed = len(re.findall(r"^lint .* ok$", text, re.MULTILINE))
    failed = len(re.findall(r"^lint .* FAILED$", text, re.MULTILINE)) or (1 if status != 0 else 0)
    shown = [t for t in text.splitlines()[1:] if not t.endswith(" ok")]
    tally.suite("lint", passed, failed, time.monotonic() - start, command=command, log=log, part=shown)


def contract(tally):
    start = time.monotonic()
    command = python("scripts/contract.py", "--brief")
    log = steps.log_path("contract")
    status = steps.execute(command, log, limit_s=CHECK_LIMIT_S)
    tally.suite("contract", int(status == 0), int(status != 0), time.monotonic() - start, command=command, log=log)


def script_tests(tally, folder, title):
    """Python's unittest over a folder: *_test.py. A folder without any is not there yet.

    A suite that hangs is stopped, and its report names the test and the line in which it hung."""
    if not glob.glob(os.path.join(steps.ROOT, folder, "*_test.py")):
        return
    start = time.monotonic()
    command = python("-u", "-X", "faulthandler", "-m", "unittest", "discover", "-v", "-s", folder, "-p", "*_test.py")
    log = steps.log_path(title)
    env = build.environment()
    env.setdefault("ROTA_COMMAND", os.path.join(build.folder("release"), "src", "cli", "rota"))
    status = steps.execute(command, log, env=env, quiet_s=SCRIPT_QUIET_S, limit_s=SCRIPT_LIMIT_S, dump=True)
    passed, failed, skipped = count_scripts(log, status)
    tally.suite(title, passed, failed, time.monotonic() - start, skipped, command, log)


def count_scripts(log, status):
    """(passed, failed, skipped) of a run of unittest -v."""
    with open(log, encoding="utf-8", errors="replace") as file:
        text = file.read()
    ran = next(reversed(list(re.finditer(r"^Ran (\d+) test", text, re.MULTILINE))), None)
    if ran is None:  # It was stopped, or it crashed. The verdicts so far stand after the names of the tests.
        verdicts = re.findall(r"(?:^|\.\.\. )(ok|FAIL|ERROR|skipped '.*')$", text, re.MULTILINE)
        failed = sum(verdict in ("FAIL", "ERROR") for verdict in verdicts)
        return verdicts.count("ok"), failed + 1, len(verdicts) - verdicts.count("ok") - failed
    counts = {word: int(n) for word, n in re.findall(r"(failures|errors|skipped)=(\d+)", text[ran.end():])}
    failed = counts.get("failures", 0) + counts.get("errors", 0)
    if status != 0 or int(ran.group(1)) == 0:
        failed = max(failed, 1)
    skipped = counts.get("skipped", 0)
    return max(0, int(ran.group(1)) - failed - skipped), failed, skipped


class Suite:
    """A part of the run: what it builds, what it runs after that, and in which lane.

    build(tally) returns whether it went well, and only then run(tally) is called."""

    def __init__(self, run, build=None, lane=None):
        self.run, self.build, self.lane = run, build, lane

    def both(self, tally):
        if self.build is None or self.build(tally):
            self.run(tally)


def programs(preset, rooms=None):
    return [(*program, None) for program in test_programs(preset, rooms)]


def sanitizer(preset):
    """The test programs of the rooms that join, and the fuzzers, in a sanitizer's build."""
    rooms = SANITIZED[preset]

    def build_it(tally):
        if not tally.step(preset, build.refresh(preset)):
            return False
        names = [name for _, name, _, _ in programs(preset, rooms)]
        return bool(names) and tally.step(preset, build.build(preset, names))

    return Suite(lambda tally: run_programs(tally, preset, programs(preset, rooms)), build_it, "programs")


def clang(tally):
    """Each source file and each header compiles by itself, with clang 19 and its thread-safety analysis."""
    ok = tally.step("clang", build.build("clang", ["rota_rooms", "headers"], title="each file by itself (clang)", result="1 passed"))
    with tally.lock:
        tally.passed += ok


def release():
    return Suite(lambda tally: run_programs(tally, "release", programs("release")),
                 lambda tally: tally.step("release", build.build("release")), "programs")


def scripts_in(folder, *targets):
    """The scripts of a folder, after those targets of the release build that they run."""

    def build_them(tally):
        return not targets or tally.step(folder, build.build("release", targets, title=f"build {' '.join(targets)}"))

    return Suite(lambda tally: script_tests(tally, folder, folder), build_them, "scripts")


# In the order they are built: what is quick and fails often comes first. Each name, or its last part, is also a filter. The
# tests of the installed package build in the release folder themselves, so no later suite builds there.
SUITES = {
    "lint": Suite(lint),
    "contract": Suite(contract),
    "tests/checks": scripts_in("tests/checks"),
    "release": release(),
    "tests/cli": scripts_in("tests/cli", "rota"),
    "tests/fleet": scripts_in("tests/fleet", "rota", "squares"),
    "tests/flow": scripts_in("tests/flow", "m3", "story"),
    "tests/web": scripts_in("tests/web", "rota"),
    "bench/tests": scripts_in("bench/tests", "bench"),  # The programs whose libraries are here do each work once, small.
    "tests/docs": scripts_in("tests/docs"),
    "tests/metering": scripts_in("tests/metering"),
    "tests/consumer": scripts_in("tests/consumer", "rota_rooms", "rota"),  # Then its setup has only to install them.
    "asan-ubsan": sanitizer("asan-ubsan"),
    "tsan": sanitizer("tsan"),
    "clang": Suite(clang),
}


def everything(tally, suites):
    """Builds one suite after the other; in the meantime, what is built is tested in two lanes: programs, which need the
    processors, and scripts, which mostly wait for the processes that they start. Builds run behind them (steps.give_way)."""
    with concurrent.futures.ThreadPoolExecutor(1) as programs_lane, concurrent.futures.ThreadPoolExecutor(1) as scripts_lane:
        lanes = {"programs": programs_lane, "scripts": scripts_lane}
        under_way = []
        for suite in suites:
            if suite.lane is None:
                suite.both(tally)
            elif suite.build is None or suite.build(tally):
                under_way.append(lanes[suite.lane].submit(suite.run, tally))
        for run in under_way:
            run.result()  # An exception in a lane ends the run.


def matching(tally, preset, wanted):
    """A filter names a program, or cases: a word anywhere in their names, or a pattern of GoogleTest's. For the whole name
    of a program only that is built."""
    if not tally.step(preset, build.refresh(preset)):
        return
    targets = [name for _, name, _ in test_programs(preset) if name == wanted]
    if not tally.step(preset, build.build(preset, targets)):
        return
    pattern = wanted if re.search(r"[*:?]", wanted) else f"*{wanted}*"
    programs = []
    for kind, name, command in test_programs(preset):
        if targets and name not in targets:
            continue
        if wanted in name:
            programs.append((kind, name, command, None))
        elif kind == "gtest":
            programs.append((kind, name, command, pattern))
    run_programs(tally, preset, programs)


def main():
    parser = argparse.ArgumentParser(prog="./dev test", description="Builds and tests.")
    parser.add_argument("filter", nargs="?",
                        help="a suite (" + ", ".join(SUITES) + "), a test program, a word in a test's name, or a GoogleTest "
                             "pattern")
    parser.add_argument("--preset", default="dev", choices=build.presets(), help="with a filter: which build")
    args = parser.parse_args()
    steps.end_together()
    tally = Tally()
    suites = SUITES | {name.split("/")[1] if name.startswith("tests/") else name.split("/")[0]: suite
                       for name, suite in SUITES.items()}
    if args.filter is None and args.preset == "dev":
        everything(tally, SUITES.values())
    elif args.filter in suites:
        suites[args.filter].both(tally)
    else:
        matching(tally, args.preset, args.filter or "*")
    if tally.passed + tally.failed == 0:
        print(f"no test matches '{args.filter}'")
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 0 if tally.passed and not tally.failed else 1


if __name__ == "__main__":
    sys.exit(main())
