"""Atomics and locks come from the shim, or with a reason."""

import unittest

from support import CheckCase


class SyncTest(CheckCase):
    def test_clean_tree_passes(self):
        self.assert_clean("sync")

    def test_raw_ones_are_caught(self):
        for line in ("std::atomic<int> x;", "std::mutex m;", "std::thread t;", "std::atomic_flag f;",
                     "std::atomic_thread_fence(std::memory_order_seq_cst);", "std::condition_variable_any c;"):
            with self.subTest(line=line):
                self.plant("src/fiber/worker.cc", f"\n{line}\n")
                self.assert_caught("sync", "src/fiber/worker.cc:2")

    def test_a_reason_beside_it_is_enough_and_an_empty_one_is_not(self):
        self.plant("src/fiber/worker.cc", "std::mutex m;  // Not through the shim: joins threads of the system.\n"
                                          "// Not through the shim: never shared while tasks run.\nstd::thread t;\n")
        self.assert_clean("sync")
        self.plant("src/fiber/worker.cc", "std::mutex m;  // Not through the shim:\n")
        self.assert_caught("sync", "src/fiber/worker.cc:1")

    def test_names_that_start_nothing_pass(self):
        self.plant("src/fiber/worker.cc", "auto n = std::thread::hardware_concurrency();\n"
                                          "std::atomic_signal_fence(std::memory_order_seq_cst);\n// std::mutex\n")
        self.assert_clean("sync")

    def test_the_shim_and_tests_may(self):
        for path in ("src/base/sync_real.cc", "src/interleave/engine.cc", "src/fiber/worker_test.cc"):
            self.plant(path, "std::mutex m;\n")
        self.assert_clean("sync")


if __name__ == "__main__":
    unittest.main()
