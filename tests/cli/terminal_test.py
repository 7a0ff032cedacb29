"""The live view of `rota run` on a terminal of every size (C-3, dev build)."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import unittest

from support import LIMIT_S, ROTA, RunCase, stages


class Screen:
    """A small terminal: text, line feeds, and the two sequences that the view may use. It records what goes wrong."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines = [""]
        self.problems = []
        self.tallest = 0

    def feed(self, text):
        for part in re.split(r"(\x1b\[[0-9;]*[A-Za-z]|\n|\r)", text):
            if part == "\n":
                self.lines.append("")
            elif part == "\r" or part == "":
                pass
            elif part.startswith("\x1b["):
                if part.endswith("A"):
                    up = int(part[2:-1])
                    self.tallest = max(self.tallest, up)
                    if up >= self.rows:
                        self.problems.append(f"{up} lines up on a terminal of {self.rows} rows")
                    del self.lines[len(self.lines) - 1 - up:]
                    self.lines.append("")
                elif part[-1] not in "Jm":
                    self.problems.append("sequence " + repr(part))
            else:
                self.lines[-1] += part


def width(text):
    import unicodedata
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)


class Live(RunCase):
    def on_terminal(self, *arguments, columns=80, rows=24, env=None, until=None):
        """The exit status, and what the program wrote to a terminal of this size. Writes the file `go` when it has
        written a text that matches `until`."""
        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {**self.environment, "TERM": "xterm", **(env or {})}
        environment.pop("NO_COLOR", None)
        environment.update(env or {})
        process = subprocess.Popen([ROTA, *arguments], cwd=self.folder, stdout=side, stderr=side, stdin=side,
                                   env=environment)
        os.close(side)
        data = b""
        while True:
            ready, _, _ = select.select([main], [], [], LIMIT_S)
            if not ready:
                process.kill()
                self.fail(f"it wrote nothing for {LIMIT_S} s")
            try:
                piece = os.read(main, 65536)
            except OSError:
                break
            if not piece:
                break
            data += piece
            if until and re.search(until, data.decode(errors="replace")):
                self.write("go", "")
        os.close(main)
        return process.wait(timeout=LIMIT_S), data.decode(errors="replace").replace("\r\n", "\n")

    FILE = stages("{name: wide, run: 'sleep 0.3', matrix: {what: [数据处理与分析, 한글]}}",
                  "{name: a-very-long-name-of-a-stage-with-many-words, needs: [], run: 'echo \"progress 40 half of it\" "
                  ">&3; sleep 0.3', matrix: {rate: [%s]}}" % ", ".join(str(i) for i in range(40)),
                  "{name: bad, needs: [], run: 'echo one; echo two; exit 3', max_attempts: 1}")

    # C-3: the layout is correct from 40 to 300 columns and from 5 rows upwards.
    def test_sizes(self):
        self.write("w.yaml", self.FILE)
        for columns, rows in [(40, 5), (40, 24), (80, 13), (80, 24), (120, 6), (300, 60)]:
            status, text = self.on_terminal("run", "w.yaml", "--fresh", "--jobs", "20", columns=columns, rows=rows)
            self.assertEqual(status, 1, text)
            screen = Screen(columns, rows)
            screen.feed(text)
            self.assertEqual(screen.problems, [], f"{columns}x{rows}")
            self.assertGreater(screen.tallest, 0, "nothing was drawn")
            # Lines of the block, which are erased later, are not wider than the terminal.
            for frame in re.findall(r"\x1b\[J((?:(?!\x1b\[\d+A).)*)\x1b\[(\d+)A", text, re.DOTALL):
                plain = re.sub(r"\x1b\[[0-9;]*m", "", frame[0]).split("\n")[:-1]
                for line in plain[len(plain) - int(frame[1]):]:
                    self.assertLess(width(line), columns, repr(line))

    # C-3: a failure is shown at once, in red, with the end of its output, and again at the end.
    def test_failures(self):
        self.write("w.yaml", stages("{name: bad, run: 'echo one; echo two; exit 3', max_attempts: 1}"))
        status, text = self.on_terminal("run", "w.yaml")
        self.assertEqual(status, 1, text)
        self.assertRegex(text, "\x1b\\[31mFAILED   bad  exit status 3")
        self.assertIn("\x1b[31m| two\x1b[0m", text)
        self.assertIn("\x1b[31mbad failed: exit status 3", text)

    # C-3: no escape sequences with NO_COLOR or TERM=dumb.
    def test_no_escapes(self):
        self.write("w.yaml", stages("{name: a, run: 'exit 3', max_attempts: 1}"))
        for env in [{"NO_COLOR": "1"}, {"TERM": "dumb"}]:
            status, text = self.on_terminal("run", "w.yaml", "--fresh", env=env)
            self.assertEqual(status, 1, text)
            self.assertNotIn("\x1b", text)
            self.assertIn("FAILED   a", text)

    # C-3: no colour and no escape sequences in a pipe, whatever the terminal is.
    def test_pipe(self):
        self.write("w.yaml", stages("{name: a, run: 'exit 3', max_attempts: 1}"))
        env = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        for arguments, status in [(("run", "w.yaml"), 1), (("status", "w.yaml"), 0), (("explain", "w.yaml", "a"), 0),
                                  (("graph", "w.yaml"), 0), (("run", "w.yaml", "--dry-run"), 0), (("run", "--help"), 0),
                                  (("run", "nothing.yaml"), 3), (("run", "--joobs"), 2)]:
            done = self.rota(*arguments, env=env)
            self.assertEqual(done.returncode, status, (arguments, done.stdout, done.stderr))
            self.assertTrue(done.stdout + done.stderr, arguments)
            self.assertNotIn("\x1b", done.stdout + done.stderr, arguments)

    # Waits for the file `go`, but not forever.
    WAIT = "for i in $(seq 1500); do [ ! -e go ] || exit 0; sleep 0.02; done"

    # C-3: what tells tasks apart stays visible: the values of the matrix, at the end of a name that is too long.
    def test_names(self):
        long = "a-very-long-name-of-a-stage-with-many-words"
        self.write("w.yaml", stages("{name: %s, run: '%s', matrix: {seed: [first, second]}}" % (long, self.WAIT)))
        for columns in (60, 200):
            if os.path.exists(self.path("go")):
                os.remove(self.path("go"))
            status, text = self.on_terminal("run", "w.yaml", "--fresh", "--jobs", "2", columns=columns, until="second")
            self.assertEqual(status, 0, text)
            self.assertIn("second", text, f"{columns} columns")
            self.assertEqual(f"{long}[1] seed=second" in text, columns == 200)

    # C-3: the time left comes from the durations in the ledger: a second run knows it before a task has ended.
    def test_time_left(self):
        self.write("w.yaml", stages("{name: a, run: '%s'}" % self.WAIT, "{name: b, run: 'sleep 0.1'}"))
        status, text = self.on_terminal("run", "w.yaml", until="0/2")
        self.assertEqual(status, 0, text)
        self.assertNotRegex(text, "0/2[^\n]* left")
        os.remove(self.path("go"))
        status, text = self.on_terminal("run", "w.yaml", until="0/2[^\n]* left")
        self.assertEqual(status, 0, text)
        self.assertRegex(text, "0/2[^\n]* left")

    # C-3: one row per stage with counts when there are many tasks, at the end as well.
    def test_many_tasks(self):
        self.write("w.yaml", stages("{name: many, run: 'true', matrix: {i: [%s]}}" %
                                    ", ".join(str(i) for i in range(100))))
        status, text = self.on_terminal("run", "w.yaml")
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"many +100 +100 +0 +0 ")


class Words(RunCase):
    # C-2, C-3: the usual words for help and version.
    def test_help_and_version(self):
        self.assertEqual(self.rota("help").stdout, self.rota("--help").stdout)
        self.assertEqual(self.rota("help", "run").stdout, self.rota("run", "--help").stdout)
        self.assertEqual(self.rota("--version").stdout, self.rota("version").stdout)
        self.assertIn("did you mean 'run'?", self.rota("help", "rnu").stderr)


class Each(RunCase):
    # Y-8: over arguments, a product of lists, and lines; values stay data.
    def test_each(self):
        done = self.rota("each", "-k", "--", "echo", "{1}-{2}", ":::", "a", "b c", ":::", "1", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "a-1\na-2\nb c-1\nb c-2\n")
        done = self.rota("each", "-k", "--", "echo got {}", input="x\n$(touch bad)\n\n'q\"\n")
        self.assertEqual(done.stdout, "got x\ngot $(touch bad)\ngot 'q\"\n", done.stderr)
        self.assertFalse(os.path.exists(self.path("bad")))
        # Y-8: bytes that JSON cannot carry are refused, never changed.
        done = self.rota("each", "--", "echo {}", input=b"ok\n\xff\n", text=False)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"is not UTF-8 text", done.stderr)
        done = self.rota("each", "--", "echo", ":::", "last")
        self.assertEqual(done.stdout, "last\n")
        self.assertIn("there is no command", self.rota("each", "--", ":::", "a").stderr)
        # Y-8, B-13: a value is one word, whatever quotes stand around it.
        for text, wanted in (('printf "[%s]" "{}"; echo', "[x *  y]"), ('printf "[%s]" "<{}>"; echo', "[<x *  y>]"), ("printf '[%s]' '{}'; echo", "[x *  y]"),
                             ("printf '[%s]' '<{}>'; echo", "[<x *  y>]"), ('printf "[%s]" "$(printf %s "{}")"; echo', "[x *  y]"),
                             ("printf \"[%s]\" \"$(printf %s '{}')\"; echo", "[x *  y]"), ("# it's\nprintf '[%s]' {}; echo", "[x *  y]"),
                             ('printf "[%s]" \\"{}; echo', '["x *  y]')):
            done = self.rota("each", "--", text, ":::", "x *  y")
            self.assertEqual((done.returncode, done.stdout), (0, wanted + "\n"), text + done.stderr)
        # Y-8: all of the output is printed, also if it is large.
        done = self.rota("each", "--", "seq 1 {}", ":::", "400000")
        self.assertEqual(done.stdout, "".join(f"{i}\n" for i in range(1, 400001)))
        # Y-8: a value that is not there is an error, not text; what only looks like one is passed on.
        for mark, lists, known in (("{3}", 2, "there are 2 lists of values, {1} and {2}"), ("{2}", 1, "there is one list of values, {1}"),
                                   ("{0}", 3, "there are 3 lists of values, {1} to {3}"), ("{99999999999999999999}", 1, "one list")):
            done = self.rota("each", "--", "echo", "{1}" + mark, *(word for i in range(lists) for word in (":::", str(i))))
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn("the command has " + mark, done.stderr)
            self.assertIn(known, done.stderr)
        done = self.rota("each", "-k", "--", "set -- a b; echo ${2} {x} {1..2} {2,2} {}", ":::", "v")
        self.assertEqual((done.returncode, done.stdout), (0, "b {x} {1..2} {2,2} v\n"), done.stderr)

    # Y-8: durable and resumable.
    def test_resume(self):
        command = ["each", "--", "echo {} >> ran; test {} != b || test -e fixed", ":::", "a", "b", "c"]
        done = self.rota(*command)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("v1=b failed: exit status 1", done.stderr)
        self.write("fixed", "")
        done = self.rota(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(self.read("ran").split()), ["a", "b", "b", "c"])


if __name__ == "__main__":
    unittest.main()
