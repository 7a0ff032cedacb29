"""The first workflow and the first fleet of README.md are run as the page says, and print what it shows.

  <!-- file: NAME -->    the block below is the content of this file
  <!-- run -->           the block below shows command lines, each after "$ ", and their output

Times differ from run to run, and so does the order in which parallel tasks start and end; both are ignored. So is the worker of
a task that every worker can run: measured durations decide it.
ROTA_REWRITE=1 writes the output of this run into the page.
"""

import os
import re
import shlex
import unittest

from support import ROOT, RunCase

PAGE = os.path.join(ROOT, "README.md")
BLOCK = re.compile(r"^<!-- (file: (?P<name>\S+)|run) -->\n```\w*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def comparable(output):
    """The lines of an output without times; lines of progress in alphabetical order."""
    lines = []
    for line in output.strip().split("\n"):
        line = re.sub(r"\b(\d+(\.\d+)?(ms|us|s|m))+\b", "TIME", line)
        line = re.sub(r"(_ns: )\d+", r"\1TIME", line)
        line = re.sub(r"(?<=\s)-(?=\s)", "TIME", line)
        line = re.sub(r"^((prepare|report) .*) (trainer|small)$", r"\1 WORKER", line)
        if line.startswith("critical path"):
            line = re.sub(r"\[\d+\]", "[N]", line)
        if line.startswith("cost"):
            line = re.sub(r"\d+\.\d+", "COST", line)
        lines.append(re.sub(r"\s+", " ", line).strip())
    progress = sorted(line for line in lines if line.startswith("TIME"))
    return progress + [line for line in lines if not line.startswith("TIME")]


class Readme(RunCase):
    # C-1: what the page shows is what a user sees.
    def test_every_command_prints_what_the_page_shows(self):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        runs, rewritten = 0, page
        for match in BLOCK.finditer(page):
            if match["name"]:
                self.write(match["name"], match["text"])
                continue
            shown = ""
            for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", match["text"], re.MULTILINE):
                program, *arguments = shlex.split(command)
                self.assertEqual(program, "rota", command)
                done = self.rota(*arguments)
                self.assertEqual(done.returncode, 0, command + "\n" + done.stdout + done.stderr)
                if not os.environ.get("ROTA_REWRITE"):
                    self.assertEqual(comparable(done.stdout), comparable(expected), command + "\n" + done.stdout)
                shown += f"$ {command}\n{done.stdout}"
                runs += 1
            rewritten = rewritten.replace(match["text"], shown)
        self.assertGreaterEqual(runs, 3)
        if os.environ.get("ROTA_REWRITE"):
            with open(PAGE, "w", encoding="utf-8") as file:
                file.write(rewritten)


if __name__ == "__main__":
    unittest.main()
