"""bench/run with fake programs: alternation, medians, ratio, spread, JSON, filters, what is missing. No timing.

Goal: the table can be believed. Method: each fake prints figures from a file and notes that it was called.
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import stat
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, BENCH)

from harness import measure, report, rows  # noqa: E402


def load_run():
    loader = importlib.machinery.SourceFileLoader("bench_run", os.path.join(BENCH, "run"))
    spec = importlib.util.spec_from_loader("bench_run", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


RUN = load_run()
# Prints the next line of <self>.lines (the last one for ever) and appends its arguments to the log of all programs.
FAKE = """#!/bin/sh
here=$(dirname "$0"); name=$(basename "$0")
echo "$name $*" >> "$here/calls"
n=$(grep -c "^$name " "$here/calls")
total=$(wc -l < "$0.lines")
[ "$n" -gt "$total" ] && n=$total
echo "result 7" >&2
sed -n "${n}p" "$0.lines"
"""
PEERS = (rows.Program("fast", ("fast-dev",)), rows.Program("slow", ("slow-dev", "slow-tool")))


def work(**changes):
    settings = dict(name="job", clause="P-2", what="a job", figures=(rows.Figure("job", "ns", {1: "5"}),), size=100,
                    left_out={}, threads=(1,), metered=False)
    return rows.Work(**(settings | changes))


class FakePrograms(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def program(self, name, *lines, script=FAKE):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        with open(path + ".lines", "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)

    def calls(self):
        with open(os.path.join(self.folder, "calls"), encoding="utf-8") as file:
            return file.read().splitlines()

    def run_all(self, works, *argv):
        """Exit status, what the table says, and the objects of the JSON file."""
        out, path = io.StringIO(), os.path.join(self.folder, "out.json")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            status = RUN.main([*argv, "--bin", self.folder, "--json", path], PEERS, works)
        with open(path, encoding="utf-8") as file:
            return status, out.getvalue(), json.load(file)


class Figures(FakePrograms):
    def test_programs_take_turns(self):
        for name in ("rota", "fast", "slow", "bare"):
            self.program(name, "1")
        self.run_all((work(),), "--rounds", "2")
        self.assertEqual([call.split()[0] for call in self.calls()], ["rota", "fast", "slow", "bare"] * 2)
        self.assertEqual(self.calls()[0], "rota job 1 100")

    def test_median_ratio_spread_and_limit(self):
        self.program("rota", "10", "30", "20")
        self.program("fast", "10", "10", "40")
        self.program("slow", "500")
        self.program("bare", "2", "4", "3")
        status, _, (row,) = self.run_all((work(),), "--rounds", "3")
        self.assertEqual(status, 0)
        self.assertEqual(list(row), ["bench", "threads", "unit", "rota", "peers", "best_peer", "ratio", "limit",
                                     "spread"])
        self.assertEqual(row, {"bench": "job", "threads": 1, "unit": "ns", "rota": 20, "best_peer": "fast",
                               "peers": {"fast": 10, "slow": 500}, "ratio": 2, "limit": 3, "spread": [0.5, 3]})

    def test_each_figure_of_a_run_is_a_row_of_its_own(self):
        two = work(figures=(rows.Figure("size", "B"), rows.Figure("time", "s")))
        self.program("rota", "10 4")
        self.program("fast", "5 8")
        self.program("slow", "9 -")
        self.program("bare", "1 -")
        _, table, found = self.run_all((two,))
        self.assertEqual([(row["bench"], row["best_peer"], row["ratio"]) for row in found],
                         [("size", "fast", 2), ("time", "fast", 0.5)])
        self.assertNotIn("slow", found[1]["peers"])  # It has no such figure.
        self.assertIsNone(found[1]["limit"])
        self.assertEqual(len(self.calls()), 4 * 5)  # Five rounds, and one run a round for both rows.
        self.assertIn("P-2 size", table)

    def test_metered_rows_compare_ours_with_ours(self):  # P-15
        script = FAKE.replace("sed -n", 'case "$*" in *--profile=service) echo 23; exit;; esac\nsed -n')
        self.program("rota", "20", script=script)
        for name in ("fast", "slow", "bare"):
            self.program(name, "1")
        _, table, found = self.run_all((work(metered=True, metered_aim=1.15),))
        self.assertEqual(found[1]["bench"], "job_metered")
        self.assertEqual((found[1]["rota"], found[1]["peers"], found[1]["best_peer"]), (23, {"rota_open": 20},
                                                                                       "rota_open"))
        self.assertAlmostEqual(found[1]["ratio"], 1.15)
        self.assertIn("P-15 job_metered", table)
        self.run_all((work(metered=True),), "P-15", "--rounds", "1")
        self.assertEqual([call.split()[0] for call in self.calls()[-3:]], ["rota", "rota", "bare"])

    def test_messages_that_stay_on_a_thread_are_not_compared(self):
        self.program("rota", "100 1")
        self.program("fast", "5 0.1")
        self.program("slow", "400 0.9")
        self.program("bare", "50 1")
        _, table, (row,) = self.run_all((work(crosses=True),))
        self.assertEqual((row["best_peer"], row["ratio"]), ("slow", 0.25))
        self.assertIn("5~", table)
        self.assertIn("fast, job: most messages stayed on one thread", table)

    def test_unmeasured_runs_come_first(self):
        self.program("rota", "50", "10")
        self.program("fast", "80", "20")
        self.program("slow", "1")
        self.program("bare", "1")
        _, _, (row,) = self.run_all((work(warm_runs=1, left_out={"slow": "cannot"}),), "--rounds", "1")
        self.assertEqual((row["rota"], row["peers"]), (10, {"fast": 20}))


class Trouble(FakePrograms):
    def test_a_missing_peer_is_named_with_its_packages(self):
        for name in ("rota", "fast", "bare"):
            self.program(name, "1")
        status, table, (row,) = self.run_all((work(),))
        self.assertEqual(status, 0)
        self.assertIn("missing: slow: not built; needs the packages slow-dev slow-tool", table)
        self.assertEqual(row["peers"], {"fast": 1, "slow": None})

    def test_ours_missing_leaves_the_peers_in_the_table(self):
        for name in ("fast", "slow", "bare"):
            self.program(name, "1")
        _, table, (row,) = self.run_all((work(),))
        self.assertIn("missing: rota", table)
        self.assertEqual((row["rota"], row["ratio"], row["best_peer"]), (None, None, "fast"))

    def test_a_peer_that_fails_is_reported_and_the_rest_goes_on(self):
        for name in ("rota", "fast", "bare"):
            self.program(name, "1")
        self.program("slow", script="#!/bin/sh\necho result 3 >&2\necho wrong result: 3 >&2\nexit 1\n")
        status, table, (row,) = self.run_all((work(),))
        self.assertEqual((status, row["peers"]["slow"], row["peers"]["fast"]), (0, None, 1))
        self.assertIn("failed: slow, job at 1: status 1: wrong result: 3", table)

    def test_a_work_that_ours_does_not_have_yet_is_said_and_fails_nothing(self):
        self.program("rota", script="#!/bin/sh\necho no such work here: job >&2\nexit 2\n")
        for name in ("fast", "slow", "bare"):
            self.program(name, "1")
        status, table, (row,) = self.run_all((work(),))
        self.assertEqual((status, row["rota"]), (0, None))
        self.assertIn("absent: rota, job at 1: no such work here: job", table)

    def test_ours_failing_fails_the_run(self):
        self.program("rota", script="#!/bin/sh\nkill -SEGV $$\n")
        for name in ("fast", "slow", "bare"):
            self.program(name, "1")
        status, table, _ = self.run_all((work(),))
        self.assertEqual(status, 1)
        self.assertIn("failed: rota, job at 1: signal 11", table)

    def test_a_line_that_is_no_figure_is_an_error(self):
        for line in ("", "1 2", "word", "-3", "nan"):
            with self.assertRaises(ValueError, msg=line):
                measure.parse(line, 1)
        self.assertEqual(measure.parse("1 -", 2), [1, None])

    def test_a_program_that_hangs_is_ended_and_reported(self):
        self.program("hangs", script="#!/bin/sh\nexec sleep 1000\n")
        with self.assertRaisesRegex(ValueError, "no answer"):
            measure.run_program([os.path.join(self.folder, "hangs")], 1, 0.1)

    def test_too_little_memory_is_reported(self):
        for name in ("rota", "fast", "slow", "bare"):
            self.program(name, "1")
        _, table, (row,) = self.run_all((work(bytes_each={"slow": 10**18}),))
        self.assertIsNone(row["peers"]["slow"])
        self.assertIn("memory: slow, job at 1: needs", table)


class Selection(unittest.TestCase):
    def names(self, *words):
        return {(row.clause, row.figure.bench) for row in rows.select(words)}

    def test_a_clause_is_matched_whole(self):
        self.assertEqual(self.names("P-1"), {("P-1", "yield")})
        self.assertIn(("P-15", "fib"), self.names("p-15"))
        self.assertNotIn(("P-1", "yield"), self.names("p-15"))

    def test_a_row_by_a_part_of_its_name_a_group_by_all_of_it(self):
        self.assertEqual(self.names("fib"), {("P-2", "fib"), ("P-15", "fib")})
        groups = [self.names(group) for group in ("fiber", "ledger", "replicated", "fleet", "command", "host")]
        self.assertEqual(set().union(*groups), self.names())
        self.assertEqual(sum(map(len, groups)), len(self.names()))
        self.assertEqual(self.names("blocked_byt", "P-4"), {("P-6", "blocked_bytes"), ("P-15", "blocked_bytes"),
                                                            ("P-4", "skynet")})

    def test_an_unknown_word_is_an_error(self):
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            self.assertEqual(RUN.main(["nonsense"]), 2)
        self.assertIn("no row matches nonsense", err.getvalue())

    def test_the_list_gives_a_reason_for_everyone_left_out(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(RUN.main(["--list"]), 0)
        text = out.getvalue()
        for one in rows.WORKS:
            for peer, reason in one.left_out.items():
                self.assertIn(f"without {peer}: {reason}", text)

    def test_every_clause_of_the_fibers_has_rows_at_its_thread_counts(self):
        found = {}
        for row in rows.rows():
            found.setdefault(row.clause, set()).add(row.threads)
        for number in (1, 2, 3, 4, 5, 6, 7, 8):
            # Fork-join and graphs also with more thread workers than most machines have cores.
            self.assertEqual(found[f"P-{number}"], {1, 2, 4, 8} if number in (2, 3, 4, 7) else {1, 2})
        self.assertEqual(found["G-9"], {1})
        # Contract: F-32. A kernel beside a server's load: the row has its time, and the loss against the kernel alone.
        self.assertEqual(found["F-32"], {2})  # One thread worker is the server's.
        self.assertIn("kernel_loss", [row.figure.bench for row in rows.rows() if row.clause == "F-32"])
        self.assertEqual(found["P-9"], {2})  # One worker has no other to wake.
        self.assertEqual(found["P-15"], {1, 2, 4, 8})  # 4: also deadlines with more thread workers than cores (F-6).
        self.assertEqual(found["P-11"], {1})
        self.assertEqual(found["P-10"], {1})

    def test_a_work_has_peers_of_its_own_group_only(self):
        for one in rows.WORKS:
            for peer in rows.PEERS:
                if peer.group != one.group:
                    self.assertFalse(one.takes_part(peer.name))
        self.assertTrue(any(one.takes_part("sqlite") for one in rows.WORKS))

    def test_setup_installs_every_package_that_a_peer_needs(self):
        known = set()
        for path in ("bench/packages.txt", "scripts/packages.txt"):
            with open(os.path.join(BENCH, "..", path), encoding="utf-8") as file:
                known |= {line.split()[0] for line in file if line.strip()}
        for program in (*rows.PEERS, *rows.LIMITS):
            for package in program.packages:
                self.assertIn(package, known)


class Numbers(unittest.TestCase):
    def test_numbers_are_short(self):
        shown = [report.number(value) for value in (None, 0.01234, 2.345, 45.67, 1234.5, 1e6)]
        self.assertEqual(shown, ["-", "0.0123", "2.35", "45.7", "1,234", "1,000,000"])

    def test_quick_sizes_never_grow(self):
        for one in rows.WORKS:
            for peer in (*rows.PEERS, rows.OURS):
                self.assertLessEqual(one.size_for(peer.name, True), one.size_for(peer.name, False))


if __name__ == "__main__":
    unittest.main()
