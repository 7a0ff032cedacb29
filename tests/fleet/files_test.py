"""Files between machines (U-6): made by a task on one worker, used by a task on another."""

import hashlib
import json
import os
import re
import shutil
import signal
import unittest

from fleet_support import LIMIT_S, ROTA, FleetCase, free_port, stages
from security_test import Tls

MIB = 1 << 20
# The file that passes through the fleet while its processes keep their size: 10737418240 for 10 GiB.
LARGE_BYTES = int(os.environ.get("ROTA_FILES_TEST_BYTES", 1 << 30))
# With its own data, a process of a sanitizer's build is several times as large.
MOST_RSS = 700 * MIB


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(MIB):
            digest.update(block)
    return digest.hexdigest()


def peak_rss(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmHWM:\s+(\d+) kB", file.read()).group(1)) * 1024


class Joined(Tls):
    """Workers that joined the fleet over HTTP and TLS: the host has the store."""

    def setUp(self):
        super().setUp()
        self.port_of_host = free_port()

    def start_fleet(self, *options):
        self.start_redis()
        self.init()
        self.start_again(*options)
        self.token = self.ok("token", "join", "--name", "m-*", "--ttl", "15m").strip()

    def start_again(self, *options):
        """The host, at the same address as before."""
        before = len(self.ports())
        self.start_host("--http", f"127.0.0.1:{self.port_of_host}", *options, redis=True)
        self.wait_for(lambda: len(self.ports()) > before, "no HTTP: ", lambda: self.log("host"))
        self.web = self.port_of_host
        self.here = f"https://127.0.0.1:{self.web}"
        self.wait_for_host()
        self.environment.update(ROTA_URL=self.here, ROTA_TOKEN=self.admin, ROTA_CA="sha256:" + self.pin)

    def join(self, name, *options):
        os.makedirs(self.path(name + "-work"), exist_ok=True)
        return self.spawn(name, [ROTA, "worker", "--host", self.here, "--token", self.token, "--name", name, "--gpu", "none",
                                 "--heartbeat", "200ms", "--dir", self.path(name), *options])

    def on(self, worker):
        """A stage runs on this worker, in a directory of its own: as on another machine."""
        return f"dir: {self.path(worker + '-work')}, resources: {{worker: {worker}}}"

    def outputs(self, task="wf-1.0"):
        return self.ask("GET", f"/v1/tasks/{task}/result").json["outputs"]

    def wait_for_partial(self, sha256, least=1):
        """Until the host has a part of the content, and not all of it."""
        path = os.path.join(self.state, "files", "partial", sha256)

        def is_partial():
            try:
                return os.stat(path).st_size >= least
            except FileNotFoundError:
                return False
        self.wait_for(is_partial, "no upload: ", lambda: self.log("host")[-2000:])
        return path


class Between(Joined):
    def test_a_file_from_one_machine_to_another(self):
        """Contract: U-6. By content, over TLS; and the next task that needs it goes where it is."""
        self.start_fleet()
        for name in ("m-1", "m-2", "m-3"):
            self.join(name)
        self.wait_for_workers(3)
        self.write("make.sh", "mkdir -p out; seq 1 200000 > out/numbers.txt; echo 'echo 42' > out/answer; chmod +x out/answer\n")
        self.write("use.sh", "printf '\"%s\"' $(sha256sum < out/numbers.txt | cut -c1-64)\n")
        self.write("w.yaml", stages(
            f"{{name: make, run: 'sh {self.path('make.sh')}', outputs: [out/], {self.on('m-1')}}}",
            f"{{name: use, needs: make, fetch: make, run: 'sh {self.path('use.sh')}', {self.on('m-2')}}}",
            f"{{name: near, needs: use, fetch: [{{stage: make, to: near}}], run: near/out/answer, dir: {self.path('m-3-work')}}}"))
        code, _, errors = self.submit("w.yaml", "--wait")
        self.assertEqual(code, 0, errors + self.log("m-2") + self.log("host")[-2000:])
        made = sha256_of(self.path("m-1-work/out/numbers.txt"))
        self.assertEqual(self.ask("GET", "/v1/tasks/wf-1.1/result").json["result"], made)
        self.assertEqual({file["path"]: (file["sha256"], file["executable"]) for file in self.outputs()},
                         {"out/numbers.txt": (made, False), "out/answer": (sha256_of(self.path("m-1-work/out/answer")), True)})
        self.assertEqual(self.ask("GET", "/v1/tasks/wf-1.2/result").json["result"], 42)
        # Placement: of three workers, those that have the files are m-1, which made them, and m-2, which fetched them.
        self.assertIn(self.ask("GET", "/v1/tasks/wf-1.2").json["worker"], ("m-1", "m-2"))
        self.assertRegex(self.ok("explain", self.here, "wf-1.0"), "it stored 2 files")
        # A user gets the content as well, or a part of it.
        whole = self.ask("GET", f"/v1/files/{made}")
        self.assertEqual(hashlib.sha256(whole.body).hexdigest(), made)
        part = self.ask("GET", f"/v1/files/{made}", headers={"Range": "bytes=2-5"})
        self.assertEqual((part.status, part.body), (206, whole.body[2:6]))
        self.assert_replays()

    def test_a_full_store_says_so(self):
        """Contract: U-6. The task fails once, with what is full and what raises the bound."""
        self.start_fleet("--files-bytes", "1MiB")
        self.join("m-1")
        self.wait_for_workers(1)
        self.write("w.yaml", stages(f"{{name: make, run: truncate -s 2M big, outputs: big, max_attempts: 3, {self.on('m-1')}}}"))
        self.assertEqual(self.submit("w.yaml", "--wait")[0], 1)
        task = self.ask("GET", "/v1/tasks/wf-1.0").json
        self.assertRegex(task["message"], "the output 'big' was not stored: the store of files in .* is full: it may have 1MiB, "
                                          "it has 0B, and a file of 2MiB does not fit; raise the bound with --files-bytes of the host")
        self.assertEqual(task["attempts"], 1)


class Faults(Joined):
    def make_large(self, megabytes):
        """A workflow whose first stage makes a file of this size; returns the SHA-256."""
        self.write("make.sh", f"truncate -s {megabytes}M large; printf end >> large\n")
        self.run_program(["sh", self.path("make.sh")], cwd=self.folder)
        sha256 = sha256_of(self.path("large"))
        os.unlink(self.path("large"))
        self.write("w.yaml", stages(f"{{name: make, run: 'sh {self.path('make.sh')}', outputs: large, {self.on('m-1')}}}",
                                    f"{{name: use, needs: make, fetch: make, run: wc -c < large, {self.on('m-2')}}}"))
        return sha256

    def begin(self, megabytes):
        self.start_fleet()
        for name in ("m-1", "m-2"):
            self.join(name)
        self.wait_for_workers(2)
        sha256 = self.make_large(megabytes)
        self.assertEqual(self.submit("w.yaml")[0], 0)
        return sha256

    def finish(self, sha256, megabytes):
        run = self.wait_for_end()
        self.assertEqual(run["outcome"], "succeeded", self.log("m-1")[-2000:] + self.log("m-2")[-2000:])
        self.assertEqual(self.ask("GET", "/v1/tasks/wf-1.1/result").json["result"], megabytes * MIB + 3)
        self.assertEqual(sha256_of(self.path("m-2-work/large")), sha256)
        self.assertEqual(os.listdir(os.path.join(self.state, "files", "partial")), [])
        self.assert_replays()

    def test_a_worker_that_is_killed_while_it_uploads(self):
        """Contract: U-6. What the host has of the file stays, and the next attempt sends the rest."""
        sha256 = self.begin(512)
        partial = self.wait_for_partial(sha256, MIB)
        self.running["m-1"].send_signal(signal.SIGSTOP)
        self.assertTrue(os.path.exists(partial), "the upload was complete before the worker could be stopped")
        self.kill("m-1")
        before = os.stat(partial).st_size
        self.assertGreater(before, 0)
        self.join("m-1")
        self.finish(sha256, 512)

    def test_a_host_that_is_killed_during_an_upload(self):
        """Contract: U-6. The worker waits for the host and goes on with what the host has; the task is not run again."""
        sha256 = self.begin(512)
        partial = self.wait_for_partial(sha256, MIB)
        self.kill("host")
        self.assertTrue(os.path.exists(partial), "the upload was complete before the host could be killed")
        self.start_again()
        self.finish(sha256, 512)
        self.assertEqual(self.ask("GET", "/v1/tasks/wf-1.0").json["attempt"], 1)

    def test_a_content_that_is_damaged_at_the_host(self):
        """Contract: U-6. It is found where it is fetched, and removed, so that a retry of the stage stores it again."""
        self.start_fleet()
        for name in ("m-1", "m-2"):
            self.join(name)
        self.wait_for_workers(2)
        release = self.path("release")
        self.write("w.yaml", stages(
            f"{{name: make, run: echo hello > x, outputs: x, {self.on('m-1')}}}",
            f"{{name: wait, needs: make, run: 'until test -e {release}; do sleep 0.05; done', {self.on('m-1')}}}",
            f"{{name: use, needs: wait, fetch: make, run: cat x, max_attempts: 1, {self.on('m-2')}}}"))
        self.assertEqual(self.submit("w.yaml")[0], 0)
        self.wait_for(self.outputs, "nothing was stored")
        sha256 = self.outputs()[0]["sha256"]
        content = os.path.join(self.state, "files", "sha256", sha256[:2], sha256[2:])
        os.chmod(content, 0o644)
        with open(content, "r+b") as file:
            file.write(b"J")
        self.write("release", "")
        self.assertEqual(self.wait_for_end()["outcome"], "failed")
        self.assertRegex(self.ask("GET", "/v1/tasks/wf-1.2").json["message"], "the file 'x' was not fetched: .* is damaged")
        self.assertFalse(os.path.exists(content))
        self.assertFalse(os.path.exists(self.path("m-2-work/x")))


class Large(Joined):
    def test_memory_does_not_grow_with_the_file(self):
        """Contract: U-6. A large file passes through host and workers, and each of them stays small."""
        if shutil.disk_usage(self.folder).free < 64 * MIB:
            self.skipTest("no room")
        self.start_fleet("--files-bytes", "1TiB")
        for name in ("m-1", "m-2"):
            self.join(name, "--files-cache-bytes", "1TiB")
        self.wait_for_workers(2)
        # A file with holes: what counts is what is read, sent and hashed.
        self.write("w.yaml", stages(
            f"{{name: make, run: 'truncate -s {LARGE_BYTES} large; printf x >> large', outputs: large, {self.on('m-1')}}}",
            f"{{name: use, needs: make, fetch: make, run: wc -c < large, {self.on('m-2')}}}"))
        code, _, errors = self.submit("w.yaml", "--wait", timeout=max(LIMIT_S, LARGE_BYTES // (10 * MIB)))
        self.assertEqual(code, 0, errors)
        self.assertEqual(self.ask("GET", "/v1/tasks/wf-1.1/result").json["result"], LARGE_BYTES + 1)
        for name in ("host", "m-1", "m-2"):
            self.assertLess(peak_rss(self.running[name].pid), MOST_RSS, name)


class Shared(FleetCase):
    def test_a_folder_that_all_machines_share(self):
        """Contract: U-6. Workers that use Redis alone, with a folder for the files."""
        self.start_redis()
        self.start_host()
        for name in ("a", "b"):
            os.makedirs(self.path(name + "-work"))
            self.start_worker(name, "--dir", self.path(name), "--files", self.path("shared"))
        self.wait_for_workers(2)
        on = {name: f"dir: {self.path(name + '-work')}, resources: {{worker: {name}}}" for name in ("a", "b")}
        self.write("w.yaml", stages(
            f"{{name: part, matrix: {{n: [1, 2, 3]}}, run: 'echo ${{matrix.n}} > part-${{matrix.n}}', outputs: 'part-${{matrix.n}}', {on['a']}}}",
            f"{{name: sum, needs: part, fetch: [{{stage: part, to: in}}], run: 'cat in/part-*', {on['b']}}}"))
        code, _, errors = self.submit("w.yaml", "--wait")
        self.assertEqual(code, 0, errors)
        done = self.rota("status", self.state, "--json", "--all")
        self.assertEqual(json.loads(done.stdout)["runs"][0]["workflows"][0]["outcome"], "succeeded")
        self.assertEqual(sorted(os.listdir(self.path("b-work/in"))), ["part-1", "part-2", "part-3"])
        self.assertEqual(len([name for _, _, files in os.walk(self.path("shared/sha256")) for name in files]), 3)


class OneMachine(FleetCase):
    def contents(self):
        return sorted(os.path.join(folder, name) for folder, _, files in os.walk(self.path(".rota/w.yaml/files/sha256")) for name in files)

    def test_rota_run(self):
        """Contract: U-6. `rota run` keeps files in its state folder: a later stage, and a later run, find them there."""
        for name in ("one", "two"):
            os.makedirs(self.path(name))
        self.write("input", "1")
        self.write("w.yaml", stages(
            f"{{name: make, run: 'cat {self.path('input')} > out; echo ran >> {self.path('log')}', outputs: out, dir: one}}",
            "{name: use, needs: make, fetch: [{stage: make, to: deep/in}], run: cat deep/in/out, dir: two}"))
        done = self.rota("run", "w.yaml", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.read("two/deep/in/out"), "1")
        self.assertEqual(len(self.contents()), 1)
        # The second stage was edited: the first keeps its result, and its file is fetched from the state folder.
        shutil.rmtree(self.path("one"))
        shutil.rmtree(self.path("two"))
        os.makedirs(self.path("one"))
        os.makedirs(self.path("two"))
        self.write("w.yaml", self.read("w.yaml").replace("deep/in", "again"))
        done = self.rota("run", "w.yaml", "--from", "use")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.read("log"), "ran\n")
        self.assertEqual(self.read("two/again/out"), "1")
        # The file is no longer stored: the stage runs again.
        shutil.rmtree(self.path(".rota/w.yaml/files"))
        self.write("w.yaml", self.read("w.yaml").replace("again", "third"))
        done = self.rota("run", "w.yaml", "--from", "use")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.read("log"), "ran\nran\n")
        self.assertEqual(self.read("two/third/out"), "1")
        # A file of an older run goes with `rota clean`, one of the latest run stays.
        self.write("input", "2")
        done = self.rota("run", "w.yaml", "--fresh")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(self.contents()), 2)
        would = self.rota("clean", "w.yaml", "--dry-run")
        self.assertIn("would remove 1 stored file of older runs, 1 bytes", would.stdout, would.stderr)
        self.assertEqual(len(self.contents()), 2)
        self.assertEqual(self.rota("clean", "w.yaml").returncode, 0)
        self.assertEqual([sha256_of(path) for path in self.contents()], [hashlib.sha256(b"2").hexdigest()])

    def test_a_bound_and_a_missing_output(self):
        """Contract: U-6."""
        self.write("w.yaml", stages("{name: make, run: echo hello > out, outputs: out, max_attempts: 1}"))
        done = self.rota("run", "w.yaml", "--files-bytes", "3B")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is full: it may have 3B, it has 0B, and a file of 6B does not fit; raise the bound with --files-bytes",
                      done.stdout + done.stderr)
        self.write("w.yaml", stages("{name: make, run: 'true', outputs: [none], max_attempts: 1}"))
        done = self.rota("run", "w.yaml")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the task made no file 'none', which its outputs name", done.stdout + done.stderr)
        self.assertIn("'lots' is not a size", self.rota("run", "w.yaml", "--files-bytes", "lots").stderr)


if __name__ == "__main__":
    unittest.main()
