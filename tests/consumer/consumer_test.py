"""What a user does with Rota works: install it, find it, link it, move it, or take it in as a subdirectory.

What is installed is the release build; the users' projects are built in build/consumer.
"""

import os
import shutil
import subprocess
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
OUT = os.path.join(ROOT, "build", "consumer")
PREFIX = os.path.join(OUT, "moved")  # Where the installed tree is used: not where it was installed.

# The users' programs, and what they say when all is well.
SAYS = {"use_base": r"^rota \d+\.\d+\.\d+ works\n$", "use_fiber": r"^fibers say 42\n$",
        "use_meter": r"^the endless loop is over\n$"}


def run(*command, env=None):
    """(exit status, all it said)"""
    done = subprocess.run(command, cwd=OUT, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


class ConsumerTest(unittest.TestCase):
    def must(self, *command, env=None):
        status, said = run(*command, env=env)
        self.assertEqual(status, 0, f"{' '.join(command)}\n{said}")
        return said

    @classmethod
    def setUpClass(cls):
        os.makedirs(OUT, exist_ok=True)
        prefix = os.path.join(OUT, "prefix")
        for folder in (prefix, PREFIX):
            shutil.rmtree(folder, ignore_errors=True)
        # What is installed is the release build, of which only the libraries and the command need be there.
        release = os.path.join(ROOT, "build", "release")
        for command in (
                ("cmake", "-S", ROOT, "--preset", "release"),
                ("nice", "-n", "5", "cmake", "--build", release, "--target", "rota_rooms", "rota"),
                ("cmake", "--install", release, "--prefix", prefix)):
            status, said = run(*command)
            if status != 0:
                raise AssertionError(f"{' '.join(command)}\n{said}")
        os.rename(prefix, PREFIX)

    def consumer(self, name, *options):
        """Configures a user's project in a fresh folder."""
        shutil.rmtree(os.path.join(OUT, name), ignore_errors=True)
        project = "subdirectory" if name in ("subdirectory", "fetch_content") else "installed"
        return run("cmake", "-G", "Ninja", "-S", os.path.join(HERE, project), "-B", name, f"-DCMAKE_PREFIX_PATH={PREFIX}",
                   "-DCMAKE_BUILD_TYPE=Release", *options)

    def build_and_run(self, name, *programs):
        """Builds a configured project and runs its programs."""
        self.must("cmake", "--build", name, "--target", *programs)
        for program in programs:
            self.assertRegex(self.must(f"{name}/{program}"), SAYS[program])

    def test_find_package(self):
        status, said = self.consumer("all_components")
        self.assertEqual(status, 0, said)
        self.build_and_run("all_components", "use_base", "use_fiber", "use_meter")

    def test_the_hostile_suite_passes_with_the_installed_package(self):
        status, said = self.consumer("hostile", "-DHOSTILE=ON")
        self.assertEqual(status, 0, said)
        self.must("cmake", "--build", "hostile", "--target", "hostile_tests")
        self.assertIn("-fstack-clash-protection", self.must("ninja", "-C", "hostile", "-t", "commands", "hostile_tests"))
        self.assertRegex(self.must("hostile/hostile_tests", "--gtest_brief=1"), r"\[  PASSED  \] (3[0-9]|[4-9][0-9]) tests")

    def test_a_component_brings_what_it_stands_on_and_no_more(self):
        status, said = self.consumer("only_base", "-DCOMPONENTS=base", "-DEXPECT_ABSENT=fiber")
        self.assertEqual(status, 0, said)
        self.build_and_run("only_base", "use_base")
        # Fibers need no YAML: neither the package nor the program asks for libyaml.
        status, said = self.consumer("only_fiber", "-DCOMPONENTS=fiber", "-DEXPECT_ABSENT=workflow;yaml")
        self.assertEqual(status, 0, said)
        self.build_and_run("only_fiber", "use_fiber")
        self.assertNotIn("yaml", self.must("cmake", "--build", "only_fiber", "--target", "clean") +
                         self.must("cmake", "--build", "only_fiber", "--verbose", "--target", "use_fiber"))
        self.assertNotIn("libyaml", self.must("ldd", "only_fiber/use_fiber"))

    def test_an_unknown_component_gets_a_sentence(self):
        status, said = self.consumer("unknown", "-DCOMPONENTS=teapot")
        self.assertNotEqual(status, 0)
        self.assertIn("there is no component 'teapot'; there are: base", " ".join(said.split()))

    def test_only_requests_for_this_version_find_it(self):
        found = ("0", "0.1", "0.1.0", "0...<1")
        others = ("99", "0.2", "1", "0.0.9", "0.2...<1")
        shutil.rmtree(os.path.join(OUT, "version"), ignore_errors=True)
        os.makedirs(os.path.join(OUT, "version"))
        with open(os.path.join(OUT, "version", "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.25)\nproject(x CXX)\n")
            for version in found + others:
                file.write(f"find_package(rota {version} CONFIG QUIET COMPONENTS base)\n"
                           f"message(\"{version}: ${{rota_FOUND}}\")\n")
        said = self.must("cmake", "-G", "Ninja", "-S", "version", "-B", "version/out", f"-DCMAKE_PREFIX_PATH={PREFIX}")
        lines = said.splitlines()
        for version in found:
            self.assertTrue(f"{version}: TRUE" in lines or f"{version}: 1" in lines, f"{version}\n{said}")
        for version in others:
            self.assertTrue(f"{version}: FALSE" in lines or f"{version}: 0" in lines, f"{version}\n{said}")

    def test_pkg_config(self):
        env = {"PKG_CONFIG_PATH": os.path.join(PREFIX, "lib", "pkgconfig")}
        flags = self.must("pkg-config", "--cflags", "--libs", "rota", env=env).split()
        for program, says in list(SAYS.items())[:2]:  # Metering is CMake's.
            self.must("g++", "-o", f"pkg_config_{program}", os.path.join(HERE, f"{program}.cc"), *flags)
            self.assertRegex(self.must(f"./pkg_config_{program}"), says)

    def test_only_public_headers_are_installed(self):
        self.assertEqual(os.listdir(os.path.join(PREFIX, "include")), ["rota"])
        installed = {os.path.relpath(os.path.join(folder, name), PREFIX)
                     for folder, _, names in os.walk(os.path.join(PREFIX, "include")) for name in names}
        ours = {os.path.relpath(os.path.join(folder, name), ROOT)
                for folder, _, names in os.walk(os.path.join(ROOT, "include")) for name in names if name.endswith(".h")}
        self.assertEqual(installed, ours)

    def test_the_command_comes_with_its_manual_and_completions(self):
        for name, has in (("share/man/man1/rota.1", ".SH EXIT STATUS"),
                          ("share/bash-completion/completions/rota", "complete -F _rota rota"),
                          ("share/zsh/site-functions/_rota", "#compdef rota"),
                          ("share/fish/vendor_completions.d/rota.fish", "complete -c rota")):
            with open(os.path.join(PREFIX, name), encoding="utf-8") as file:
                self.assertIn(has, file.read())

    def test_installed_files_name_no_folder_of_the_build(self):
        for folder, _, names in os.walk(os.path.join(PREFIX, "lib")):
            for name in names:
                if name.endswith((".cmake", ".pc")):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        self.assertNotIn(ROOT, file.read(), name)

    def test_add_subdirectory_changes_nothing_of_its_parent(self):
        status, said = self.consumer("subdirectory", f"-DROTA_FOLDER={ROOT}")
        self.assertEqual(status, 0, said)
        self.build_and_run("subdirectory", "use_base")  # The other rooms are built in the same way.

    def test_a_subproject_that_touches_global_state_would_be_caught(self):
        for planted in ("set(CMAKE_CXX_FLAGS -Werror CACHE STRING x FORCE)", "set(BUILD_SHARED_LIBS ON CACHE BOOL x)",
                        "set(CMAKE_CXX_STANDARD 20 PARENT_SCOPE)", "set_property(GLOBAL PROPERTY RULE_LAUNCH_COMPILE ccache)"):
            with self.subTest(planted=planted):
                folder = os.path.join(OUT, "rude")
                os.makedirs(folder, exist_ok=True)
                with open(os.path.join(folder, "CMakeLists.txt"), "w", encoding="utf-8") as file:
                    file.write(f"project(rota)\n{planted}\n")
                status, said = self.consumer("subdirectory", f"-DROTA_FOLDER={folder}")
                self.assertNotEqual(status, 0)
                self.assertIn("Rota changed its parent", said)

    def test_fetch_content(self):
        status, said = self.consumer("fetch_content", f"-DROTA_FOLDER={ROOT}", "-DBY_FETCH_CONTENT=ON")
        self.assertEqual(status, 0, said)


if __name__ == "__main__":
    unittest.main()
