"""The subcommands against a host over HTTP (C-2): the same words, tables and JSON as for its state folder."""

import itertools
import json
import os
import re
import select
import signal
import subprocess
import unittest

from fleet_support import LIMIT_S, ROTA, stages
from http_test import LONG, TWO, HttpCase

NOISY = stages("{name: a, run: 'echo one; echo two'}", "{name: b, needs: [a], run: 'echo three; exit 3'}")


class RemoteCase(HttpCase):
    def setUp(self):
        super().setUp()
        self.environment["HOME"] = self.folder  # No context file of the user.

    def start_http(self, *options):
        super().start_http(*options)
        self.environment.update(ROTA_URL=f"http://127.0.0.1:{self.web}", ROTA_TOKEN=self.admin)
        self.here = self.environment["ROTA_URL"]

    def both(self, *arguments):
        """What a reading subcommand says about the folder and about the URL; it must be the same. A record or a second that
        comes between the two questions may make a difference once, and not again and again."""
        def said(where, log):
            done = self.rota(*[argument.format(where) for argument in arguments])
            texts = [text.replace(log, "HERE").replace(where, "HERE").replace(self.state, "HERE") for text in (done.stdout, done.stderr)]
            # Columns are as wide as the names in them.
            return done, [done.returncode, *[re.sub(r" +", " ", re.sub(r'"writer":"[^"]*"', '"writer":"HOST"', text)) for text in texts]]

        for _ in range(10):
            remote, answer = said(self.here, self.here)
            local = said(self.state, self.state + "/ledger.db")[1]
            if local == answer:
                break
        self.assertEqual(local, answer)
        return remote

    def ok(self, *arguments):
        done = self.rota(*arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout


class Reading(RemoteCase):
    def test_reads_the_same_as_from_the_folder(self):
        """Contract: C-2, H-1."""
        self.start_http()
        self.write("w.yaml", NOISY)
        done = self.rota("submit", "w.yaml", "--wait", "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["outcome"]), (1, "failed"), done.stderr)
        status = json.loads(self.ok("status", "--json"))["runs"][0]
        self.assertEqual((status["where"], status["workflows"][0]["outcome"]), (self.here, "failed"))
        self.assertEqual(self.both("status", "{}", "--all").returncode, 0)
        for arguments in (("explain", "{}", "b"), ("explain", "{}", "wf-1.0", "--json"), ("explain", "{}", "b", "--at", "1ms"),
                          ("explain", "{}", "nothing"), ("workers", "{}"), ("workers", "{}", "--json"), ("logs", "{}"),
                          ("logs", "{}", "b"), ("logs", "{}", "--failed", "--json"), ("logs", "{}", "a", "--tail", "1"), ("logs", "{}", "zebra"),
                          ("logs", "{}", "a", "-f"), ("replay", "{}", "--json"), ("replay", "{}", "--policy", "mode=static_worker"),
                          ("replay", "{}", "--records"), ("trace", "{}"), ("watch", "{}"), ("watch", "{}", "wf-1", "--json"), ("watch", "{}", "wf-9")):
            with self.subTest(arguments=arguments):
                self.both(*arguments)
        self.assertEqual(self.ok("logs", "a"), "one\ntwo\n")
        self.assertEqual(self.rota("watch").returncode, 1)
        # WHERE is a file or folder of this machine even if ROTA_URL is set.
        self.assertEqual(self.rota("status", "nowhere.yaml").returncode, self.rota("status", "/nowhere").returncode)
        self.assertIn("wf-1\n", self.ok("complete-ids"))

    def test_a_compacted_log(self):
        """Contract: C-2. The first records are gone: the snapshot takes their place."""
        self.start_http("--snapshot-every", "5")
        self.write("w.yaml", TWO)
        for _ in range(4):
            self.ok("submit", "w.yaml", "--wait")
        self.wait_for(lambda: self.ask("GET", "/v1/log?from=1").status == 410, "the log is not compacted")
        done = self.both("status", "{}", "--all")
        self.assertEqual(len(re.findall(r"wf-[1-4] w +succeeded .* 2 succeeded", done.stdout)), 4, done.stdout)
        self.both("explain", "{}", "wf-4.1")


class Controlling(RemoteCase):
    def test_every_verb(self):
        """Contract: C-2."""
        self.start_http()
        self.write("w.yaml", LONG)
        self.assertEqual(self.ok("submit", "w.yaml", "--key", "k"), "wf-1: accepted\n")
        again = json.loads(self.ok("submit", "w.yaml", "--key", "k", "--json"))
        self.assertEqual((again["workflow"], again["repeated"]), ("wf-1", True))
        self.write("other.yaml", TWO)
        other = self.rota("submit", "other.yaml", "--key", "k")
        self.assertNotEqual(other.returncode, 0)
        self.assertIn("another workflow", other.stderr)
        self.assertEqual(self.ok("pause", "wf-1"), "wf-1: pause accepted\n")
        self.ok("resume", "long")  # A task by its name.
        self.assertEqual(json.loads(self.ok("priority", "wf-1", "7", "--json"))["action"], "priority")
        self.assertEqual(self.ask("GET", "/v1/workflows/wf-1").json["priority"], 7)
        self.ok("priority", "wf-1.0", "--", "-3")
        self.assertEqual(self.ask("GET", "/v1/tasks/wf-1.0").json["priority"], -3)
        self.ok("cancel", "wf-1")
        self.wait_for_outcome("wf-1", "cancelled")
        self.ok("retry", "wf-1.0")
        self.ok("cancel", "wf-1.0")
        self.assertEqual(self.rota("watch", self.here).returncode, 7)
        # A retry of what has succeeded would change nothing: it is refused with the reason.
        done = json.loads(self.ok("submit", "other.yaml", "--wait", "--json"))
        for target in (("--host", self.here), ("--state", self.state)):
            refused = self.rota("retry", done["workflow"], *target)
            self.assertEqual((refused.returncode, refused.stdout), (4, ""), refused.stderr)
            self.assertIn(done["workflow"] + " has succeeded: there is nothing to retry", refused.stderr)
        self.ok("workers", "disable", "local")
        self.assertIn("disabled", self.ok("workers"))
        self.ok("workers", "elastic", "local")
        self.ok("workers", "enable", "local")
        # The same mistakes end with the same status and words as with the folder.
        for arguments in (("cancel", "wf-9"), ("pause", "wf-9.0"), ("workers", "drain", "nobody"), ("retry", "zebra"), ("priority", "wf-9", "1")):
            with self.subTest(arguments=arguments):
                local, remote = self.rota(*arguments, "--state", self.state), self.rota(*arguments, "--host", self.here)
                self.assertEqual(local.returncode, remote.returncode, local.stderr + remote.stderr)
                self.assertNotEqual(remote.returncode, 0)
        self.assertEqual(self.rota("workers", "polish", "local").returncode, 2)
        self.ok("workers", "drain", "local")

    def test_follows_a_workflow_and_its_logs(self):
        """Contract: C-2. `watch` and `logs -f` show what happens while it happens, and end with the workflow."""
        self.start_http()
        self.write("w.yaml", stages("{name: a, run: 'echo begun; while [ ! -e go ]; do sleep 0.05; done; echo over'}"))
        self.ok("submit", "w.yaml")
        started = {}
        for name, arguments in (("watch", ("watch", "wf-1")), ("logs", ("logs", "-f", "a"))):
            started[name] = subprocess.Popen([ROTA, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                             env=self.environment)
            self.addCleanup(started[name].kill)
        self.assertEqual(started["logs"].stdout.readline(), "begun\n")
        open(self.path("go"), "w", encoding="utf-8").close()
        text, _ = started["logs"].communicate(timeout=LIMIT_S)
        self.assertEqual((text, started["logs"].returncode), ("over\n", 0))
        text, error = started["watch"].communicate(timeout=LIMIT_S)
        self.assertEqual(started["watch"].returncode, 0, error)
        self.assertIn("succeeded", text)

    def test_followers_outlast_a_restart_of_the_host(self):
        """Contract: C-2, H-1. `watch`, `logs -f` and `submit --wait` wait for a host that is restarted, say so once, and show
        what comes after it, once."""
        self.start_http()
        self.write("w.yaml", stages("{name: a, run: 'echo begun; touch ran; while [ ! -e go ]; do sleep 0.05; done; echo over'}"))
        started = {}
        for name, arguments in (("submit", ("submit", "w.yaml", "--wait")), ("watch", ("watch", "wf-1", "--json")), ("logs", ("logs", "-f", "a"))):
            started[name] = subprocess.Popen([ROTA, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                             env=self.environment)
            self.addCleanup(started[name].kill)
            if name == "submit":
                self.wait_for(lambda: os.path.exists(self.path("ran")), "the task does not start")
        self.assertEqual(started["logs"].stdout.readline(), "begun\n")
        # `watch` has read the log when it shows a record that comes later.
        priority = itertools.count(1)
        self.wait_for(lambda: self.ok("priority", "wf-1", str(next(priority))) and select.select([started["watch"].stdout], [], [], 0)[0],
                      "watch shows nothing")
        self.kill("host")
        for name, process in started.items():
            self.assertRegex(process.stderr.readline(), "does not answer.*trying again until", name)
        self.start_host("--http", f"127.0.0.1:{self.web}", redis=False, local=1)
        self.write("go", "")
        text, error = started["logs"].communicate(timeout=LIMIT_S)
        self.assertEqual((text, started["logs"].returncode), ("begun\nover\n", 0), error)
        self.assertEqual(error.count("trying again"), 0, error)
        text, error = started["watch"].communicate(timeout=LIMIT_S)
        self.assertEqual(started["watch"].returncode, 0, error)
        shown = [json.loads(line) for line in text.splitlines()]
        records = [each["record"] for each in shown if "record" in each]
        self.assertEqual(records, sorted(records))
        self.assertEqual(set(records), set(range(records[0], records[-1] + 1)), "a record is missing")
        self.assertEqual([each["event"] for each in shown if each.get("event") == "WorkflowEnded"], ["WorkflowEnded"])
        text, error = started["submit"].communicate(timeout=LIMIT_S)
        self.assertEqual((text, started["submit"].returncode), ("wf-1: succeeded\n", 0), error)
        # Without a first answer, a host that is not there is an error at once.
        self.kill("host")
        for arguments in (("watch", "wf-1"), ("logs", "-f", "a"), ("submit", "w.yaml", "--wait")):
            self.assertEqual(self.rota(*arguments).returncode, 8, arguments)

    def test_tokens(self):
        """Contract: C-2, H-5."""
        self.start_http()
        secret = self.ok("token", "ann", "--role", "submit", "--user", "ann", "--expires", "1h").strip()
        self.assertIn("ann", self.ok("token"))
        self.environment["ROTA_TOKEN"] = secret
        self.write("w.yaml", LONG)
        self.ok("submit", "w.yaml")
        self.assertEqual(self.ask("GET", "/v1/workflows/wf-1").json["user"], "ann")
        refused = self.rota("token", "eve")
        self.assertEqual(refused.returncode, self.rota("workers", "drain", "local").returncode)
        self.assertIn("does not allow", refused.stderr)
        self.environment["ROTA_TOKEN"] = self.admin
        self.ok("token", "ann", "--revoke")
        self.environment["ROTA_TOKEN"] = secret
        self.assertIn("token", self.rota("status").stderr)


class Context(RemoteCase):
    def test_where_the_host_is(self):
        """Contract: C-2, H-5. Environment, context file, and what is refused."""
        self.start_http()
        url = self.environment.pop("ROTA_URL")
        del self.environment["ROTA_TOKEN"]
        done = self.rota("status", url)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ROTA_TOKEN", done.stderr)
        os.makedirs(self.path(".config/rota"))
        self.write(".config/rota/context", f"# our host\nurl = {url}/\ntoken = {self.admin}\n")
        os.chmod(self.path(".config/rota/context"), 0o644)
        self.assertIn("chmod 600", self.rota("workers", url).stderr)
        os.chmod(self.path(".config/rota/context"), 0o600)
        self.assertIn("local", self.ok("workers"))
        self.write("w.yaml", TWO)
        self.ok("submit", "w.yaml", "--wait")
        # The file's token is not sent to another host.
        other = self.rota("status", url.replace("127.0.0.1", "localhost"))
        self.assertIn("needs a token", other.stderr)
        self.environment["ROTA_TOKEN"] = self.admin
        self.assertIn("in the clear", self.rota("status", "http://rota.example:7070").stderr)
        self.assertIn("user or password", self.rota("status", "https://ann:secret@rota.example").stderr)
        self.assertNotIn("secret", self.rota("status", "https://ann:secret@rota.example").stderr)
        self.write(".config/rota/context", "colour = red\n")
        self.assertIn("line 1", self.rota("workers", url).stderr)
        self.running["host"].send_signal(signal.SIGTERM)
        self.running["host"].wait(LIMIT_S)
        os.remove(self.path(".config/rota/context"))
        gone = self.rota("status", url)
        self.assertIn("does not answer", gone.stderr)
        self.assertEqual(gone.returncode, self.rota("submit", "w.yaml", "--state", self.state).returncode)


if __name__ == "__main__":
    unittest.main()
