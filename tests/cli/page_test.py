"""Runs every example of docs/workflows.md, with stand-ins for the programs that it names."""

import os
import re
import stat
import unittest

from support import ROOT, RunCase

# The result of every stand-in: it has all fields that the examples refer to.
RESULT = '{"rows": 3, "file": "in.txt", "errors": 1, "locked": false, "items": [{"name": "a"}, {"name": "b"}]}'
PROGRAMS = ("python", "make", "ffmpeg", "prepare", "left", "right", "both", "check", "count", "report", "train",
            "allreduce", "repair", "other", "collect", "build")
FOLDERS = ("", "bin", "work", "media", "data", "out")
# Workers that have all resources that the examples ask for.
FLEET = """workers:
  - {name: edge-7, cpu: 16, memory: 128GiB}
  - name: large
    cpu: 16
    memory: 128GiB
    gpu: {count: 2, type: A100, memory: 80GiB}
    zone: eu-1
    capabilities: [docker]
    labels: {rack: b7}
"""


def examples():
    """Yields (line, text) for each example; a list of stages is completed to a workflow."""
    with open(os.path.join(ROOT, "docs", "workflows.md"), encoding="utf-8") as file:
        page = file.read()
    for match in re.finditer(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        text = match.group(1)
        if text.startswith(("# broken.yaml", "workers:")):
            continue  # The tests of workflow/ have these.
        if text.startswith("- "):
            text = "apiVersion: rota/v1\nspec:\n  stages:\n" + re.sub(r"^", "    ", text, flags=re.MULTILINE)
        # A handler is a function of the user's own program.
        text = re.sub(r"^( *)handler: (\w+)$", r"\1run: ./other", text, flags=re.MULTILINE)
        text = re.sub(r"^ *merge: true\n", "", text, flags=re.MULTILINE)  # A program would have to accept a batch.
        yield page.count("\n", 0, match.start()) + 1, text


class Page(RunCase):
    def setUp(self):
        super().setUp()
        for folder in FOLDERS:
            os.makedirs(self.path(folder), exist_ok=True)
            for program in PROGRAMS:
                path = self.path(os.path.join(folder, program))
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/sh\necho '{RESULT}'\n")
                os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        self.write("in.txt", "in\n")
        self.write("data/a.csv", "1\n")
        self.write("fleet.yaml", FLEET)

    # C-1: the examples of the page can be run.
    def test_every_example_runs(self):
        count = 0
        env = {"PATH": self.path("bin") + ":" + os.environ["PATH"], "HOME": self.folder}
        for line, text in examples():
            with self.subTest(f"docs/workflows.md:{line}"):
                self.write(f"w{line}.yaml", text)
                done = self.rota("run", f"w{line}.yaml", "--workers", "fleet.yaml", "--json",
                                 "--secrets-command", "echo value-of-$ROTA_SECRET", env=env)
                self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr)
                states = {task["name"]: task["state"] for task in self.summary(done)["tasks"]}
                # A stage that runs after a failure is skipped.
                skipped = {"skipped"} if "when: failure" in text else set()
                self.assertEqual(set(states.values()), {"succeeded"} | skipped, states)
                count += 1
        self.assertGreaterEqual(count, 8)


if __name__ == "__main__":
    unittest.main()
