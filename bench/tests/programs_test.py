"""Each built program does each of its works, small: prints its figures and computes what it must.

Goal: a program that is fast because it is wrong is found. Method: `result N` on stderr against what the work must
give, computed here. Runs what `./dev bench` (or ROTA_BENCH_BIN=<folder>) built; skipped, and said so, before that.
"""

import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, BENCH)

from harness import measure, rows  # noqa: E402

BIN = os.environ.get("ROTA_BENCH_BIN") or os.path.join(BENCH, "..", "build", "release", "bench", "bin")
# Work -> size, and what N must be for that size and thread count; None where a work computes nothing to compare.
SMALL = {
    "yield": (1000, lambda threads: 2 * 1000 * threads),
    "fib": (15, lambda threads: 610),
    "spawn": (1000, lambda threads: 1000),
    "skynet": (1000, lambda threads: 499500),
    "channel": (1000, lambda threads: 1000),
    "channel_cross": (200, lambda threads: 200),
    "blocked": (1000, lambda threads: 1000),
    "dag": (1000, lambda threads: 1000),
    "dag_ordered": (1000, lambda threads: 1000),
    "dag_fan": (1000, lambda threads: 1000),
    "dag_chain": (1000, lambda threads: 1000),
    "cancel_queued": (1000, lambda threads: 1000),
    "cancel_polling": (1000, lambda threads: 1000),
    "cancel_blocked": (1000, lambda threads: 1000),
    "cancel_channels": (1000, lambda threads: 1000),
    "deadline_busy": (3, lambda threads: 3 * threads),
    "kernel_beside": (64, lambda threads: 64),
    "wake_awake": (50, lambda threads: 50),
    "wake_parked": (5, lambda threads: 5),
    "ledger_1": (20, lambda threads: 20),
    "ledger_128": (500, lambda threads: 500),
    "ledger_relaxed": (200, lambda threads: 200),
    "ledger_recover": (1000, lambda threads: 1000 * 1001 // 2 + 1000 * 256),
    "run_true": (20, lambda threads: 20),
    "run_one": (2, lambda threads: 1),
    "yaml_10000": (100, lambda threads: 100),
    "host_flat": (50, lambda threads: 50),
    "host_chain": (20, lambda threads: 20),
    "host_layers": (200, lambda threads: 200),
    "host_start": (5, lambda threads: 5),
    "etcd_1": (5, lambda threads: 5),
    "etcd_128": (200, lambda threads: 200),
    "etcd_flat": (50, lambda threads: 50),
    "etcd_chain": (5, lambda threads: 5),
    "redis_flat": (50, lambda threads: 50),
    "redis_chain": (20, lambda threads: 20),
    "redis_round_trip": (5, lambda threads: 5),
    "redis_idle": (20, lambda threads: 20),
    "redis_busy": (4, lambda threads: 4 * 200),
    **{f"brain_{name}": (1000, lambda threads: 900)
       for name in ("10", "100", "1000", "10000", "million", "static", "pipeline", "round_robin")},
    "brain_idle_1000": (50, lambda threads: 50),
    "brain_idle_10000": (50, lambda threads: 50),
    "brain_each_1000": (50, lambda threads: 50),
    "brain_each_10000": (50, lambda threads: 50),
    **{f"brain_{mode}_{count}": (1000, lambda threads: 900)
       for mode in ("static", "pipeline", "round_robin") for count in ("1000", "10000")},
    **{f"brain_{name}": (1000, lambda threads: 900)
       for name in ("shapes", "users", "priorities", "templates", "bound")},
    "simulate": (3, lambda threads: 3),
    "brain_memory": (10_000, lambda threads: 10_000),
    "brain_chain": (10_000, lambda threads: 1),
    "placement": (2, lambda threads: 2 * 3),
}


def run(program, *arguments):
    return subprocess.run([os.path.join(BIN, program), *map(str, arguments)], capture_output=True, text=True,
                          timeout=600, check=False)


def works_of(program):
    """The works that a program names when it is called without arguments."""
    listed = [line for line in run(program).stderr.splitlines() if line.startswith("works:")]
    return listed[0].split()[1:] if listed else []


def built(name):
    return os.access(os.path.join(BIN, name), os.X_OK)


@unittest.skipUnless(os.path.isdir(BIN), "no programs built; ./dev bench builds them")
class Programs(unittest.TestCase):
    def check(self, program, work, threads, *extra):
        size, expected = SMALL[work.name]
        done = run(program, work.name, threads, size, *extra)
        with self.subTest(program=program, work=work.name, threads=threads):
            self.assertEqual(done.returncode, 0, done.stderr)
            figures = measure.parse(done.stdout, len(work.figures) + work.crosses)
            self.assertIsNotNone(figures[0])
            if "bare" not in program or work.name not in ("yield", "channel"):
                self.assertIn(f"result {expected(threads)}", done.stderr.splitlines())

    def check_all(self, program, works, *extra):
        if not built(program):
            self.skipTest(f"{program} is not built: its package is not installed")
        for work in works:
            if program == "rota" and work.name not in works_of(program):
                continue  # Our own program grows with the runtime.
            for threads in work.threads:
                self.check(program, work, threads, *extra)

    def test_an_unknown_work_is_refused(self):
        for program in (*rows.PEERS, *rows.LIMITS, rows.OURS):
            if built(program.name):
                self.assertEqual(run(program.name, "nonsense", 1).returncode, 2, program.name)


def add_test(program, works, *extra):
    def test(self):
        self.check_all(program, works, *extra)
    setattr(Programs, "_".join(["test", program, *(word.strip("-").replace("=", "_") for word in extra)]), test)


for peer in rows.PEERS:
    add_test(peer.name, [work for work in rows.WORKS if work.takes_part(peer.name)])
for limit in rows.LIMITS:
    add_test(limit.name, [work for work in rows.WORKS if limit.name in work.limits])
add_test("rota", [work for work in rows.WORKS if work.name != "dag"])
add_test("rota", [work for work in rows.WORKS if work.metered], "--profile=service")

if __name__ == "__main__":
    unittest.main()
