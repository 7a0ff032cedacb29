"""Security by default (H-5): host init, tokens, joins, identities and accounts, with real programs."""

import json
import os
import re
import shutil
import ssl
import stat
import subprocess
import unittest

from fleet_support import LIMIT_S, ROTA, FleetCase
from http_test import LONG, TWO, HttpCase


class Tls(HttpCase):
    """A host that `rota host init` has prepared: TLS, one admin token."""

    scheme = "https"

    def setUp(self):
        super().setUp()
        self.environment["HOME"] = self.folder
        self.environment["USER"] = "ann"

    def init(self, *options):
        done = self.rota("host", "init", "--state", self.state, "--name", "rota.example", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.admin = re.search(r"rota_admin_[0-9a-f]{64}", done.stdout).group()
        self.pin = re.search(r"sha256: ([0-9a-f]{64})", done.stdout).group(1)
        return done.stdout

    def context(self):
        return ssl.create_default_context(cafile=os.path.join(self.state, "tls/ca.pem"))

    def certificate(self):
        return ssl.get_server_certificate(("127.0.0.1", self.web), timeout=LIMIT_S)

    def start_secure(self, *options, redis=False, local=1):
        before = len(self.ports())
        self.start_host("--http", "127.0.0.1:0", *options, redis=redis, local=local)
        self.wait_for(lambda: len(self.ports()) > before, "no HTTP: ", lambda: self.log("host"))
        self.web = int(self.ports()[-1])
        self.here = f"https://127.0.0.1:{self.web}"
        self.wait_for_host()
        self.environment.update(ROTA_URL=self.here, ROTA_TOKEN=self.admin, ROTA_CA="sha256:" + self.pin)

    def ok(self, *arguments):
        done = self.rota(*arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout


class Init(Tls):
    def test_a_secure_host_from_the_first_minute(self):
        """Contract: H-5, C-2."""
        printed = self.init()
        for name in ("ca.key", "host.key"):
            self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.state, "tls", name)).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(self.state).st_mode), 0o700)
        self.assertNotIn(self.admin[-64:], "".join(open(os.path.join(self.state, f), encoding="latin-1").read() for f in ("tokens",)))
        again = self.rota("host", "init", "--state", self.state)
        self.assertIn("already", again.stderr)
        self.start_secure()
        self.write("w.yaml", TWO)
        self.ok("submit", "w.yaml", "--wait")
        self.assertEqual(self.ask("GET", "/v1/workflows/wf-1").json["outcome"], "succeeded")  # By name and CA file.
        # The printed context file works as it is; with another CA nobody is talked to.
        for name in ("ROTA_URL", "ROTA_TOKEN", "ROTA_CA"):
            del self.environment[name]
        os.makedirs(self.path(".config/rota"))
        text = printed.split("mode 0600:\n\n")[1].replace("rota.example:7070", f"localhost:{self.web}")
        self.write(".config/rota/context", text)
        os.chmod(self.path(".config/rota/context"), 0o600)
        self.assertIn("succeeded", self.ok("status", f"https://localhost:{self.web}"))
        self.environment["ROTA_CA"] = "sha256:" + "0" * 64
        wrong = self.rota("status", f"https://localhost:{self.web}")
        self.assertNotEqual(wrong.returncode, 0)
        self.environment["ROTA_CA"] = os.path.join(self.state, "tls/ca.pem")
        self.ok("status", f"https://localhost:{self.web}")
        # A new certificate, without a restart.
        del self.environment["ROTA_CA"]
        before = self.certificate()
        self.ok("host", "init", "--renew", "--state", self.state)
        self.running["host"].send_signal(1)
        self.wait_for(lambda: self.certificate() != before, "the certificate is the old one")
        self.ok("status", f"https://localhost:{self.web}")

    def test_who_did_what(self):
        """Contract: H-5. The host's log names the token and the request of every change."""
        self.init()
        self.start_secure()
        ann = self.ok("token", "ann", "--role", "submit", "--user", "ann").strip()
        answer = self.ask("POST", "/v1/workflows", LONG, token=ann, headers={"Content-Type": "application/yaml", "X-Request-Id": "r-17"})
        self.assertEqual((answer.status, answer.headers["X-Request-Id"]), (201, "r-17"))
        self.wait_for(lambda: "request=r-17 token=ann user=ann" in self.log("host"), "not in the log: ", lambda: self.log("host")[-500:])

    def test_rotation_with_two_valid_secrets(self):
        """Contract: H-5. Rotation without downtime."""
        self.init()
        self.start_secure()
        first = self.ok("token", "ann", "--role", "submit", "--user", "ann").strip()
        second = self.ok("token", "ann", "--rotate", "--keep", "1h").strip()
        self.assertNotEqual(first, second)
        for secret in (first, second):
            self.assertEqual(self.ask("GET", "/v1/workers", token=secret).status, 200)
        third = self.ok("token", "ann", "--rotate", "--state", self.state).strip()  # Without --keep.
        self.assertEqual([self.ask("GET", "/v1/workers", token=s).status for s in (first, second, third)], [401, 401, 200])


@unittest.skipUnless(shutil.which("redis-cli"), "redis-cli is not installed")
class Join(Tls):
    def redis(self, *arguments, user=None, password=None):
        account = ["--user", user, "--pass", password, "--no-auth-warning"] if user else []
        return subprocess.run(["redis-cli", "-p", str(self.port), *account, *arguments], capture_output=True, text=True,
                              timeout=LIMIT_S, check=False).stdout.strip()

    def test_a_worker_joins_with_an_identity_of_its_own(self):
        """Contract: H-5, U-1. It works, and can neither forge its inbox, nor touch another's, nor read the host."""
        self.start_redis()
        self.init()
        self.start_secure(redis=True, local=0)
        token = self.ok("token", "join", "--name", "gpu-*", "--ttl", "15m").strip()
        self.assertTrue(token.endswith("." + self.pin))
        del self.environment["ROTA_URL"], self.environment["ROTA_TOKEN"], self.environment["ROTA_CA"]
        refused = self.rota("worker", "--host", self.here, "--token", token, "--name", "cpu-1", "--gpu", "none")
        self.assertIn("gpu-*", refused.stderr)
        pinned = self.rota("worker", "--host", self.here, "--token", token[:-64] + "0" * 64, "--name", "gpu-1", "--gpu", "none")
        self.assertNotEqual(pinned.returncode, 0)
        for name in ("gpu-1", "gpu-2"):
            self.spawn(name, [ROTA, "worker", "--host", self.here, "--token", token, "--name", name, "--gpu", "none", "--heartbeat", "200ms",
                              "--dir", self.path(name)])
        self.wait_for_workers(2)
        self.write("w.yaml", TWO)
        code, _, error = self.submit("w.yaml", "--wait")
        self.assertEqual(code, 0, error)
        file = self.path("gpu-1/identity.json")
        self.assertEqual(stat.S_IMODE(os.stat(file).st_mode), 0o600)
        mine = json.loads(self.read("gpu-1/identity.json"))
        # Over HTTP: an identity renews itself, and nothing else. A join token joins, and nothing else.
        body = {"Content-Type": "application/json"}
        for secret in (mine["identity"], token[:-65]):
            for method, path in (("GET", "/v1/workers"), ("GET", "/v1/log"), ("GET", "/metrics"), ("POST", "/v1/workers/gpu-1/drain"), ("GET", "/v1/tokens")):
                self.assertEqual(self.ask(method, path, token=secret).status, 403, path)
            self.assertEqual(self.ask("POST", "/v1/workflows", TWO, token=secret, headers={"Content-Type": "application/yaml"}).status, 403)
        self.assertEqual(self.ask("POST", "/v1/workers/gpu-2/renew", "{}", token=mine["identity"], headers=body).status, 403)
        self.assertEqual(self.ask("POST", "/v1/workers/gpu-1/renew", "{}", token=token[:-65], headers=body).status, 403)
        renewed = self.ask("POST", "/v1/workers/gpu-1/renew", '{"redis": false}', token=mine["identity"], headers=body)
        self.assertEqual((renewed.status, renewed.json["redis_password"]), (200, ""))
        # At Redis, with the worker's own account.
        account = {"user": mine["redis_user"], "password": mine["redis_password"]}
        self.assertEqual(self.redis("PING", **account), "PONG")
        for command in (("XADD", "rota:to:gpu-1", "*", "m", "x"), ("XADD", "rota:to:gpu-2", "*", "m", "x"), ("XREAD", "STREAMS", "rota:to:gpu-2", "0"),
                        ("XADD", "rota:from:gpu-2", "*", "m", "x"), ("DEL", "rota:to:gpu-1"), ("XTRIM", "rota:from:gpu-1", "MAXLEN", "0"),
                        ("KEYS", "*"), ("ACL", "LIST"), ("FLUSHALL",), ("LPOP", "rota:join"), ("CONFIG", "GET", "*")):
            self.assertIn("NOPERM", self.redis(*command, **account), command)
        # It is started again without the join token, and its identity can be taken away.
        self.assertEqual(self.stop("gpu-1"), 0)
        self.spawn("gpu-1b", [ROTA, "worker", "--host", self.here, "--name", "gpu-1", "--gpu", "none", "--heartbeat", "200ms", "--dir", self.path("gpu-1")])
        self.wait_for_workers(2)
        # The former password. redis-cli itself goes on as the default user if it may not log in, hence AUTH.
        self.wait_for(lambda: "WRONGPASS" in self.redis("AUTH", account["user"], account["password"]), "it still works")
        self.assertEqual(self.ask("GET", "/livez", token="").status, 200)
        # An expired identity: the account is removed.
        for secret in ("", "rota_admin_" + "0" * 64):
            self.assertEqual(self.ask("POST", "/v1/workers/join", '{"name": "gpu-9"}', token=secret, headers=body).status, 401)

    def test_redis_forgets_the_accounts(self):
        """Contract: U-1, U-4, H-5. Redis is killed and restarted empty while workers that joined run tasks: they get new accounts
        and report what they ran, and every program runs once."""
        self.start_redis()
        self.init()
        self.start_secure(redis=True, local=0)
        token = self.ok("token", "join", "--name", "gpu-*", "--ttl", "15m").strip()
        for name in ("gpu-1", "gpu-2"):
            self.spawn(name, [ROTA, "worker", "--host", self.here, "--token", token, "--name", name, "--gpu", "none", "--cpu", "1",
                              "--heartbeat", "200ms", "--dir", self.path(name)])
        self.wait_for_workers(2)
        self.write("w.yaml", f"""
apiVersion: rota/v1
spec:
  stages:
    - name: a
      matrix: {{i: [1, 2]}}
      run: "echo ${{matrix.i}} >> {self.path('ran')}; while [ ! -e {self.path('go')} ]; do sleep 0.05; done"
    - name: b
      needs: [a]
      run: "true"
""")
        code, _, error = self.submit("w.yaml")
        self.assertEqual(code, 0, error)
        self.wait_for(lambda: os.path.exists(self.path("ran")) and len(self.read("ran").split()) == 2, "the tasks do not start")
        before = json.loads(self.read("gpu-1/identity.json"))["redis_password"]
        self.running["redis"].kill()
        self.running["redis"].wait(LIMIT_S)
        self.write("go", "")
        self.start_redis()
        self.wait_for(lambda: self.ask("GET", "/v1/workflows/wf-1").json["outcome"] == "succeeded", "it does not end: ",
                      lambda: self.log("gpu-1") + self.log("host"))
        self.assertEqual(sorted(self.read("ran").split()), ["1", "2"])
        self.assertNotEqual(json.loads(self.read("gpu-1/identity.json"))["redis_password"], before)
        self.assertEqual(self.stop("gpu-1"), 0)

    def test_a_host_without_redis_admits_nobody(self):
        """Contract: H-5."""
        self.init()
        self.start_secure()
        token = self.ok("token", "join", "--name", "*").strip().split(".")[0]
        answer = self.ask("POST", "/v1/workers/join", '{"name": "w"}', token=token, headers={"Content-Type": "application/json"})
        self.assertEqual(answer.status, 412, answer.body)
        long = self.rota("token", "join", "--name", "*", "--ttl", "48h")
        self.assertIn("24 h", long.stderr)
        self.assertNotEqual(self.rota("token", "join").returncode, 0)


if __name__ == "__main__":
    unittest.main()
