"""Secrets of tasks (U-7, Y-7): a canary value is searched for wherever a fleet keeps, sends or shows anything."""

import glob
import json
import os
import shutil
import subprocess
import unittest

from fleet_support import LIMIT_S, ROTA, stages
from security_test import Tls

CANARY = "canary-5e1f0c77-b2d4"
LINES = "-----BEGIN-----\nbG9uZ2NhbmFyeWxpbmUx\nbG9uZ2NhbmFyeWxpbmUy\n-----END-----"
# What a program may do with its secrets by accident, and that it has them: the digest is of their values.
SCRIPT = r"""printf '%s|%s' "$TOKEN" "$KEY" | sha256sum
echo "out $TOKEN"; echo "err $TOKEN" >&2; printf canary-5e1f; sleep 0.05; echo 0c77-b2d4; echo "$KEY" | cat -n
echo "log told $TOKEN" >&$ROTA_FD; echo "checkpoint \"$TOKEN\"" >&$ROTA_FD; echo "progress 5 $TOKEN" >&$ROTA_FD"""
PARTS = [CANARY, *(line for line in LINES.split("\n"))]


def in_memory(pid, parts):
    """Which of the texts are in the memory of a process: all that a core dump would have, and more."""
    found = set()
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            where, mode = line.split()[:2]
            if "r" not in mode or "[v" in line:
                continue
            at, end = (int(number, 16) for number in where.split("-"))
            rest = b""
            while at < end:
                try:
                    piece = os.pread(memory.fileno(), min(end - at, 1 << 24), at)
                except OSError:
                    break
                if not piece:
                    break
                found.update(part for part in parts if part.encode() in rest + piece)
                rest, at = piece[-64:], at + len(piece)
    return found


class Secrets(Tls):
    def store(self, name, **values):
        folder = self.path(name)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for key, value in values.items():
            path = os.path.join(folder, key.replace("__", "@"))
            with open(path, "w", encoding="utf-8", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
                file.write(value)
        return folder

    def assert_nowhere(self, text, where):
        for part in PARTS:
            self.assertNotIn(part, text, where)

    def search_files(self, *folders, but=()):
        """Every file, with its bytes as they are."""
        count = 0
        for folder in folders:
            for path in glob.glob(os.path.join(folder, "**"), recursive=True, include_hidden=True):
                if os.path.isfile(path) and not any(path.startswith(each) for each in but):
                    with open(path, encoding="latin-1") as file:
                        self.assert_nowhere(file.read(), path)
                    count += 1
        return count


@unittest.skipUnless(shutil.which("redis-cli"), "redis-cli is not installed")
class Fleet(Secrets):
    def routes(self):
        """Everything that a client can read over HTTP about the only workflow."""
        spec = self.ask("GET", "/openapi.json").json
        for path, methods in spec["paths"].items():
            if "get" in methods and "/secrets/" not in path and "/page/" not in path:
                yield path.replace("{id}", "wf-1.0" if "/tasks/" in path else "wf-1").replace("{name}", "gpu-1")

    def test_the_canary_is_nowhere(self):
        """Contract: U-7. Not in the ledger, Redis, logs, API, page data, trace, state folder and memory of the host."""
        self.start_redis()
        self.init()
        self.start_secure(redis=True, local=0)
        token = self.ok("token", "join", "--name", "gpu-*", "--ttl", "15m").strip()
        store = self.store("worker-secrets", hf=CANARY)
        self.write("key.pem", LINES + "\n")
        key = self.path("key.pem")
        self.spawn("gpu-1", [ROTA, "worker", "--host", self.here, "--token", token, "--name", "gpu-1", "--gpu", "none", "--heartbeat", "200ms",
                             "--dir", self.path("gpu-1"), "--cache-dir", self.path("cache"), "--secrets-dir", store,
                             "--secrets-command", f'test "$ROTA_SECRET" = key && test "$ROTA_SECRET_VERSION" = 3 && cat {key}'])
        self.wait_for_workers(1)
        env = "env: {TOKEN: {secret: hf}}, secrets: {KEY: {secret: key, version: 3}}, max_attempts: 1"
        self.write("good.sh", SCRIPT + '\necho "{\\"r\\": \\"$TOKEN\\"}" > $ROTA_RESULT\n')
        self.write("bad.sh", SCRIPT + '\necho "refused: $TOKEN" >&2; exit 1\n')
        self.write("w.yaml", stages(f"{{name: good, run: [sh, {self.path('good.sh')}], cache: true, {env}}}",
                                    f"{{name: bad, run: [sh, {self.path('bad.sh')}], {env}}}"))
        self.assertEqual(self.submit("w.yaml", "--wait")[0], 1)
        # The program had the values: a command that knows them finds the same digest.
        digest = subprocess.run(["sha256sum"], input=f"{CANARY}|{LINES}", capture_output=True, text=True, check=True).stdout.split()[0]
        logs = {task: self.ask("GET", f"/v1/tasks/{task}/logs").body.decode() for task in ("wf-1.0", "wf-1.1")}
        for text in logs.values():
            self.assertIn(digest, text)
            self.assertIn("out ***", text)
            self.assertIn("\n***\n", text)  # The value that was written in two parts.
        self.assertEqual(self.ask("GET", "/v1/tasks/wf-1.0/result").json["result"], {"r": "***"})
        self.assertIn("refused: ***", self.ask("GET", "/v1/tasks/wf-1.1").json["message"])
        # Names and versions are there, values are not.
        records = self.ok("replay", self.here, "--records")
        self.assertIn("hf", records)
        for path in self.routes():
            headers = {"Accept": "application/json"}
            answer = self.ask("GET", path, headers=headers)
            self.assertLess(answer.status, 500, path)
            self.assert_nowhere(answer.body.decode("latin-1"), path)
        for command in (("explain", "wf-1.0", self.here), ("explain", "wf-1.1", self.here), ("status", self.here, "--json"),
                        ("trace", self.here, "-o", self.path("trace.json"))):
            done = self.rota(*command)
            self.assert_nowhere(done.stdout + done.stderr, command)
        self.assert_nowhere(records, "replay")
        dump = subprocess.run(["redis-cli", "-p", str(self.port), "--rdb", self.path("dump.rdb")], capture_output=True, timeout=LIMIT_S, check=False)
        self.assertEqual(dump.returncode, 0, dump.stderr)
        self.assertEqual(in_memory(self.running["host"].pid, PARTS), set(), "the host's memory")
        count = self.search_files(self.folder, but=(store, key, self.path("good.sh"), self.path("bad.sh")))
        self.assertGreater(count, 10)
        self.assertTrue(os.path.exists(self.path("dump.rdb")) and glob.glob(self.path("cache/**"), recursive=True))

    def test_the_host_gives_a_secret_for_a_task_that_is_held(self):
        """Contract: U-7, H-5. Only to the worker that holds it, only what the task names, and only while it is held."""
        self.start_redis()
        self.init()
        store = self.store("host-secrets", hf=CANARY, other="another-value", hf__2="the-second-value")
        self.start_secure("--secrets-dir", store, redis=True, local=0)
        token = self.ok("token", "join", "--name", "gpu-*", "--ttl", "15m").strip()
        for name in ("gpu-1", "gpu-2"):
            self.spawn(name, [ROTA, "worker", "--host", self.here, "--token", token, "--name", name, "--gpu", "none", "--heartbeat", "200ms",
                              "--dir", self.path(name), "--cpu", "2", "--label", f"name={name}"])
        self.wait_for_workers(2)
        self.write("w.yaml", stages(
            "{name: hold, run: 'echo $TOKEN | tr a-z A-Z; mkfifo go; touch up; read x < go', env: {TOKEN: {secret: hf}},"
            " resources: {labels: {name: gpu-1}}}",
            "{name: missing, needs: [], run: 'echo no', secrets: [MISSING], max_attempts: 1, resources: {labels: {name: gpu-1}}}"))
        self.assertEqual(self.submit("w.yaml")[0], 0)
        self.wait_for(lambda: os.path.exists(self.path("up")), "the task does not start: ", lambda: self.log("gpu-1"))
        one, two = (json.loads(self.read(f"{name}/identity.json"))["identity"] for name in ("gpu-1", "gpu-2"))

        def ask(secret, path):
            answer = self.ask("GET", "/v1/secrets/" + path, token=secret)
            return answer.status, answer.body.decode("latin-1")

        self.assertEqual(ask(one, "hf?task=wf-1.0&attempt=1"), (200, CANARY))
        for secret, path in ((two, "hf?task=wf-1.0&attempt=1"), (one, "other?task=wf-1.0&attempt=1"), (one, "hf?task=wf-1.0&attempt=1&version=2"),
                             (one, "hf?task=wf-1.1&attempt=1"), (self.admin, "hf?task=wf-1.0&attempt=1")):
            self.assertEqual(ask(secret, path)[0], 403, path)
        self.assertEqual(ask(one, "hf")[0], 400)
        self.assertEqual(ask("", "hf?task=wf-1.0&attempt=1")[0], 401)
        # A secret that nobody has: the failure says where it was looked for.
        self.wait_for(lambda: self.ask("GET", "/v1/tasks/wf-1.1").json["state"] == "failed", "it does not fail: ",
                      lambda: self.log("host")[-1500:])
        message = self.ask("GET", "/v1/tasks/wf-1.1").json["message"]
        self.assertIn("the secret 'MISSING' of the variable MISSING was not found", message)
        self.assertIn("at the host (", message)
        # When the task has ended, its secret is no longer given.
        with open(self.path("go"), "w", encoding="ascii") as go:
            go.write("\n")
        self.wait_for_end()
        self.assertEqual(ask(one, "hf?task=wf-1.0&attempt=1")[0], 403)
        self.assertIn("a secret was given to a worker", self.log("host"))
        self.search_files(self.state, but=(store,))
        self.assert_nowhere(self.log("host") + self.log("gpu-1"), "logs")

    def test_a_folder_that_others_may_read_is_refused(self):
        """Contract: U-7."""
        self.init()
        store = self.store("open-secrets", hf=CANARY)
        os.chmod(store, 0o755)
        for command in (("host", "--state", self.state, "--http", "127.0.0.1:0", "--secrets-dir", store),
                        ("worker", "--redis", self.url, "--secrets-dir", store)):
            refused = self.rota(*command)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("chmod 700", refused.stderr + refused.stdout)


class Run(Secrets):
    def test_rota_run_with_each_source(self):
        """Contract: U-7, Y-7. A local run: a directory, a command, or the environment if it is asked for."""
        self.write("w.yaml", stages("{name: a, run: 'echo $TOKEN; echo ${#TOKEN}', env: {TOKEN: {secret: hf}}, max_attempts: 1}"))
        store = self.store("secrets", hf=CANARY)
        self.environment["ROTA_SECRET_HF"] = CANARY
        for options in (("--secrets-dir", store), ("--secrets-command", "cat secrets/$ROTA_SECRET"), ("--secrets-env",)):
            done = self.rota("run", "w.yaml", "--fresh", "--output", *options)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assert_nowhere(done.stdout + done.stderr, options)
            self.assertIn("***", done.stdout + done.stderr)
            self.assertIn(str(len(CANARY)), done.stdout + done.stderr)
        self.search_files(self.path(".rota"))
        none = self.rota("run", "w.yaml", "--fresh")
        self.assertEqual(none.returncode, 1)
        self.assertIn("the secret 'hf' of the variable TOKEN cannot be looked up", none.stdout + none.stderr)


if __name__ == "__main__":
    unittest.main()
