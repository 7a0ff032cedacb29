"""The check of purity catches each kind of impurity in the pure rooms, and nothing in other rooms or comments."""

import unittest

from support import CheckCase

IMPURE = {
    "a clock": ["#include <chrono>", "auto t = std::chrono::steady_clock::now();", "auto t = time(nullptr);",
                '#include "base/clock.h"', '#include "rota/clock.h"', "clock_gettime(CLOCK_MONOTONIC, &ts);",
                "auto t = clock.now();", "auto t = ::time(nullptr);"],
    "a thread": ["#include <thread>", "#include <atomic>", "std::mutex m;", "thread_local int x;", '#include "base/sync.h"',
                 "sync::Mutex mutex_;"],
    "a random number": ["#include <random>", "int x = rand();", "std::mt19937 g;", '#include "base/prng.h"'],
    "input or output": ["#include <iostream>", "#include <cstdio>", 'printf("x");', "std::cout << 1;", 'fopen("x", "r");',
                        "::open(path, 0);", '#include "base/log.h"'],
    "the environment": ['getenv("X");'],
    "an unordered container": ["#include <unordered_map>", "std::unordered_set<int> s;", "boost::unordered_flat_map<int, int> m;"],
    "an unstable hash": ["std::hash<int>{}(1);"],
    "floating point": ["double score;", "float f;", "auto x = 1.5;", "auto y = 1e-3;", "auto z = .5f;", "auto x = 2.;"],
}
PURE = ["std::int64_t now = command.now_ms;", "// double, std::chrono and rand() in a comment",
        'const char* text = "printf(double) 1.5";', "auto mask = 0xe1; auto big = 1'000'000;", "worker.open(); io.write(x);",
        "auto version = a.b.c;", "std::map<int, int> m;", "auto hash = 0x9E37E1;"]


class PurityTest(CheckCase):
    def test_clean_tree_passes(self):
        self.assert_clean("purity")

    def test_every_impurity_is_caught(self):
        for why, lines in IMPURE.items():
            for line in lines:
                with self.subTest(line=line):
                    self.plant("src/fleet/brain.cc", f"\n{line}\n")
                    self.assert_caught("purity", "src/fleet/brain.cc:2", why)

    def test_a_call_to_the_clock_in_fleet_is_caught(self):
        self.plant("src/fleet/brain.h", "inline auto late() { return std::chrono::system_clock::now(); }\n")
        self.assert_caught("purity", "src/fleet/brain.h:1", "a clock")

    def test_graph_model_and_public_headers_are_pure_too(self):
        for path in ("src/graph/dag.cc", "src/model/resources.h", "src/graph/deep/down.h", "include/rota/graph/dag.h"):
            with self.subTest(path=path):
                self.plant(path, "double score;\n")
                self.assert_caught("purity", path)
                self.plant(path, "\n")

    def test_pure_lines_pass(self):
        self.plant("src/fleet/brain.cc", "\n".join(PURE) + "\n")
        self.assert_clean("purity")

    def test_other_rooms_and_tests_may(self):
        for path in ("src/fiber/timer.cc", "src/fleet/brain_test.cc", "src/graph/dag_bench.cc"):
            self.plant(path, "#include <chrono>\ndouble x;\n")
        self.assert_clean("purity")


if __name__ == "__main__":
    unittest.main()
