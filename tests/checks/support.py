"""A small project in a temporary folder, clean to begin with, for planting violations in."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# A tree that every check likes: the files a check may look at, in all rooms that have rules.
CLEAN = {
    "docs/CONTRACT.md": "# The contract\n\n- **F-1** Fibers run.\n- **F-2** And end.\n- **G-1** Not built yet.\n",
    "include/rota/result.h": "// What comes back.\n#pragma once\n#include <string>\n",
    "include/rota/fiber/task.h": '// A task.\n#pragma once\n#include <vector>\n\n#include "rota/result.h"\n',
    "src/base/sync.h": "// The shim.\n#pragma once\n#if defined(ROTA_INTERLEAVE) && ROTA_INTERLEAVE\n"
                       '#include "interleave/types.h"\n#else\n#include <mutex>\n#endif\n',
    "src/base/CMakeLists.txt": "rota_room(base)\n",
    "src/fiber/CMakeLists.txt": "rota_room(fiber DEPS base)\n",
    "src/fiber/run.h": '// Runs.\n#pragma once\n#include "base/sync.h"\n#include "rota/fiber/task.h"\n',
    "src/fiber/run_test.cc": '#include "fiber/run.h"\n\n#include <gtest/gtest.h>\n\n// Contract: F-1\nTEST(Run, Runs) {}\n\n'
                             "TEST(Run, Ends) {\n  // F-2: and it ends.\n}\n",
    "src/fiber/run_interleave_test.cc": '#include "interleave/types.h"\n',
    "src/interleave/types.h": "// The checker.\n#pragma once\n",
    "src/graph/order.cc": '// Order; no clock here, not even "double" (but for this comment).\n#include <cstdint>\n#include <map>\n\n'
                          'const char* name() { return "steady_clock::now()"; }\n'
                          "std::int64_t hex() { return 0x1e5 + 1'000'000; }\n",
    "examples/hello.cc": '#include "rota/fiber/task.h"\n\nint main() { return 0; }\n',
}


class CheckCase(unittest.TestCase):
    """A test with a clean project of its own in self.root."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rota-check-")
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        shutil.copytree(os.path.join(ROOT, "scripts"), os.path.join(self.root, "scripts"),
                        ignore=shutil.ignore_patterns("__pycache__"))
        os.remove(os.path.join(self.root, "scripts", "contract_open.txt"))
        for path in ("dev", ".clang-format", "src/rooms.txt", "CMakePresets.json"):
            os.makedirs(os.path.dirname(os.path.join(self.root, path)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, path), os.path.join(self.root, path))
        for path, text in CLEAN.items():
            self.plant(path, text)

    def plant(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def append(self, path, text):
        with open(os.path.join(self.root, path), "a", encoding="utf-8") as file:
            file.write(text)

    def run_script(self, *command, env=None):
        """(exit status, all it said) of a command in the project's folder."""
        done = subprocess.run(command, cwd=self.root, env={**os.environ, "ROTA_NO_SETUP": "1", **(env or {})},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        return done.returncode, done.stdout

    def lint(self, name):
        return self.run_script(sys.executable, "-B", "scripts/lint/run.py", name)

    def assert_clean(self, name):
        status, said = self.lint(name)
        self.assertEqual(status, 0, said)

    def assert_caught(self, name, *words):
        """The check fails and says each of `words`."""
        status, said = self.lint(name)
        self.assertEqual(status, 1, f"the violation was not caught:\n{said}")
        for word in words:
            self.assertIn(word, said)
