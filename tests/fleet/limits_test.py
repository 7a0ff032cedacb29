"""What is unusual gets a clear answer (U-1, U-2, U-4): names, two processes of one name, results and tasks that are too
large, and what a worker that has left leaves behind."""

import json
import os
import shutil
import subprocess
import unittest

from fleet_support import FleetCase, LIMIT_S, free_port, stages

# Everything that can be an argument of a program: no NUL, and UTF-8.
NAMES = ("a b", "a:b", "a%3Ab", "*", "[a-z]", "../x", "$HOME 'quoted' \"twice\"", "zwei\nzeilen", "ä-日本", "x" * 255)


class Limits(FleetCase):
    def failure(self, name):
        """What `explain` says about a task that failed."""
        done = self.rota("explain", self.state, name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_names_with_any_character(self):
        """Contract: U-1. A worker may have any name of 1 to 255 bytes: it registers, runs the task pinned to it, and leaves."""
        self.start_redis()
        self.start_host()
        for number, name in enumerate(NAMES):
            self.spawn(f"w{number}", [*self.worker_command(name), "--cpu", "1"])
        self.wait_for_workers(len(NAMES))
        self.assertEqual(set(self.workers()), set(NAMES))
        lines = [f"{{name: t{i}, needs: [], resources: {{worker: {json.dumps(name)}}}, run: 'echo {i}'}}"
                 for i, name in enumerate(NAMES)]
        self.write("w.yaml", stages(*lines))
        status, _, errors = self.submit("w.yaml", "--wait")
        self.assertEqual(status, 0, errors + self.log("host")[-3000:])
        self.assertEqual([task["worker"] for task in self.workflow()["tasks"]], list(NAMES))
        for number in range(len(NAMES)):
            self.assertEqual(self.stop(f"w{number}"), 0, self.log(f"w{number}"))
        # They have said that they leave; the host decides it in its own time.
        self.wait_for(lambda: not self.workers(), "they are still there: ", lambda: f"{self.workers()}")
        done = self.rota(*self.worker_command("x" * 256)[1:])
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("text of at most 255 bytes", done.stderr)

    def test_two_processes_of_one_name(self):
        """Contract: U-1, U-4. The newer one works. The older one stops its task, which the newer one runs again, and ends with an
        error that names the reason."""
        self.start_redis()
        self.start_host()
        self.start_worker("one", "--cpu", "1")
        self.wait_for_workers(1)
        self.write("w.yaml", stages("{name: a, run: 'echo $$ >> ran; while [ ! -e go ]; do sleep 0.02; done; echo 1'}"))
        self.assertEqual(self.submit("w.yaml")[0], 0)
        self.wait_for(lambda: len(self.read("ran").split()) == 1)
        older = self.running.pop("one")
        newer = self.spawn("newer", [*self.worker_command("one"), "--cpu", "1"])
        self.assertNotEqual(older.wait(LIMIT_S), 0)
        self.assertIn("another process has taken the name 'one'", self.log("one"))
        self.wait_for(lambda: len(self.read("ran").split()) == 2)
        self.wait_for(lambda: not os.path.exists(f"/proc/{self.read('ran').split()[0]}"), "the older one's program runs on")
        self.write("go", "")
        end = self.wait_for_end()
        self.assertEqual((end["outcome"], end["tasks"][0]["attempts"]), ("succeeded", 2), self.log("host"))
        self.assertIsNone(newer.poll(), self.log("newer"))

    def test_a_result_of_100_mb(self):
        """Contract: U-1. The task fails and says what the limit is; others continue."""
        self.start_redis()
        self.start_host()
        self.start_worker("one", "--cpu", "1")
        self.wait_for_workers(1)
        self.write("w.yaml", stages(
            "{name: file, max_attempts: 1, run: 'head -c 100000000 /dev/zero | tr \"\\0\" 1 > $ROTA_RESULT'}",
            "{name: line, needs: [], max_attempts: 1, run: 'head -c 100000000 /dev/zero | tr \"\\0\" 1'}",
            "{name: small, needs: [], run: 'echo 1'}"))
        self.submit("w.yaml", "--wait", timeout=4 * LIMIT_S)
        tasks = {task["name"]: task for task in self.workflow()["tasks"]}
        self.assertEqual({name: task["state"] for name, task in tasks.items()},
                         {"file": "failed", "line": "failed", "small": "succeeded"}, self.failure("file"))
        self.assertIn("100000000 bytes", self.failure("file"))
        self.assertIn("at most", self.failure("file"))
        self.assertIn("more than 1048576 bytes", self.failure("line"))

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_redis_over_tls(self):
        """Contract: U-1, H-5. A fleet over rediss:// with a CA of its own; without the CA the program ends and says what to give."""
        done = self.rota("worker", "--redis", self.url.replace("redis:", "rediss:"))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--redis-ca", done.stderr)
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                               "-days", "2", "-keyout", self.path("key.pem"), "-out", self.path("ca.pem"), "-subj",
                               "/CN=redis", "-addext", "subjectAltName=IP:127.0.0.1"], check=False, capture_output=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        plain, self.port = self.port, free_port()
        self.url = f"rediss://127.0.0.1:{plain}"
        redis = self.start_redis("--tls-port", str(plain), "--tls-cert-file", self.path("ca.pem"), "--tls-key-file",
                                 self.path("key.pem"), "--tls-auth-clients", "no")
        self.environment["ROTA_REDIS_CA"] = self.path("ca.pem")
        self.start_host()
        self.start_worker("one", "--cpu", "1")
        self.wait_for_workers(1)
        self.assertIsNone(redis.poll(), self.log("redis"))
        self.write("w.yaml", stages("{name: a, run: 'echo 1'}"))
        status, _, errors = self.submit("w.yaml", "--wait")
        self.assertEqual(status, 0, errors + self.log("host"))

    def test_a_full_disk(self):
        """Contract: L-2. The host says that its disk is full, ends with an error and accepts nothing; running tasks continue.
        When there is room, the next host has lost nothing."""
        os.mkdir(self.state)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", self.state], check=False,
                          stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("a small file system needs the permission to mount one; tests/fleet/chaos_test.py limits the "
                          "size of files instead")
        self.addCleanup(subprocess.run, ["umount", "--lazy", self.state], check=True)
        self.start_redis()
        host = self.start_host()
        self.start_worker("one", "--cpu", "1")
        self.wait_for_workers(1)
        self.write("w.yaml", stages("{name: a, run: 'touch started; while [ ! -e go ]; do sleep 0.02; done; echo 1'}"))
        self.assertEqual(self.submit("w.yaml")[0], 0)
        self.wait_for(lambda: os.path.exists(self.path("started")))
        ballast = os.path.join(self.state, "ballast")
        subprocess.run(["dd", "if=/dev/zero", f"of={ballast}", "bs=4096"], check=False, stderr=subprocess.DEVNULL)
        self.write("large.yaml", stages(f"{{name: b, env: {{X: '{'x' * 100000}'}}, run: 'echo 1'}}"))
        accepted = 1
        for _ in range(100):  # There may be room for some in the files that exist.
            status, _, errors = self.submit("large.yaml")
            if status != 0:
                break
            accepted += 1
        self.assertNotEqual(status, 0)
        self.assertEqual(host.wait(LIMIT_S), 5, self.log("host"))
        self.assertIn("full", self.log("host"))
        os.unlink(ballast)
        self.start_host()
        self.wait_for_host()
        self.write("go", "")
        self.wait_for(lambda: len(self.all_workflows()) >= accepted
                      and all(w["outcome"] == "succeeded" for w in self.all_workflows()), "not all ended: ",
                      lambda: f"{accepted} {self.all_workflows()} {self.log('host')[-2000:]} {errors}")
        self.assertLessEqual(len(self.all_workflows()), accepted + 1)  # The last one: its answer was lost.
        for name in ("one", "host"):
            self.assertEqual(self.stop(name), 0, self.log(name))
        self.assert_replays()

    def all_workflows(self):
        done = self.rota("status", self.state, "--json", "--all")
        return json.loads(done.stdout)["runs"][0]["workflows"] if done.returncode == 0 else []


if __name__ == "__main__":
    unittest.main()
