"""`rota ledger`: backups of a log that is being written, restored and verified, as an operator would."""

import json
import os
import stat
import unittest

from support import RunCase, stages


class Ledger(RunCase):
    # L-2: a backup of a running workflow is a whole log; restored elsewhere, the run continues from that moment.
    def test_backup_of_a_running_workflow(self):
        self.write("w.yaml", stages("{name: a, run: echo a >> ran; echo 7}",
                                    "{name: b, needs: [a], run: 'while [ ! -e go ]; do sleep 0.05; done; echo ${a.result} >> ran'}"))
        run = self.start("run", "w.yaml")
        self.wait_for(lambda: "b" in self.rota("status", "w.yaml", "--json").stdout and self.read("ran") == "a\n")
        self.wait_for(lambda: '"running"' in self.rota("status", "w.yaml", "--json").stdout)
        done = self.rota("ledger", "backup", "w.yaml", "copy.db")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"backed up w\.yaml to copy\.db: \d+ records")
        self.assertEqual(stat.S_IMODE(os.stat(self.path("copy.db")).st_mode), 0o600)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("copy")], ["copy.db"])
        verified = self.rota("ledger", "verify", "copy.db")
        self.assertEqual(verified.returncode, 0, verified.stderr)
        self.assertIn("Verified", verified.stdout)
        # The run was not disturbed, and the copy does not change with it.
        self.write("go", "")
        self.assertEqual(run.wait(), 0)
        self.assertEqual(self.read("ran"), "a\n7\n")
        again = self.rota("ledger", "verify", "copy.db")
        self.assertEqual(again.stdout, verified.stdout)
        # A task that was running at that moment runs again; one that had ended does not.
        described = json.loads(self.rota("ledger", "backup", "w.yaml", "second.db", "--json").stdout)
        self.assertEqual((described["action"], described["to"], described["first_index"]), ("backup", "second.db", 1))
        self.assertGreater(described["last_index"], 1)
        restored = self.rota("ledger", "restore", "copy.db", "restored/state")
        self.assertEqual(restored.returncode, 0, restored.stderr)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("restored/state")).st_mode), 0o700)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("restored/state/ledger.db")).st_mode), 0o600)
        resumed = self.rota("run", "w.yaml", "--state", "restored/state")
        self.assertEqual(resumed.returncode, 0, resumed.stdout + resumed.stderr)
        self.assertEqual(self.read("ran"), "a\n7\n7\n")

    # L-2: nothing is overwritten, and what is not a whole backup is refused before anything is made.
    def test_what_is_refused(self):
        self.write("w.yaml", stages("{name: a, run: echo 1}"))
        self.assertEqual(self.rota("run", "w.yaml").returncode, 0)
        self.assertEqual(self.rota("ledger", "backup", "w.yaml", "copy.db").returncode, 0)
        # After a run has ended there is no write-ahead file: nothing appears beside the ledger.
        self.assertEqual(sorted(name for name in os.listdir(self.path(".rota/w.yaml")) if name.startswith("ledger")),
                         [name for name in ("ledger.db", "ledger.db-lock")
                          if os.path.exists(self.path(".rota/w.yaml/" + name))])
        before = os.stat(self.path("copy.db"))
        for arguments, words in (
                (("backup", "w.yaml", "copy.db"), "already exists"),
                (("restore", "copy.db", ".rota/w.yaml"), "already"),
                (("restore", ".rota/w.yaml", "new"), "is a folder"),
                (("restore", "missing.db", "new"), "missing.db"),
                (("backup", "w.yaml"), "needs a WHERE and a FILE"),
                (("restore", "copy.db"), "needs a FILE and a DIR"),
                (("verify", "copy.db", "more"), "too many"),
                (("bakcup", "w.yaml", "x"), "bakcup"),
                (("backup", "w.yaml", "no/such/folder/x.db"), "no/such/folder"),
                (("backup", "http://127.0.0.1:1", "x.db"), "")):
            done = self.rota("ledger", *arguments)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(words, done.stderr, arguments)
            self.assertEqual(done.stdout, "", arguments)
        self.assertEqual(os.stat(self.path("copy.db")).st_mtime_ns, before.st_mtime_ns)
        self.assertFalse(os.path.exists(self.path("new")))
        # What is left of another ledger would become a part of the restored one.
        for suffix in ("-wal", "-shm", "-journal"):
            os.mkdir(self.path("left" + suffix))
            self.write("left" + suffix + "/ledger.db" + suffix, "")
            done = self.rota("ledger", "restore", "copy.db", "left" + suffix)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("ledger.db" + suffix, done.stderr)
            self.assertEqual(os.listdir(self.path("left" + suffix)), ["ledger.db" + suffix])
        # A backup that was cut, emptied, or is something else.
        with open(self.path("copy.db"), "rb") as file:
            whole = file.read()
        for name, content in (("cut.db", whole[:len(whole) // 2]), ("empty.db", b""), ("text.db", b"not a ledger\n" * 99)):
            with open(self.path(name), "wb") as file:
                file.write(content)
            done = self.rota("ledger", "restore", name, "from-" + name)
            self.assertNotEqual(done.returncode, 0, name)
            self.assertIn(name, done.stderr)
            self.assertFalse(os.path.exists(self.path("from-" + name + "/ledger.db")), name)


if __name__ == "__main__":
    unittest.main()
