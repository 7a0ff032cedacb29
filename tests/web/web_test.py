"""The dashboard in a real browser, against a real host with real work (W-1, P-21). browser.mjs has what each scenario does.

The program is the dev build's; ROTA_COMMAND=<path> tests another one. Without Node, Chromium or web/node_modules the tests
are skipped, and say what is missing: `./dev setup` installs it. ROTA_WEB_TASKS is the number of tasks of the large run.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "cli"))
from support import free_port  # noqa: E402  pylint: disable=wrong-import-position

ROOT = os.path.dirname(os.path.dirname(HERE))
ROTA = os.environ.get("ROTA_COMMAND") or os.path.join(ROOT, "build", "dev", "src", "cli", "rota")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium-headless-shell") or shutil.which("chromium")
LIMIT_S = 600  # It costs time only when a test fails.
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202eאבג \U0001f600 "


def missing():
    if shutil.which("node") is None:
        return "node is not installed"
    if not os.path.isdir(os.path.join(ROOT, "web", "node_modules", "esbuild")):
        return "web/node_modules is missing: run `npm ci` in web/"
    return None


def workflow(name, *stages):
    return json.dumps({"apiVersion": "rota/v1", "kind": "Workflow", "metadata": {"name": name}, "spec": {"stages": list(stages)}})


class Host:
    """A host with one local worker of two CPUs, its address and its token."""

    def __init__(self, folder):
        self.folder = folder
        self.state = os.path.join(folder, "state")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None
        self.index = "0"
        self.start()

    def start(self):
        log_path = os.path.join(self.folder, "host.log")
        with open(log_path, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [ROTA, "host", "--state", self.state, "--http", f"127.0.0.1:{self.port}", "--local-workers", "1", "--drain", "0s"],
                cwd=self.folder, stdout=log, stderr=log)
        until = time.monotonic() + LIMIT_S
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > until:
                self.process.kill()
                with open(log_path, encoding="utf-8") as log:
                    raise AssertionError(f"the host does not serve, status {self.process.wait()}: {log.read()[-3000:]}")
            time.sleep(0.05)
        with open(os.path.join(self.state, "admin.token"), encoding="utf-8") as file:
            self.token = file.read().strip()

    def is_ready(self):
        try:
            with urllib.request.urlopen(self.url + "/readyz", timeout=LIMIT_S) as answer:
                return answer.status == 200
        except OSError:
            return False

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(LIMIT_S)

    def ask(self, path, body=None, method=None):
        request = urllib.request.Request(self.url + path, data=body and body.encode(), method=method, headers={
            "Authorization": "Bearer " + self.token, "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
                self.index = answer.headers["Rota-Index"]
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read().decode()[:2000]}") from error

    def submit(self, text):
        return self.ask("/v1/workflows", text)

    def wait(self, path, condition):
        until = time.monotonic() + LIMIT_S
        while not condition(found := self.ask(f"{path}{'&' if '?' in path else '?'}wait_index={self.index}&wait=1")):
            if time.monotonic() > until:
                raise AssertionError(f"{path} did not become what was expected: {str(found)[:2000]}")
        return found


@unittest.skipIf(missing(), f"the dashboard is not tested: {missing()}")
class PageTest(unittest.TestCase):
    # W-1: the page that the program embeds is what web/src builds.
    def test_the_committed_page_is_what_the_source_builds(self):
        web = os.path.join(ROOT, "web")
        done = subprocess.run(["node", "build.mjs", "--check"], cwd=web, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # P-21: what a browser loads, gzipped.
        self.assertLess(json.loads(done.stdout)["gzip_bytes"], 80_000)

    # W-1: the types of the page agree with themselves.
    def test_the_source_has_no_type_errors(self):
        done = subprocess.run(["node", "node_modules/typescript/bin/tsc", "--noEmit"], cwd=os.path.join(ROOT, "web"),
                              capture_output=True, text=True, check=False, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stdout)


class BrowserCase(unittest.TestCase):
    """Runs scenarios of browser.mjs against a host of the class."""

    @classmethod
    def setUpClass(cls):
        if missing() or CHROMIUM is None:
            raise unittest.SkipTest(f"the dashboard is not tested: {missing() or 'chromium-headless-shell is not installed'}")
        # What a program of the host writes while the folder is removed is no failure.
        folder = tempfile.TemporaryDirectory(prefix="rota-web-test-", ignore_cleanup_errors=True)
        cls.addClassCleanup(folder.cleanup)
        cls.host = Host(folder.name)
        cls.addClassCleanup(lambda: cls.host.stop())
        cls.environment = {**os.environ, "BASE": cls.host.url, "TOKEN": cls.host.token, "CHROMIUM": CHROMIUM}

    def browser(self, scenario, **environment):
        process = subprocess.Popen(["node", os.path.join(HERE, "browser.mjs"), scenario], text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={**self.environment, **environment})
        for end in (process.stdout.close, process.stderr.close, process.wait, process.kill):
            self.addCleanup(end)
        return process

    def hear(self, process, word):
        """The next line of a scenario. Its own limits end it, with a reason, if the page does not come so far."""
        line = process.stdout.readline()
        if line != word + "\n":
            self.fail(f"{word} was expected, not {line!r}: {process.stderr.read()}")

    def finish(self, process):
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
        self.assertEqual(process.returncode, 0, out + err)
        return json.loads(out.strip().splitlines()[-1])

    def scenario(self, name, **environment):
        return self.finish(self.browser(name, **environment))


class ViewsTest(BrowserCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cores = max(1, os.cpu_count() or 1)
        run = cls.host.submit(workflow(
            "main",
            {"name": "prep", "run": "true"},
            {"name": "bad", "needs": ["prep"], "run": "echo no luck >&2; exit 3", "max_attempts": 2, "retry": {"backoff": "10ms"},
             "priority": 10, "resources": {"hardware": {"cpu": "100m"}}},
            {"name": "talk", "needs": ["prep"], "run": "for i in 1 2 3 4 5; do echo line $i; done; sleep 1000", "priority": 10, "resources": {"hardware": {"cpu": "100m"}}},
            {"name": "many", "needs": ["prep"], "run": "sleep 1000", "resources": {"hardware": {"cpu": "500m"}}, "matrix": {"x": list(range(2 * cores + 8))}},
            {"name": "last", "needs": ["many"], "run": "true"}))
        cls.early = run["index"]
        victim = cls.host.submit(workflow("victim", {"name": "only", "run": "sleep 1000", "resources": {"hardware": {"cpu": "100m"}}}))["workflow"]
        # Names have at most 256 bytes; what a program writes has any number.
        shout = f"echo '{HOSTILE}{'x' * 10_000}' >&2; echo '{HOSTILE}'; exit 1"
        cls.hostile = cls.host.submit(workflow(HOSTILE + "y" * 100, {"name": "shout", "run": shout, "resources": {"hardware": {"cpu": "100m"}}}))["workflow"]
        cls.host.wait("/v1/workflows/wf-1/graph?level=task", lambda g: g["tasks"][1] == "f" and "r" in g["tasks"] and g["tasks"][2] == "a")
        cls.host.wait(f"/v1/workflows/{cls.hostile}", lambda w: w["outcome"] == "failed")
        letters = cls.host.ask("/v1/workflows/wf-1/graph?level=task")["tasks"]
        waiting = f"wf-1.{letters.rindex('r')}"
        cls.host.wait(f"/v1/tasks/{waiting}/explain", lambda why: why["reason"] == "no_room")
        cls.environment |= {"WORKFLOW": "wf-1", "WAITING": waiting, "EARLY": str(cls.early), "VICTIM": victim, "HOSTILE": cls.hostile,
                            "TALKER": "wf-1.2"}

    # W-1: the token.
    def test_token(self):
        self.scenario("token")

    # W-1: six views, light, dark and on a phone, without findings of axe.
    def test_views(self):
        self.scenario("views")

    # W-1: why a task waits, now and at a past moment.
    def test_why(self):
        facts = self.scenario("why")
        self.assertIn("could run it", facts["sentence"])

    # W-1: the bar that scrubs through the log and plays it.
    def test_cursor(self):
        self.scenario("cursor")

    # W-1: one selection in graph, timeline and table; lineage, critical path, failed only.
    def test_selection(self):
        self.scenario("selection")

    # W-1: control of one or many, answered with the log index.
    def test_control(self):
        self.scenario("control")

    # W-1: logs, followed and searched.
    def test_logs(self):
        if "/v1/tasks/{id}/logs" not in self.host.ask("/openapi.json")["paths"]:
            self.skipTest("this host does not serve what tasks write")
        self.scenario("logs")

    # W-1: decisions; another policy side by side.
    def test_decisions(self):
        self.scenario("decisions")

    # W-1: lineage, a stage and its tasks, zoom, brush, waits of the past by reason.
    def test_gestures(self):
        self.scenario("gestures")

    # W-1: density, now and in the past.
    def test_density(self):
        self.scenario("density")

    # W-1, Y-9: controls answer, results are shown as they are, and the page stays live while the log stands still.
    def test_answers(self):
        digits = self.host.submit(workflow("digits", {"name": "d", "run": "echo '{\"n\": 12345678901234567890, \"e\": [1e-4, {}]}'",
                                                      "resources": {"hardware": {"cpu": "100m"}}, "priority": 100}))["workflow"]
        self.host.wait(f"/v1/workflows/{digits}", lambda w: w["outcome"] == "succeeded")
        self.scenario("answers", DIGITS=digits)

    # W-1, S-3: another fleet side by side.
    def test_another_fleet(self):
        self.scenario("fleet")

    # W-1: everything works by keyboard, with a visible focus.
    def test_keyboard(self):
        self.scenario("keyboard")

    # W-1: zoomed to 200 %.
    def test_zoomed(self):
        self.scenario("zoomed")

    # W-1: a browser whose clock is wrong.
    def test_clock(self):
        self.scenario("clock")

    # W-1: wrong addresses.
    def test_addresses(self):
        self.scenario("addresses")

    # W-1: a second tab shares the stream.
    def test_tabs(self):
        self.scenario("tabs")

    # W-1: names are text.
    def test_hostile_names(self):
        self.scenario("hostile")

    # W-1: a token that is revoked.
    def test_expired_token(self):
        made = subprocess.run([ROTA, "token", "short", "--role", "read", "--state", self.host.state, "--json"], capture_output=True,
                              text=True, check=True, timeout=LIMIT_S)
        process = self.browser("expired", TOKEN=json.loads(made.stdout)["token"])
        self.hear(process, "READY")
        subprocess.run([ROTA, "token", "short", "--revoke", "--state", self.host.state], check=True, capture_output=True, timeout=LIMIT_S)
        self.host.submit(workflow("news", {"name": "a", "run": "true", "resources": {"hardware": {"cpu": "100m"}}}))  # Something to read.
        self.finish(process)


class LocalTest(unittest.TestCase):
    """`rota run --web` and `rota view`: the same page for the user who started the process."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rota-web-test-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(os.path.join(self.folder, "w.yaml"), "w", encoding="utf-8") as file:
            file.write(workflow("local", {"name": "a", "run": "while ! [ -e go ]; do sleep 0.05; done"}, {"name": "b", "needs": ["a"], "run": "true"}))

    def start(self, *arguments):
        process = subprocess.Popen([ROTA, *arguments], cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if "the dashboard is at " in line:
                url, token = line.split("the dashboard is at ")[1].strip().split("/#token=")
                return process, url, token
        self.fail("no address was printed")

    def ask(self, url, token, path, method="GET"):
        request = urllib.request.Request(url + path, method=method, headers={"Authorization": "Bearer " + token})
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    # W-1: the dashboard of a local run, and of the same run when it is over, which cannot be changed.
    def test_run_and_view(self):
        process, url, token = self.start("run", "w.yaml", "--web")
        with urllib.request.urlopen(url + "/", timeout=LIMIT_S) as page:
            self.assertEqual(page.headers["Content-Encoding"], "gzip")
        self.assertEqual(self.ask(url, "rota_no_token", "/v1/version")[0], 401)
        until = time.monotonic() + LIMIT_S
        while True:
            status, graph = self.ask(url, token, "/v1/workflows/wf-1/graph?level=task")
            if status == 200 and graph["tasks"] == "aq":
                break
            self.assertLess(time.monotonic(), until, graph)
            time.sleep(0.05)
        with open(os.path.join(self.folder, "go"), "w", encoding="utf-8"):
            pass
        process.stdout.read()
        self.assertEqual(process.wait(LIMIT_S), 0)

        process, url, token = self.start("view", "w.yaml")
        self.assertTrue(self.ask(url, token, "/v1/version")[1]["read_only"])
        self.assertEqual(self.ask(url, token, "/v1/workflows/wf-1/graph?level=task")[1]["tasks"], "ss")
        accepted = self.ask(url, token, "/v1/overview")[1]["first_index"]
        self.assertEqual(self.ask(url, token, f"/v1/workflows/wf-1/graph?at={accepted}")[0], 404)  # It was not submitted yet.
        status, problem = self.ask(url, token, "/v1/workflows/wf-1/retry", "POST")
        self.assertEqual((status, problem["code"]), (412, "FailedPrecondition"))
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        self.assertEqual(process.wait(LIMIT_S), 0)


class OtherHostTest(BrowserCase):
    """A host of its own, which restarts, and gets very many tasks."""

    # W-1: the host restarts while the page is open.
    def test_restart(self):
        process = self.browser("restart")
        self.hear(process, "READY")
        self.host.stop()
        self.hear(process, "LOST")
        self.host.start()
        self.finish(process)

    # P-21: first paint and frame time with a run of 100,000 tasks; reported.
    def test_large(self):
        tasks = int(os.environ.get("ROTA_WEB_TASKS", "100000"))
        text = workflow("large", {"name": "first", "run": "true"},
                        {"name": "many", "run": "sleep 1000", "needs": ["first"], "matrix": {"x": list(range(tasks - 1))}})
        name = self.host.submit(text)["workflow"]
        facts = self.scenario("large", WORKFLOW=name)
        print(f"\nP-21 with {tasks} tasks: {json.dumps(facts)}")


if __name__ == "__main__":
    unittest.main()
