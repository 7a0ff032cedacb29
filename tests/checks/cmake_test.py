"""What the build itself refuses: a header that does not compile alone, an arrow against src/rooms.txt."""

import os
import shutil
import unittest

from support import ROOT, CheckCase

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(rota LANGUAGES C CXX)
option(ROTA_WERROR "" ON)
include(cmake/RotaTarget.cmake)
include(cmake/RotaUnity.cmake)
include(cmake/RotaHeaders.cmake)
include(cmake/RotaRoom.cmake)
set(CMAKE_INSTALL_INCLUDEDIR include)
rota_add_rooms()
file(GLOB headers ${PROJECT_SOURCE_DIR}/include/rota/*.h)
rota_check_headers(public_headers ROOT ${PROJECT_SOURCE_DIR}/include HEADERS ${headers} PUBLIC_ONLY)
"""


class CMakeTest(CheckCase):
    def setUp(self):
        super().setUp()
        shutil.rmtree(os.path.join(self.root, "src"))
        shutil.rmtree(os.path.join(self.root, "include"))
        os.mkdir(os.path.join(self.root, "src"))
        shutil.copytree(os.path.join(ROOT, "cmake"), os.path.join(self.root, "cmake"))
        shutil.copy(os.path.join(ROOT, "src/rooms.txt"), os.path.join(self.root, "src/rooms.txt"))
        self.plant("CMakeLists.txt", PROJECT)
        self.plant("include/rota/good.h", "#pragma once\n#include <string>\ninline std::string good() { return {}; }\n")

    def configure(self):
        return self.run_script("cmake", "-G", "Ninja", "-S", ".", "-B", "out")

    def headers(self):
        status, said = self.configure()
        self.assertEqual(status, 0, said)
        return self.run_script("cmake", "--build", "out", "--target", "headers")

    def test_headers_that_compile_alone_pass_and_others_do_not(self):
        status, said = self.headers()
        self.assertEqual(status, 0, said)
        bad = {
            "needs_an_include.h": "#pragma once\ninline std::string bad() { return {}; }\n",
            "has_no_guard.h": "struct Twice {};\n",
            "is_not_c.h": "#pragma once\n#ifdef __cplusplus\nextern \"C\" {\n#endif\nint f(int& x);\n#ifdef __cplusplus\n}\n#endif\n",
            "uses_a_room.h": '#pragma once\n#include "base/x.h"\n',
        }
        self.plant("src/base/x.h", "#pragma once\n")
        for name, text in bad.items():
            with self.subTest(name=name):
                self.plant(f"include/rota/{name}", text)
                status, said = self.headers()
                self.assertNotEqual(status, 0, said)
                self.assertIn(name, said)
                os.remove(os.path.join(self.root, "include/rota", name))

    def test_a_room_may_not_link_what_it_may_not_use(self):
        self.plant("src/base/CMakeLists.txt", "rota_room(base)\n")
        self.plant("src/fiber/CMakeLists.txt", "rota_room(fiber DEPS base)\n")
        self.plant("src/graph/CMakeLists.txt", "rota_room(graph DEPS base)\n")
        status, said = self.configure()
        self.assertEqual(status, 0, said)
        self.plant("src/graph/CMakeLists.txt", "rota_room(graph DEPS base fiber)\n")
        status, said = self.configure()
        self.assertNotEqual(status, 0)
        self.assertIn("rota_room(graph): may not depend on fiber", said)


if __name__ == "__main__":
    unittest.main()
