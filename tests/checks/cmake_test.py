"""What the build itself refuses: a header that does not compile alone, an arrow against src/rooms.txt. And what it accepts:
files of one room with the same names in their anonymous namespaces, compiled in groups."""

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

    def configure(self, *options):
        return self.run_script("cmake", "-G", "Ninja", "-S", ".", "-B", "out", *options)

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

    def test_a_header_is_compiled_by_the_build_or_by_the_check(self):
        # x.h is the first include of x.cc, so the library proves it; y.h has no such file, so the target `headers` does.
        self.append("CMakeLists.txt", "set(headers ${PROJECT_SOURCE_DIR}/src/base/x.h ${PROJECT_SOURCE_DIR}/src/base/y.h)\n"
                                      "rota_check_headers(base_headers ROOT ${PROJECT_SOURCE_DIR}/src HEADERS ${headers})\n")
        good, bad = "#pragma once\n#include <string>\nstd::string f();\n", "#pragma once\nstd::string f();\n"
        self.plant("src/base/CMakeLists.txt", "rota_room(base)\n")
        self.plant("src/base/x.cc", '#include "base/x.h"\n\n#include <string>\n')
        for x, y in ((good, good), (good, bad), (bad, good)):
            for unity in ("OFF", "ON"):
                with self.subTest(x=x, y=y, unity=unity):
                    self.plant("src/base/x.h", x)
                    self.plant("src/base/y.h", y)
                    status, said = self.configure(f"-DROTA_UNITY={unity}")
                    self.assertEqual(status, 0, said)
                    status, said = self.run_script("cmake", "--build", "out", "--target", "rota_rooms", "headers")
                    self.assertEqual(status == 0, x == y == good, said)

    def test_a_unity_build_accepts_the_same_helper_in_two_files(self):
        for name in ("one", "two", "three"):
            self.plant(f"src/base/{name}.cc", f"namespace {{\n\nint helper() {{ return 1; }}\n\n}}  // namespace\n\n"
                                              f"int {name}();\nint {name}() {{ return helper(); }}\n")
        self.plant("src/base/four.cc", "int four();\nint four() { return 4; }\n")
        self.plant("src/base/CMakeLists.txt", "rota_room(base)\n")
        status, said = self.configure("-DROTA_UNITY=ON")
        self.assertEqual(status, 0, said)
        status, said = self.run_script("cmake", "--build", "out", "--target", "rota_rooms", "--verbose")
        self.assertEqual(status, 0, said)
        self.assertIn("unity/rota_base_1.cc", said)


if __name__ == "__main__":
    unittest.main()
