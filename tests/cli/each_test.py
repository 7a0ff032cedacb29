"""`rota each` for users of GNU parallel (Y-8): output, quotes, resuming; and failures in the output of a run (C-1, C-3)."""

import json
import os
import re
import subprocess
import unittest

from support import RunCase, stages
from terminal_test import Live, width


class Output(RunCase):
    # Y-8: all that a command writes reaches the standard output, whatever its size, and nothing else does.
    def test_output_is_whole(self):
        done = self.rota("each", "--", "seq 1 {}", ":::", "1000000")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout == "".join(f"{i}\n" for i in range(1, 1000001)), f"{len(done.stdout)} bytes")
        # What was printed is not kept a second time.
        self.assertEqual([name for _, _, names in os.walk(self.folder) for name in names if name.endswith((".out", ".err"))], [])

    # Y-8: byte for byte, without anything of another command in between.
    def test_output_is_not_mixed(self):
        self.write("write.py", "import sys\n"
                               "block = bytes([int(sys.argv[1])]) * 65536\n"
                               "for _ in range(40):\n    sys.stdout.buffer.write(block)\n    sys.stdout.buffer.flush()\n"
                               "sys.stdout.buffer.write(bytes(range(256)))\n")
        for order in ([], ["-k"]):
            done = self.rota("each", "-j", "4", *order, "--", "python3", "write.py", ":::", "0", "255", "10", "200", text=False)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            pieces = [bytes([i]) * 65536 * 40 + bytes(range(256)) for i in (0, 255, 10, 200)]
            size = len(pieces[0])
            found = [done.stdout[at:at + size] for at in range(0, len(done.stdout), size)]
            self.assertTrue(sorted(found) == sorted(pieces), f"{len(done.stdout)} bytes")
            if order:
                self.assertTrue(found == pieces, "they are not in the order of the values")

    # Y-8: the two outputs stay apart, each of them whole; a line of any length is only output.
    def test_streams(self):
        done = self.rota("each", "-k", "--", "echo out {}; echo err {} >&2; echo again {}", ":::", "a", "b")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, "out a\nagain a\nout b\nagain b\n", "err a\nerr b\n"))
        done = self.rota("each", "--", "seq 1 {} >&2", ":::", "300000")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertTrue(done.stderr == "".join(f"{i}\n" for i in range(1, 300001)), f"{len(done.stderr)} bytes")
        done = self.rota("each", "--", "head -c {} /dev/zero | tr '\\0' a", ":::", "3000000")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout == "a" * 3000000, f"{len(done.stdout)} bytes")
        # Of a command that fails as well; of one that is tried again, only the last attempt.
        done = self.rota("each", "--max-attempts", "2", "--", "echo x >> {}; cat {}; echo no >&2; exit 3", ":::", "f")
        self.assertEqual((done.returncode, done.stdout), (1, "x\nx\n"))
        self.assertIn("no\n", done.stderr.splitlines(keepends=True))
        self.assertIn("each v1=f failed: exit status 3", done.stderr)

    # Y-8: output that cannot be printed is an error, is not lost, and stops the run.
    def test_output_that_cannot_be_printed(self):
        text = "echo {} >> ran; seq 1 3; echo {}; until test {} != wait || test -e go; do sleep 0.01; done"
        command = ["each", "-k", "-j", "2", "--", text, ":::", "a", "b", "wait"]
        with open("/dev/full", "w", encoding="ascii") as full:
            done = self.rota(*command, capture_output=False, stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 10, done.stderr)
        self.assertIn("cannot write to the standard output: No space left on device; what was not printed is kept", done.stderr)
        self.write("go", "")
        done = self.rota(*command)
        self.assertEqual((done.returncode, done.stdout), (0, "1\n2\n3\na\n1\n2\n3\nb\n1\n2\n3\nwait\n"), done.stderr)
        self.assertEqual(self.read("ran").split().count("a"), 1)

    # Y-8, B-14: a command whose output cannot be kept has failed, with the reason.
    def test_output_that_cannot_be_kept(self):
        state = self.path("s")
        command = ["each", "--state", state, "--max-attempts", "1", "--", "chmod 500 s/logs; seq 1 {}", ":::", "10"]
        if os.geteuid() == 0:  # Nothing is forbidden to root: a link that leads nowhere.
            command[-3] = "ln -s /nowhere/file s/logs/$ROTA_TASK-$ROTA_ATTEMPT.out; seq 1 {}"
        done = self.rota(*command)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("failed: its output could not be kept, and is not complete", done.stderr)
        os.chmod(state + "/logs", 0o700)


class Quotes(RunCase):
    VALUES = ("x *", "a  b", "'", '"', "$(touch bad)", "`touch bad`", "\\", "-n", "", "{}", "a\nb", "$HOME ${x} $$")
    # B-13, Y-8: a value is one word, or a part of one, whatever quotes stand around it.
    TEXTS = (
        ("printf [%s] {}", "[{}]"),
        ('printf [%s] "{}"', "[{}]"),
        ("printf [%s] '{}'", "[{}]"),
        ('printf [%s] "x {} y"', "[x {} y]"),
        ("printf [%s] 'x {} y'", "[x {} y]"),
        ("printf [%s] x{}y{1}", "[x{}y{}]"),
        ('printf [%s] "x"{}\'y\'"{}"', "[x{}y{}]"),
        ('printf [%s] "$(printf "%s." "{}")"', "[{}.]"),
        ('printf [%s] "$(printf "%s." {})"', "[{}.]"),
        ('printf [%s] "$(printf "%s." \'{}\')"', "[{}.]"),
        ('(printf [%s] "{}")', "[{}]"),
        ("printf '[%s'] \"it's {}\"", "[it's {}]"),
        ("# it's {}\nprintf [%s] {} # isn't it", "[{}]"),
        ('printf [%s] \\"{}\\\'', "[\"{}']"),
        ('case x in x) printf [%s] "{}";; esac', "[{}]"),
        ('x="${y:-no}"; printf [%s] "{}$x" "$((1 << 2))"', "[{}no][4]"),
        ("sh -c 'printf [%s] \"$1\"' sh {}", "[{}]"),
        ("cat {} 2> /dev/null; printf [%s] '{}' - <<end\nit's\nend", "[{}][-]"),
        ("gzip -c /dev/null > /dev/null; grep -c \"no {} no\" /dev/null; printf [%s] \"{}\"", "0\n[{}]"),
        ("printf [%s] '$'{}", "[${}]"),
        ("printf [%s] a", "[a][{}]"),
    )

    def test_a_value_is_one_word(self):
        for text, wanted in self.TEXTS:
            done = self.rota("each", "-k", "--fresh", "--state", "state", "--", text, ":::", *self.VALUES)
            self.assertEqual(done.returncode, 0, text + "\n" + done.stderr)
            self.assertEqual(done.stdout, "".join(wanted.replace("{}", value) for value in self.VALUES), text)
        self.assertFalse(os.path.exists(self.path("bad")))

    # B-13, Y-8: where a value cannot be a word, nothing runs, and the message says what to write instead.
    def test_refused(self):
        for text, words in (("cat <<end\n{}\nend", "here-document"),
                            ("cat <<end\nit's\nend\necho {}", "here-document"),
                            ('echo "`echo {}`"', "write $(...) instead"),
                            ("echo `echo \"x\"` '{}'", "write $(...)"),
                            ('echo "${x:-{}}"', "write x={}"),
                            ('echo "${x%"}"}" {}', "${...}"),
                            ("echo $(( {} + 1 ))", "$((x + 1))"),
                            ("echo $(case x in x) echo;; esac) '{}'", "`case`"),
                            ("echo $'it\\'s' {}", "$'...'"),
                            ("echo ${}", "write '$'{} for a dollar and the value"),
                            ("echo \\${}", "write '$'{}"), ("echo '${}'", "write '$'{}"),
                            ("set -- a; echo ${1}", "and $1 for an argument"),
                            ("bash -c 'echo {}'", "would become code of another program"),
                            ('env A=1 /bin/sh -ec "echo {}"', "would become code"),
                            ("python3 -c 'print(\"{}\")'", "would become code"),
                            ("eval echo {}", "eval"),
                            ("echo 'it {}", "not closed"),
                            ("echo 'it", "not closed"),
                            ("echo a # comment", "in a comment only"),
                            ("echo a;", "it cannot be added at the end"),
                            ("\n  echo a\n", "it cannot be added at the end")):
            done = self.rota("each", "--", "touch ran; " + text, ":::", "v")
            self.assertEqual((done.returncode, done.stdout), (2, ""), text + "\n" + done.stderr)
            self.assertIn(words, done.stderr, text)
            self.assertFalse(os.path.exists(self.path("ran")), text)
            self.assertFalse(os.path.exists(self.path(".rota")), text)


    # Y-8: what would reach a program changed is refused.
    def test_refused_arguments(self):
        done = self.rota("each", "--", "echo", "a${}", ":::", "v")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("where $ cannot stand before the value", done.stderr)


class Resume(RunCase):
    def each(self, values, *options):
        return self.rota("each", *options, "--", "echo {} >> ran; echo out {}; test {} != FAIL", input="".join(v + "\n" for v in values))

    def ran(self):
        names = sorted(self.read("ran").split())
        if names:
            os.remove(self.path("ran"))
        return names

    # Y-8: what is done stays done when values are added, removed, or come in another order.
    def test_the_list_changes(self):
        self.assertEqual(self.each(["a", "b", "FAIL"]).returncode, 1)
        self.assertEqual(self.ran(), ["FAIL", "a", "b"])
        done = self.each(["a", "b", "FAIL", "x"])
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())), (1, ["out FAIL", "out x"]), done.stderr)
        self.assertEqual(self.ran(), ["FAIL", "x"])
        self.assertEqual(self.each(["x", "FAIL", "a"]).returncode, 1)
        self.assertEqual(self.ran(), ["FAIL"])
        self.assertEqual(self.each(["b", "y", "FAIL", "x", "a"], "--max-attempts", "2", "-j", "1").returncode, 1)
        self.assertEqual(self.ran(), ["FAIL", "FAIL", "y"])
        # One folder for one command; another command has another one.
        self.assertEqual(len(os.listdir(self.path(".rota"))), 1)
        self.assertEqual(self.rota("each", "--", "echo {} >> ran", ":::", "a").returncode, 0)
        self.assertEqual(self.ran(), ["a"])
        # After a success it starts again.
        self.assertEqual(self.each(["a", "b", "x", "y"]).returncode, 0)
        self.assertEqual(self.ran(), [])
        self.assertEqual(self.each(["a", "b"]).returncode, 0)
        self.assertEqual(self.ran(), ["a", "b"])

    # Y-8: with --resume, a value runs until it has succeeded once.
    def test_resume_after_a_success(self):
        self.assertEqual(self.each(["a", "b"], "--resume").returncode, 0)
        self.assertEqual(self.each(["a", "b"], "--resume").returncode, 0)
        self.assertEqual(self.ran(), ["a", "b"])
        self.assertEqual(self.each(["c"], "--resume").returncode, 0)
        done = self.each(["d", "a", "b", "c"], "--resume")
        self.assertEqual((done.returncode, done.stdout), (0, "out d\n"), done.stderr)
        self.assertEqual(self.ran(), ["c", "d"])
        self.assertEqual(self.rota("each", "--resume", "--fresh", "--", "echo", ":::", "a").returncode, 2)

    # Y-8: what finished commands have written is printed by the next run if the process is killed before.
    def test_output_after_a_kill(self):
        text = "echo {} >> ran; echo out {}; echo err {} >&2; until test {} != wait || test -e go; do sleep 0.01; done"
        command = ["-k", "-j", "2", "--state", "s", "--", text, ":::"]
        # In the order of the values, also if the list has changed; once.
        for again, wanted in ((["wait", "a", "b", "c"], ["wait", "a", "b", "c"]), (["d", "c", "wait", "a"], ["d", "c", "wait", "a"])):
            process = self.start("each", "--fresh", *command, "wait", "a", "b", "c", stderr=subprocess.DEVNULL)
            self.wait_for(lambda: self.succeeded() == 3)
            process.kill()
            self.assertEqual(process.communicate()[0], "")
            self.assert_nothing_runs()
            self.write("go", "")
            done = self.rota("each", *command, *again)
            self.assertEqual((done.returncode, done.stdout), (0, "".join(f"out {v}\n" for v in wanted)), done.stderr)
            self.assertEqual([line for line in done.stderr.splitlines() if line.startswith("err")], [f"err {v}" for v in wanted])
            self.assertEqual(self.ran().count("a"), 1)
            os.remove(self.path("go"))

    def succeeded(self):
        status = self.rota("status", "s", "--json")
        # The log may have no workflow yet.
        found = json.loads(status.stdout)["runs"][0]["workflows"] if status.returncode == 0 else []
        return found[0]["counts"].get("succeeded", 0) if found else 0

    # Y-8: a run that is killed after its last record has printed nothing yet: the next run prints it all.
    def test_output_after_a_success_that_nobody_was_told(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = self.rota("each", "--", "echo {} >> ran; echo out {}", ":::", "a", capture_output=False, stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 10, done.stderr)
        done = self.rota("each", "--", "echo {} >> ran; echo out {}", ":::", "a")
        self.assertEqual((done.returncode, done.stdout, self.ran()), (0, "out a\n", ["a"]), done.stderr)
        self.assertIn("nothing is run again", done.stderr)

    # Y-8: one folder belongs to one run at a time; the message says what to do.
    def test_twice_at_once(self):
        text = "touch {}; until test -e go; do sleep 0.01; done"
        first = self.start("each", "--", text, ":::", "a")
        self.wait_for(lambda: os.path.exists(self.path("a")))
        done = self.rota("each", "--", text, ":::", "b")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("give one of them another folder with --state DIR", done.stderr)
        self.assertFalse(os.path.exists(self.path("b")))
        self.write("go", "")
        self.assertEqual(self.rota("each", "--state", "other", "--", text, ":::", "b").returncode, 0)
        self.assertEqual(first.wait(), 0)

    # Y-8: without values there is nothing to do. An empty list among arguments is a mistake.
    def test_no_values(self):
        for given in ("", "\n\n"):
            done = self.rota("each", "--", "touch ran; echo", input=given)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", "rota: there are no values: nothing to run\n"))
        self.assertEqual(self.rota("each", "--", "echo", ":::").returncode, 2)
        self.assertFalse(os.path.exists(self.path("ran")))


class Failures(Live):
    # C-1, C-3: --quiet hides progress and remarks, and never a failure.
    def test_quiet(self):
        self.write("w.yaml", stages("{name: train, max_attempts: 1, run: 'test ${matrix.lr} != 0.01', matrix: {lr: [0.1, 0.01]}}"))
        done = self.rota("run", "-q", "w.yaml")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", "rota: train[1] lr=0.01 failed: exit status 1\n"))
        done = self.rota("each", "--", "test {} = a", ":::", "a", "b")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("rota: each[1] v1=b failed: exit status 1\n", done.stderr)
        self.write("w.yaml", stages("{name: many, max_attempts: 1, run: 'exit ${matrix.i}', matrix: {i: [1, 2, 3, 4, 5, 6, 7]}}"))
        errors = self.rota("run", "-q", "w.yaml").stderr.splitlines()
        self.assertEqual(errors[:5], [f"rota: many[{i}] i={i + 1} failed: exit status {i + 1}" for i in range(5)])
        self.assertRegex(errors[5], r"^rota: 2 more tasks failed; the logs are in /.*logs$")

    # C-3: the tables fit 40 columns; a task is shown with the values of its matrix, also where it failed.
    def test_tables(self):
        for count in (4, 80):
            lrs = ", ".join(f"0.{i + 1:03}" for i in range(count))
            self.write("w.yaml", stages("{name: train, max_attempts: 1, run: 'test ${matrix.lr} != 0.002', matrix: {lr: [%s], seed: "
                                        "[a-long-value-of-a-seed-which-is-cut]}}" % lrs))
            for columns in (40, 60, 80, 120):
                status, text = self.on_terminal("run", "w.yaml", "--fresh", columns=columns)
                self.assertEqual(status, 1, text)
                text = re.sub(r"\x1b\[[0-9;]*m", "", text)
                self.assertIn("train[1] lr=0.002 seed=a-long-value-of-a-seed-which-is-cut failed: exit status 1", text)
                table = text[text.index("\ntask ") + 1:text.rindex("\n\ntrain[1]")]
                table = table[:table.index("\n\nw failed") if "\n\nw failed" in table else len(table)]
                self.assert_fits(table, columns)
                self.assertRegex(table, r"\ntrain\[1\].*\.\..*which-is-cut|\ntrain\[1\].*\.\..*-cut|\ntrain\[1\] lr=0.002 seed=a-long")
                self.assert_fits(self.on_terminal("status", "w.yaml", columns=columns)[1].split("\n\nw failed")[0], columns)
        # A pipe gets everything.
        done = self.rota("run", "w.yaml", "--fresh")
        self.assertRegex(done.stdout, r"\ntrain\[1\] lr=0\.002 seed=a-long-value-of-a-seed-which-is-cut +failed +1 .* local\n")

    def assert_fits(self, text, columns):
        for line in text.split("\n"):
            self.assertLessEqual(width(line.rstrip("\r")), columns, repr(line))

    # C-3: the last line of the live view is not cut in the middle of a number.
    def test_totals(self):
        self.write("w.yaml", stages("{name: one, run: 'sleep 0.2', matrix: {i: [%s]}}" % ", ".join(map(str, range(12)))))
        self.on_terminal("run", "w.yaml")  # Now the durations are known.
        status, text = self.on_terminal("run", "w.yaml", "--jobs", "2", columns=40)
        self.assertEqual(status, 0, text)
        totals = re.findall(r"^(\d+/12[,  ].*)$", text, re.MULTILINE)
        self.assertTrue(totals, text)
        time = r"(\d+ms|\d+\.\d\ds|\d+m\d\ds|-)"
        for line in totals:
            self.assertRegex(line, rf"^\d+/12(, (about )?{time} left)?(  {time})?$")


class Bytes(RunCase):
    # Y-9: values arrive as written, or are refused.
    def test_not_utf8(self):
        self.write("w.yaml", "apiVersion: rota/v1\nspec:\n  params: {t: x}\n  stages:\n    - {name: a, run: 'printf %s \"${params.t}\"'}\n")
        done = self.rota("run", "w.yaml", "--set", b"t=\xff", text=False)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(b"--set 't=\\xff': the value is not UTF-8 text", done.stderr)
        self.write("w.yaml", stages("{name: a, run: \"printf 'a\\\\377\\\\n'\"}"))
        done = self.rota("run", "w.yaml", text=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(b"is not UTF-8: the result has U+FFFD", done.stdout)


if __name__ == "__main__":
    unittest.main()
