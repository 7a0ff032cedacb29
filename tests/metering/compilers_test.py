"""What g++ and clang insert into a metered target, seen in the assembly they write: for each compiler that is here."""

import os
import re
import shutil
import subprocess
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
MODULE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "cmake", "RotaMeter.cmake")
TICK = "__sanitizer_cov_trace_pc"
LEVELS = ("-O0", "-O1", "-O2", "-O3")

# A loop each, and whether it is a loop that can be left without metering: those that C++20 leaves undefined.
METERED = {
    "endless": "void f(volatile int* x) { for (;;) ++*x; }",
    "endless_goto": "void f(volatile int* x) { again: ++*x; goto again; }",
    "endless_do": "void f(volatile int* x) { do { *x = 1; } while (true); }",
    "noexcept": "void f(volatile int* x) noexcept { for (;;) ++*x; }",
    "waits_for_memory": "void f(volatile int* x) { while (*x == 0) {} }",
    "waits_for_atomic": "void f(int* x) { while (__atomic_load_n(x, __ATOMIC_ACQUIRE) == 0) {} }",
    "assembly": "void f(int*) { for (;;) asm volatile(\"\"); }",
    "calls": "void g(); void f(int*) { for (;;) g(); }",
}
EMPTY = {"for": "void f(int*) { for (;;) {} }", "while": "void f(int*) { while (true); }",
         "goto": "void f(int*) { again: goto again; }"}


def options_for(compiler):
    """As rota_meter() gives them."""
    kind = "CLANG" if "clang" in compiler else "GNU"
    with open(MODULE, encoding="utf-8") as file:
        return re.search(rf"^set\(ROTA_METER_{kind} (.*)\)$", file.read(), re.MULTILINE).group(1).split()


def compilers():
    return [name for name in ("g++", "clang++-19") if shutil.which(name)]


def assembly(compiler, level, code):
    done = subprocess.run([compiler, "-std=c++20", level, "-S", "-x", "c++", "-", "-o", "-", *options_for(compiler)],
                          input=code, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
    lines = done.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if re.match(r"_Z1fP[Vi]\w*:", line))
    return lines[start:next(i for i in range(start, len(lines)) if "cfi_endproc" in lines[i])]


def loops(lines):
    """The lines of each loop: from a label to a later jump back to it."""
    labels = {match.group(1): i for i, line in enumerate(lines) if (match := re.match(r"(\.?\w+):", line))}
    for i, line in enumerate(lines):
        match = re.match(r"\s+j\w+\s+(\.?\w+)", line)
        if match and labels.get(match.group(1), i) < i:
            yield lines[labels[match.group(1)]:i]


class CompilersTest(unittest.TestCase):
    def test_there_is_a_compiler(self):
        self.assertIn("g++", compilers())

    def test_every_loop_with_something_in_it_is_metered(self):
        """F-13: a tick in each round, at every level of optimisation."""
        for compiler in compilers():
            for level in LEVELS:
                for name, code in METERED.items():
                    with self.subTest(compiler=compiler, level=level, loop=name):
                        found = list(loops(assembly(compiler, level, code)))
                        self.assertTrue(found)
                        for body in found:
                            self.assertTrue(any(TICK in line for line in body), "\n".join(body))

    def test_every_function_is_metered(self):
        """F-13: also one without loops, so that recursion is."""
        for compiler in compilers():
            for level in LEVELS:
                with self.subTest(compiler=compiler, level=level):
                    self.assertIn(TICK, "".join(assembly(compiler, level, "int f(int* x) { return *x; }")))

    def test_the_empty_loops_are_as_documented(self):
        """F-13: docs/metering.md says which of the literally empty loops a compiler leaves unmetered."""
        unmetered = {}
        for compiler in compilers():
            for level in LEVELS:
                for name, code in EMPTY.items():
                    found = list(loops(assembly(compiler, level, code)))
                    if any(not any(TICK in line for line in body) for body in found):
                        unmetered.setdefault(compiler, set()).add((level, name))
        with open(os.path.join(HERE, "..", "..", "docs", "metering.md"), encoding="utf-8") as file:
            documented = {}
            for compiler, names, levels in re.findall(r"^\| `([\w+-]+)` \| (.*?) \| (.*?) \|", file.read(), re.MULTILINE):
                documented.setdefault(compiler, set()).update(
                    (level, name) for level in re.findall(r"-O\d", levels)
                    for name in re.findall(r"\w+", names.replace("none", "")))
        for compiler in compilers():
            self.assertEqual(unmetered.get(compiler, set()), documented[compiler], compiler)


if __name__ == "__main__":
    unittest.main()
