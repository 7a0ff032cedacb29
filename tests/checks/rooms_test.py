"""The check of includes catches every arrow that is not in src/rooms.txt."""

import unittest

from support import CheckCase


class RoomsTest(CheckCase):
    def test_clean_tree_passes(self):
        self.assert_clean("rooms")

    def test_graph_may_not_use_fiber(self):
        self.plant("src/graph/dag.cc", '#include "fiber/run.h"\n')
        self.assert_caught("rooms", "src/graph/dag.cc:1", "graph may not use fiber")

    def test_graph_may_not_use_a_public_header_of_fiber(self):
        self.plant("src/graph/dag.cc", '\n#include "rota/fiber/task.h"\n')
        self.assert_caught("rooms", "src/graph/dag.cc:2", "graph may not use fiber")

    def test_angle_brackets_change_nothing(self):
        self.plant("src/fleet/brain.h", "#include <fiber/run.h>\n")
        self.assert_caught("rooms", "fleet may not use fiber")

    def test_base_stands_on_nothing(self):
        self.plant("src/base/log.cc", '#include "graph/dag.h"\n')
        self.assert_caught("rooms", "base may not use graph")

    def test_host_may_not_use_worker(self):
        self.plant("src/host/loop.cc", '#include "ledger/disk.h"\n#include "worker/run.h"\n')
        self.assert_caught("rooms", "src/host/loop.cc:2", "host may not use worker")

    def test_tests_follow_the_same_arrows(self):
        self.plant("src/graph/dag_test.cc", '#include "fiber/run.h"\n')
        self.assert_caught("rooms", "src/graph/dag_test.cc:1")

    def test_public_headers_use_the_standard_only(self):
        self.append("include/rota/result.h", "#include <fmt/format.h>\n")
        self.assert_caught("rooms", "include/rota/result.h:4", "standard library and rota/ only")

    def test_public_headers_use_no_room(self):
        self.append("include/rota/fiber/task.h", '#include "base/sync.h"\n')
        self.assert_caught("rooms", "include/rota/fiber/task.h:6")

    def test_public_headers_of_base_do_not_use_fiber(self):
        self.append("include/rota/result.h", '#include "rota/fiber/task.h"\n')
        self.assert_caught("rooms", "base may not use fiber")

    def test_a_rooms_own_summary_header_is_that_rooms(self):
        self.plant("include/rota/fiber.h", '#include "rota/fiber/task.h"\n#include "rota/result.h"\n')
        self.assert_clean("rooms")
        self.plant("src/graph/dag.cc", '#include "rota/fiber.h"\n')
        self.assert_caught("rooms", "graph may not use fiber")

    def test_the_checker_is_for_its_tests(self):
        self.append("src/fiber/run.h", '#include "interleave/types.h"\n')
        self.assert_caught("rooms", "src/fiber/run.h:5", "interleaving checker")

    def test_the_shim_reaches_the_checker_under_the_macro_only(self):
        self.append("src/base/sync.h", '#include "interleave/types.h"\n')
        self.assert_caught("rooms", "src/base/sync.h:8", "ROTA_INTERLEAVE")

    def test_paths_do_not_climb(self):
        self.plant("src/graph/dag.cc", '#include "../fiber/run.h"\n')
        self.assert_caught("rooms", "from the root")

    def test_our_headers_are_written_from_the_root(self):
        self.plant("src/fiber/other.cc", '#include "run.h"\n')
        self.assert_caught("rooms", "src/fiber/other.cc:1")

    def test_an_include_is_a_name(self):
        self.plant("src/graph/dag.cc", "#include FIBER_HEADER(run)\n")
        self.assert_caught("rooms", "must be a name")

    def test_a_commented_include_is_none(self):
        self.plant("src/graph/dag.cc", '// #include "fiber/run.h"\n/*\n#include "fiber/run.h"\n*/\n')
        self.assert_clean("rooms")

    def test_an_unknown_room_is_refused(self):
        self.plant("src/attic/box.cc", "\n")
        self.assert_caught("rooms", "src/attic/box.cc", "no such room")

    def test_examples_are_users(self):
        self.append("examples/hello.cc", '#include "base/sync.h"\n')
        self.assert_caught("rooms", "examples/hello.cc:4", "public headers only")


if __name__ == "__main__":
    unittest.main()
