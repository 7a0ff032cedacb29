"""The HTTP interface of `rota host --http`, with real clients: curl and Python's standard library (H-1, H-2, H-5, H-6).

Every answer is validated against the schema that /openapi.json has for it, also those to requests that are drawn at
random from the specification (ROTA_HTTP_REQUESTS=20000 is the long form).
"""

import http.client
import gzip
import json
import os
import random
import re
import shutil
import socket
import ssl
import stat
import subprocess
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from fleet_support import LIMIT_S, ROTA, FleetCase, stages

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REQUESTS = int(os.environ.get("ROTA_HTTP_REQUESTS", "1500"))
TWO = stages("{name: a, run: 'echo 41'}", "{name: b, needs: [a], run: 'echo ${a.result}'}")
LONG = stages("{name: long, run: 'exec sleep 1000'}")
YAML = {"Content-Type": "application/yaml"}


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)


def validate(schema, value, spec, where="answer"):
    """The part of JSON Schema that the specification uses; a member that no schema names is an error as well."""
    if "$ref" in schema:
        return validate(spec["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]], value, spec, where)
    if not schema:
        return None
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", type(None): "null"}
    assert names.get(type(value)) in kinds, f"{where}: {value!r} is not {kinds}"
    if isinstance(value, dict) and "properties" in schema:
        assert set(value) == set(schema["properties"]) == set(schema["required"]), f"{where}: members {sorted(value)}"
        for name, member in value.items():
            validate(schema["properties"][name], member, spec, f"{where}.{name}")
    if isinstance(value, list):
        for element in value:
            validate(schema["items"], element, spec, where + "[]")
    if schema.get("format") == "date-time" and value is not None:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", value), f"{where}: {value!r} is not a time"
    return None


def spectral():
    """The linter of OpenAPI files, if it is installed: npm install --ignore-scripts @stoplight/spectral-cli@6.16."""
    own = os.path.join(ROOT, "web/node_modules/.bin/spectral")
    return os.environ.get("ROTA_SPECTRAL") or (own if os.path.exists(own) else shutil.which("spectral"))


class HttpCase(FleetCase):
    """A host alone, with a local worker and the HTTP interface on a free port of loopback."""

    scheme = "http"
    web = 0
    admin = ""

    def ports(self):
        return re.findall(r" http url=\S*?://127.0.0.1:(\d+)", self.log("host"))

    def start_http(self, *options):
        before = len(self.ports())
        self.start_host("--http", "127.0.0.1:0", *options, redis=False, local=1)
        self.wait_for(lambda: len(self.ports()) > before, "no HTTP: ", lambda: self.log("host"))
        self.web = int(self.ports()[-1])
        self.wait_for_workers(1)
        self.admin = self.read("host/admin.token").strip()

    def token(self, name, role, *options):
        done = self.rota("token", name, "--role", role, "--state", self.state, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def context(self):
        return None

    def ask(self, method, path, body=None, token=None, headers=None):
        request = urllib.request.Request(f"{self.scheme}://localhost:{self.web}{path}", method=method, headers=dict(headers or {}),
                                         data=None if body is None else body.encode())
        if token != "":
            request.add_header("Authorization", "Bearer " + (token or self.admin))
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S, context=self.context()) as reply:
                return Answer(reply.status, reply.headers, reply.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read())

    def submit_http(self, text, **options):
        answer = self.ask("POST", "/v1/workflows", text, headers={**YAML, **options.pop("headers", {})}, **options)
        self.assertIn(answer.status, (200, 201), answer.body)
        return answer.json["workflow"]

    def wait_for_outcome(self, workflow, outcome):
        index = 0
        until = time.monotonic() + LIMIT_S
        while True:
            answer = self.ask("GET", f"/v1/workflows/{workflow}?wait_index={index}&wait=30")
            if answer.json["outcome"] == outcome:
                return answer.json
            self.assertLess(time.monotonic(), until, f"{workflow} did not end: {answer.body}")
            index = int(answer.headers["Rota-Index"])


class Routes(HttpCase):
    def test_every_route(self):
        """Contract: H-1. Each route of the specification is used, and answers by its schema."""
        self.start_http()
        spec = self.ask("GET", "/openapi.json").json
        used = set()

        def use(operation, path, status=200, body=None, headers=None, token=None):
            template, method = next((p, m) for p, ms in spec["paths"].items() for m, o in ms.items() if o["operationId"] == operation)
            answer = self.ask(method.upper(), path, body, token, headers)
            self.assertEqual(answer.status, status, f"{operation}: {answer.body}")
            self.check(spec, template, method, answer)
            used.add(operation)
            return answer

        patch = {"Content-Type": "application/json"}
        use("getLiveness", "/livez", token="")
        use("getReadiness", "/readyz", token="")
        self.assertEqual(use("getVersion", "/v1/version").json["api"], "v1")
        use("getSpecification", "/openapi.json")
        self.assertEqual(use("validateWorkflow", "/v1/validate", body=TWO, headers=YAML).json["tasks"], 2)
        first = use("submitWorkflow", "/v1/workflows", 201, TWO, {**YAML, "Idempotency-Key": "k1"}).json["workflow"]
        self.assertEqual(self.wait_for_outcome(first, "succeeded")["states"]["succeeded"], 2)
        again = use("submitWorkflow", "/v1/workflows", 200, TWO, {**YAML, "Idempotency-Key": "k1"})
        self.assertEqual((again.json["workflow"], again.headers["Idempotency-Replayed"]), (first, "true"))
        use("submitWorkflow", "/v1/workflows", 422, LONG, {**YAML, "Idempotency-Key": "k1"})
        use("submitWorkflow", "/v1/workflows", 400, "apiVersion: rota/v1\nspec: {stages: [{name: a, rnu: x}]}\n", YAML)
        as_json = json.dumps({"apiVersion": "rota/v1", "spec": {"stages": [{"name": "long", "run": "exec sleep 1000"}]}})
        second = use("submitWorkflow", "/v1/workflows", 201, as_json, patch).json["workflow"]
        task = second + ".0"
        self.assertEqual([w["id"] for w in use("listWorkflows", "/v1/workflows").json["items"]], [second, first])
        use("getWorkflow", "/v1/workflows/" + second)
        use("getWorkflow", "/v1/workflows/wf-99", 404)
        self.wait_for(lambda: self.ask("GET", "/v1/tasks/" + task).json["state"] == "running")
        self.assertEqual(use("listTasks", f"/v1/tasks?workflow={second}").json["items"][0]["id"], task)
        use("getTask", "/v1/tasks/" + task)
        self.assertEqual(use("explainTask", f"/v1/tasks/{task}/explain").json["reason"], "running")
        self.assertEqual(use("getTaskResult", f"/v1/tasks/{first}.1/result").json["result"], 41)
        use("setWorkflowPriority", "/v1/workflows/" + second, body='{"priority": 5}', headers=patch)
        use("setTaskPriority", "/v1/tasks/" + task, body='{"priority": 6}', headers=patch)
        use("pauseWorkflow", f"/v1/workflows/{second}/pause")
        use("resumeWorkflow", f"/v1/workflows/{second}/resume")
        use("pauseTask", f"/v1/tasks/{task}/pause")
        use("resumeTask", f"/v1/tasks/{task}/resume")
        use("cancelTask", f"/v1/tasks/{task}/cancel")
        self.wait_for_outcome(second, "cancelled")
        use("cancelWorkflow", f"/v1/workflows/{second}/cancel", 412)
        use("retryTask", f"/v1/tasks/{task}/retry")
        use("cancelWorkflow", f"/v1/workflows/{second}/cancel")
        self.wait_for_outcome(second, "cancelled")
        use("retryWorkflow", f"/v1/workflows/{second}/retry")
        use("forgetWorkflow", f"/v1/workflows/{second}", 412)
        use("cancelWorkflow", f"/v1/workflows/{second}/cancel")
        self.wait_for_outcome(second, "cancelled")
        use("forgetWorkflow", f"/v1/workflows/{second}")
        use("getWorkflow", "/v1/workflows/" + second, 404)
        self.assertEqual(use("listWorkers", "/v1/workers").json["items"][0]["name"], "local")
        use("getWorker", "/v1/workers/local")
        use("disableWorker", "/v1/workers/local/disable")
        use("enableWorker", "/v1/workers/local/enable")
        use("elasticWorker", "/v1/workers/local/elastic")
        use("elasticWorkerAlias", "/workers/local/elastic")
        logs = use("getTaskLogs", f"/v1/tasks/{first}.0/logs")
        self.assertEqual((logs.body, logs.headers["Rota-Log-Next"], logs.headers["Rota-Attempt"]), (b"41\n", "3", "1"))
        self.assertEqual(use("getTaskLogs", f"/v1/tasks/{first}.0/logs?offset=1&bytes=1").body, b"1")
        self.assertEqual(use("getTaskLogs", f"/v1/tasks/{first}.0/logs?follow=1&tail=1").body, b"41\n")
        use("getTaskLogs", f"/v1/tasks/{first}.0/logs?attempt=2", 404)
        use("getTaskLogs", f"/v1/tasks/{first}.9/logs", 404)
        decisions = use("listDecisions", f"/v1/decisions?workflow={first}&worker=local").json["items"]
        self.assertEqual([(d["task"], d["worker"], d["why"]) for d in decisions],
                         [(first + ".1", "local", "only_worker_available"), (first + ".0", "local", "only_worker_available")])
        use("listDecisions", "/v1/decisions?cursor=x", 400)
        audit = use("listAudit", "/v1/audit").json["items"]
        self.assertEqual((audit[-1]["command"], audit[-1]["target"]), ("SubmitWorkflow", first))
        self.assertEqual({item["user"] for item in audit}, {"admin"})
        use("listAudit", "/v1/audit?cursor=x", 400)
        self.assertEqual(use("listQueue", "/v1/queue").json["items"], [])
        use("getDensity", "/v1/density", 412)
        self.assertGreater(len(use("getLog", "/v1/log").body), 100)
        use("getSnapshot", "/v1/log/snapshot", 404)
        made = use("makeToken", "/v1/tokens", 201, '{"name": "ann", "role": "submit", "user": "ann", "expires_sec": 3600}', patch).json
        use("makeToken", "/v1/tokens", 409, '{"name": "ann"}', patch)
        use("makeToken", "/v1/tokens", 400, '{"name": "a b"}', patch)
        self.assertIn("ann", [t["name"] for t in use("listTokens", "/v1/tokens").json["items"]])
        use("listTokens", "/v1/tokens", 403, token=made["token"])
        use("rotateToken", "/v1/tokens/ann/rotate", body='{"keep_sec": 3600}', headers=patch)
        join = use("makeToken", "/v1/tokens", 201, '{"name": "j", "role": "join", "user": "gpu-*"}', patch).json["token"]
        use("joinWorker", "/v1/workers/join", 403, '{"name": "gpu-1"}', patch)
        use("joinWorker", "/v1/workers/join", 412, '{"name": "gpu-1"}', patch, join)  # This host has no Redis.
        use("renewWorker", "/v1/workers/gpu-1/renew", 403, '{}', patch, join)
        use("revokeToken", "/v1/tokens/ann")
        use("revokeToken", "/v1/tokens/ann", 404)
        use("listQueue", "/v1/queue", 401, token=made["token"])
        page = use("listEvents", "/v1/events?limit=3")
        self.assertEqual([r["record"] for r in page.json["items"]], [1, 2, 3])
        use("listEvents", "/v1/events?from=999999", 404)
        use("getMetrics", "/metrics")
        self.assertIn(b"<html", gzip.decompress(use("getPage", "/", token="").body))
        use("getPageFile", "/page/app.js", token="")
        self.assertEqual(use("getOverview", "/v1/overview").json["workflows_running"], 0)
        self.assertIn("running", use("getHistory", "/v1/history?points=10").json["kinds"])
        self.assertEqual(use("getGraph", f"/v1/workflows/{first}/graph?level=task").json["tasks"], "ss")
        self.assertEqual(len(use("getTimeline", f"/v1/workflows/{first}/timeline").json["spans"]), 2)
        self.assertEqual(use("listAttempts", f"/v1/tasks/{first}.0/attempts").json["items"][0]["end"], "succeeded")
        self.assertEqual(len(use("replayLog", "/v1/replays", body='{"policy": "selection=first_fit"}', headers=patch).json["courses"]), 3)
        made = use("setSchedule", "/v1/schedules?name=nightly&cron=0%203%20*%20*%20*&tz=Europe/Berlin&overlap=queue", 201, TWO, YAML).json
        self.assertEqual((made["name"], made["overlap"], len(made["next"])), ("nightly", "queue", 3))
        use("setSchedule", "/v1/schedules?name=nightly&cron=0%2025%20*%20*%20*", 400, TWO, YAML)
        use("pauseSchedule", "/v1/schedules/nightly/pause")
        self.assertTrue(use("listSchedules", "/v1/schedules").json["items"][0]["paused"])
        use("resumeSchedule", "/v1/schedules/nightly/resume")
        use("removeSchedule", "/v1/schedules/nightly")
        use("removeSchedule", "/v1/schedules/nightly", 404)
        use("getSecret", "/v1/secrets/hf?task=wf-1.0&attempt=1", 403)  # secrets_test.py has the rest.
        content = "/v1/files/" + "0" * 64
        use("getFile", content, 404)  # files_test.py has the rest: workers store files, and nobody else does.
        use("putFile", content + "?bytes=1", 403, "x", {"Content-Type": "application/octet-stream"})
        use("checkFile", content + "/check", 403)
        use("drainWorker", "/v1/workers/local/drain")
        everything = {o["operationId"] for ms in spec["paths"].values() for o in ms.values()}
        self.assertEqual(everything - used, set(), "routes without a test")
        # What was done over HTTP is in the host's log with its user, and the log replays.
        self.assertEqual(self.stop("host"), 0)
        self.assertIn("token=admin", self.log("host"))
        self.assert_replays()

    @unittest.skipUnless(spectral(), "spectral is not installed")
    def test_spectral_has_no_findings(self):
        """Contract: H-1. The specification is clean by the rules that others use."""
        self.start_http()
        self.write("openapi.json", self.ask("GET", "/openapi.json").body.decode())
        rules = os.path.join(ROOT, "tests/fleet/spectral.yaml")
        done = subprocess.run([spectral(), "lint", self.path("openapi.json"), "-r", rules, "--fail-severity", "hint"],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def check(self, spec, template, method, answer):
        operation = spec["paths"][template][method]
        described = operation["responses"].get(str(answer.status))
        self.assertIsNotNone(described, f"{method} {template} answered {answer.status}, which is not documented: {answer.body}")
        self.assertRegex(answer.headers["Rota-Index"], r"^\d+$")
        kind = answer.headers["Content-Type"].split(";")[0]
        self.assertIn(kind, described["content"], f"{method} {template}")
        if kind.endswith("json"):
            validate(described["content"][kind]["schema"], answer.json, spec, f"{method} {template} {answer.status}")

    def test_random_requests_of_the_specification(self):
        """Contract: H-1, H-6. Whatever is asked, the answer is documented and valid, and the host lives."""
        self.start_http()
        spec = self.ask("GET", "/openapi.json").json
        self.submit_http(LONG)
        tokens = [self.admin, self.token("sub", "submit"), self.token("read", "read")]
        draw = random.Random(20261117)
        words = ["", "wf-1", "wf-1.0", "wf-0", "wf-99999999999999999999", "local", "../..", "%", "\u00e9", "a/b", "x" * 500, "null", "-1",
                 "0", "1", "18446744073709551615", "running", "true", "*", "'\"<>", "2026-11-17T00:00:00Z"]
        bodies = [TWO, LONG, "", "{", "[]", "null", '{"priority": 3}', '{"priority": "x"}', '{"name": "t1", "role": "read"}', '{"name": 1}', "\u00e9: [", "- " * 3000, "&a [*a]"]
        operations = [(p, m, o) for p, ms in spec["paths"].items() for m, o in ms.items() if o["operationId"] != "drainWorker"]
        client = http.client.HTTPConnection("127.0.0.1", self.web, timeout=LIMIT_S)
        self.addCleanup(client.close)
        for number in range(REQUESTS):
            template, method, operation = draw.choice(operations)
            path, query, headers = template, [], {}
            for parameter in operation["parameters"]:
                value = draw.choice(words if draw.random() < 0.6 else parameter["schema"].get("enum", ["1", "3", "wf-1", "wf-1.0", "local"]))
                if parameter["name"] == "wait":
                    value = "0"
                if parameter["name"] == "follow":
                    value = draw.choice(["0", "2", ""])  # 1 is an endless stream: LONG does not end.
                if parameter["in"] == "path":
                    path = path.replace("{%s}" % parameter["name"], urllib.parse.quote(value or "x", safe=""))
                elif draw.random() < 0.3:
                    if parameter["in"] == "query":
                        query.append((parameter["name"], value))
                    else:
                        headers[parameter["name"]] = urllib.parse.quote(value)
            if any(name in ("wait_index", "until") for name, _ in query) and not any(name == "wait" for name, _ in query):
                query.append(("wait", "0"))
            if draw.random() < 0.05:
                query.append((draw.choice(["colour", "limit", "at"]), draw.choice(words)))
            if draw.random() < 0.95:
                headers["Authorization"] = "Bearer " + draw.choice(tokens)
            body = None
            if "requestBody" in operation or draw.random() < 0.05:
                body = draw.choice(bodies).encode()
                headers["Content-Type"] = draw.choice([*operation.get("requestBody", {}).get("content", {}), "application/x-www-form-urlencoded"])
            target = path + ("?" + urllib.parse.urlencode(query) if query else "")
            with self.subTest(number=number, request=f"{method} {target}", headers=headers):
                try:
                    client.request(method.upper(), target, body, headers)
                    reply = client.getresponse()
                except (ConnectionError, http.client.HTTPException):  # A body that was refused ends the connection.
                    client.close()
                    client.request(method.upper(), target, None, headers)
                    reply = client.getresponse()
                answer = Answer(reply.status, reply.headers, reply.read())
                self.assertNotIn(answer.status, (500, 501), answer.body)
                if answer.status not in (405, 413):
                    self.check(spec, template, method, answer)
        self.assertEqual(self.ask("GET", "/livez", token="").status, 200)

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_curl(self):
        """Contract: H-1. As the documentation shows it."""
        self.start_http()
        self.write("w.yaml", TWO)
        self.write("curlrc", f'header = "Authorization: Bearer {self.admin}"\n')
        base = f"http://127.0.0.1:{self.web}"

        def curl(*arguments):
            return subprocess.run(["curl", "-sS", "--max-time", str(LIMIT_S), "-K", self.path("curlrc"), *arguments], cwd=self.folder,
                                  capture_output=True, text=True, check=True).stdout

        answer = json.loads(curl("-H", "Content-Type: application/yaml", "-H", "Idempotency-Key: c1", "--data-binary", "@w.yaml",
                                 base + "/v1/workflows"))
        self.wait_for_outcome(answer["workflow"], "succeeded")
        self.assertEqual(json.loads(curl(f"{base}/v1/tasks/{answer['workflow']}.1/result"))["result"], 41)
        # A large body waits for 100 Continue; chunked uploads work; HEAD has no body.
        self.write("large.yaml", TWO + "# " + "x" * 2_000_000 + "\n")
        self.assertEqual(json.loads(curl("-H", "Content-Type: application/yaml", "-H", "Transfer-Encoding: chunked", "--data-binary",
                                         "@large.yaml", base + "/v1/validate"))["valid"], True)
        self.assertIn("200", curl("-I", base + "/v1/version").splitlines()[0])


    def test_a_key_is_recognised_after_a_fan_out(self):
        """Contract: H-1, Y-2. The same body has the same answer, also when the workflow has got its items since."""
        self.start_http()
        text = stages("{name: a, run: 'echo [1,2]'}", "{name: b, run: 'true', matrix: {i: \"${a.result}\"}}")
        key = {**YAML, "Idempotency-Key": "k1"}
        first = self.ask("POST", "/v1/workflows", text, headers=key)
        self.assertEqual(first.status, 201, first.body)
        self.assertEqual(self.wait_for_outcome(first.json["workflow"], "succeeded")["states"]["succeeded"], 3)
        again = self.ask("POST", "/v1/workflows", text, headers=key)
        self.assertEqual((again.status, again.body), (200, first.body))
        other = text.replace("[1,2]", "[1,3]")
        self.assertEqual(self.ask("POST", "/v1/workflows", other, headers=key).status, 422)


class Streams(HttpCase):
    def open_stream(self, path, headers=None):
        client = http.client.HTTPConnection("127.0.0.1", self.web, timeout=LIMIT_S)
        self.addCleanup(client.close)
        client.request("GET", path, headers={"Authorization": "Bearer " + self.admin, "Accept": "text/event-stream", **(headers or {})})
        return client.getresponse()

    @staticmethod
    def events(reply):
        fields = {}
        for line in iter(reply.readline, b""):
            text = line.decode().rstrip("\n")
            if text == "" and "data" in fields:
                yield int(fields["id"]), json.loads(fields["data"])
                fields = {}
            elif ": " in text and not text.startswith(":"):
                name, value = text.split(": ", 1)
                fields[name] = value

    def test_events_resume_over_a_restart(self):
        """Contract: H-1. A client that reconnects continues after the last record that it saw, also at the next host."""
        self.start_http()
        workflow = self.submit_http(TWO)
        self.wait_for_outcome(workflow, "succeeded")
        seen = []
        for index, record in self.events(self.open_stream("/v1/events?from=1")):
            self.assertEqual(index, record["record"])
            seen.append(index)
            if any(event["event"] == "WorkflowEnded" for event in record["events"]):
                break
        self.assertEqual(self.stop("host"), 0)
        self.start_http()
        another = self.submit_http(TWO)
        for index, record in self.events(self.open_stream("/v1/events", {"Last-Event-ID": str(seen[-1])})):
            self.assertEqual(index, seen[-1] + 1)
            seen.append(index)
            if any(event["event"] == "WorkflowEnded" and event["workflow"] == another for event in record["events"]):
                break
        self.assertEqual(seen, list(range(1, len(seen) + 1)))

    def test_streams_end_with_the_host(self):
        self.start_http()
        reply = self.open_stream("/v1/events?from=1")
        self.assertEqual(reply.status, 200)
        self.assertEqual(self.stop("host"), 0)
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            while reply.read(65536):
                pass

    def test_metrics_equal_the_log(self):
        """Contract: H-2. Counters are those of a recount of the log, in every dispatch mode; metrics.json has the same."""
        self.metrics_equal_the_log("adaptive")

    def test_metrics_for_prometheus_and_grafana(self):
        """Contract: H-2. The example's scrape configuration is valid, and its dashboard asks for families that exist."""
        folder = os.path.join(ROOT, "examples", "fleet", "metrics")
        self.write("read.token", "x")
        shutil.copy(os.path.join(folder, "prometheus.yml"), self.path("prometheus.yml"))
        checked = subprocess.run(["promtool", "check", "config", self.path("prometheus.yml")], capture_output=True, text=True,
                                 check=False)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.start_http()
        names = {name.split("{")[0] for name in self.metrics()}
        with open(os.path.join(folder, "grafana.json"), encoding="utf-8") as file:
            asked = set(re.findall(r"rota_[a-z_]+", " ".join(target["expr"] for panel in json.load(file)["panels"]
                                                             for target in panel["targets"])))
        self.assertEqual(asked - names, set())
        self.assertGreater(len(asked), 10)

    def test_metrics_of_static_worker(self):
        self.metrics_equal_the_log("static_worker")

    def test_metrics_of_fixed_pipeline(self):
        self.metrics_equal_the_log("fixed_pipeline")

    def test_metrics_of_static_round_robin(self):
        self.metrics_equal_the_log("static_round_robin")

    def metrics_equal_the_log(self, mode):
        folder = self.path("metrics_" + mode)
        os.mkdir(folder)
        self.environment |= {"ORCHESTRATOR_DISPATCH_MODE": mode, "HOST_METRICS_DIR": folder}
        self.start_http()
        self.wait_for_outcome(self.submit_http(TWO), "succeeded")
        self.wait_for_outcome(self.submit_http(stages("{name: bad, max_attempts: 2, run: 'exit 3'}")), "failed")
        metrics, records = self.at_one_moment()
        count = lambda name, **by: sum(e["event"] == name and all(e.get(k) == v for k, v in by.items())  # noqa: E731
                                       for r in records for e in r["events"])
        total = lambda name: sum(v for k, v in metrics.items() if k.split("{")[0] == name)  # noqa: E731
        self.assertEqual(metrics["rota_log_records_total"], len(records))
        self.assertEqual(metrics["rota_workflows_accepted_total"], count("WorkflowAccepted"))
        self.assertEqual(metrics['rota_workflows_ended_total{outcome="failed"}'], 1)
        self.assertEqual(total("rota_workflows_ended_total"), count("WorkflowEnded"))
        self.assertEqual(metrics['rota_requeues_total{reason="failed"}'], count("TaskRequeued"))
        self.assertEqual(total("rota_requeues_total"), count("TaskRequeued"))
        self.assertEqual(metrics["rota_tasks_succeeded_total"], count("TaskSucceeded"))
        self.assertEqual(total("rota_tasks_failed_total"), count("TaskFailed"))
        self.assertEqual(total("rota_dispatches_total"), count("TaskAssigned"))
        self.assertEqual(total("rota_worker_changes_total"), count("WorkerChanged"))
        self.assertEqual(metrics['rota_tasks{state="failed"}'], 1)
        # Of each task the wait for its first attempt; every command and message was decided.
        self.assertEqual(metrics["rota_queue_wait_seconds_count"], 3)
        self.assertGreaterEqual(metrics["rota_decision_seconds_count"], 3)
        self.assertEqual(self.stop("host"), 0)
        with open(os.path.join(folder, "metrics.json"), encoding="utf-8") as file:
            written = json.load(file)
        self.assertEqual(set(written), {re.sub(r"(_bucket|_sum|_count)?(\{.*)?$", "", name) for name in metrics})
        self.assertEqual(written["rota_tasks_succeeded_total"]["samples"], [{"value": count("TaskSucceeded")}])
        self.assertIn({"part": "count", "value": 3}, written["rota_queue_wait_seconds"]["samples"])

    def at_one_moment(self):
        """The metrics and the records of the log, both up to the same record: the log may grow between the two questions."""
        last = self.ask("GET", "/v1/version").json["index"]
        until = time.monotonic() + LIMIT_S
        while True:
            metrics = self.metrics()
            records = json.loads(self.ask("GET", "/v1/events?limit=1000").body)["items"]
            if records[-1]["record"] == metrics["rota_log_index"] >= last:
                return metrics, records
            self.assertLess(time.monotonic(), until, f"{metrics['rota_log_index']} of {len(records)} records are counted")

    def metrics(self):
        """The samples of /metrics, as the parser of Prometheus's own client reads them. promtool finds nothing to say."""
        text = self.ask("GET", "/metrics").body.decode()
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))
        values = {}
        for family in text_string_to_metric_families(text):
            self.assertIn(family.type, ("counter", "gauge", "histogram"))
            for sample in family.samples:
                labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
                name = sample.name + (f"{{{labels}}}" if labels else "")
                self.assertNotIn(name, values)
                values[name] = sample.value
        return values


class Security(HttpCase):
    def test_files_and_tokens(self):
        """Contract: H-5."""
        self.start_http()
        for name in ("tokens", "admin.token"):
            self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.state, name)).st_mode), 0o600)
        self.assertNotIn(self.admin.rsplit("_", 1)[1], self.read("host/tokens"))
        for token in ("", "x", self.admin[:-1], self.admin + "0", "rota_admin_" + "0" * 64):
            self.assertEqual(self.ask("GET", "/v1/workflows", token=token).status, 401)
        reader, ann, bob = self.token("r", "read"), self.token("ann", "submit", "--user", "ann"), self.token("bob", "submit", "--user", "bob")
        self.assertEqual(self.ask("GET", "/v1/workflows", token=reader).status, 200)
        self.assertEqual(self.ask("POST", "/v1/workflows", TWO, reader, YAML).status, 403)
        workflow = self.submit_http(LONG, token=ann)
        self.assertEqual(self.ask("GET", "/v1/workflows/" + workflow, token=bob).json["user"], "ann")
        self.assertEqual(self.ask("POST", f"/v1/workflows/{workflow}/cancel", token=bob).status, 403)
        self.assertEqual(self.ask("POST", "/v1/workers/local/drain", token=ann).status, 403)
        self.assertEqual(self.ask("POST", f"/v1/workflows/{workflow}/cancel", token=ann).status, 200)
        # Revoked: from the next request on. Nothing secret is in the host's log.
        self.assertEqual(self.rota("token", "r", "--revoke", "--state", self.state).returncode, 0)
        self.assertEqual(self.ask("GET", "/v1/workflows", token=reader).status, 401)
        self.assertEqual(self.rota("token", "r", "--revoke", "--state", self.state).returncode, 3)
        self.assertIn("ann", self.rota("token", "--state", self.state).stdout)
        for secret in (self.admin, reader, ann, bob):
            self.assertNotIn(secret.rsplit("_", 1)[1], self.log("host"))
        self.wait_for(lambda: "without a valid token" in self.log("host"), "the log does not name the refused request")
        # A short-lived one.
        self.assertEqual(self.rota("token", "z", "--expires", "0s", "--state", self.state).returncode, 2)

    def test_guessing_is_limited_and_others_are_not(self):
        """Contract: H-5."""
        self.start_http()
        statuses = [self.ask("GET", "/v1/workflows", token="guess").status for _ in range(60)]
        self.assertEqual(set(statuses) - {401, 429}, set())
        self.assertEqual(self.ask("GET", "/v1/workflows").status, 200)
        failures = re.search(r"rota_http_failed_logins_total (\d+)", self.ask("GET", "/metrics").body.decode())
        self.assertEqual(int(failures[1]), 60)

    def test_addresses_that_are_refused(self):
        """Contract: H-5. Nothing listens beyond loopback without TLS."""
        for address, status, words in (("0.0.0.0:0", 4, "TLS"), ("[::]:0", 4, "TLS"), ("nonsense", 2, "port"),
                                       ("unix:/tmp/x", 2, "HOST:PORT")):
            done = subprocess.run([ROTA, "host", "--state", self.state, "--http", address], cwd=self.folder, env=self.environment,
                                  capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(words, done.stderr)

    def test_a_host_without_http_listens_nowhere(self):
        self.start_host(redis=False, local=1)
        self.wait_for_workers(1)
        self.assertNotIn("http", self.log("host"))
        self.assertFalse(os.path.exists(os.path.join(self.state, "tokens")))

    def raw(self, data, shutdown=False):
        with socket.create_connection(("127.0.0.1", self.web), timeout=LIMIT_S) as client:
            reply = b""
            try:
                client.sendall(data)
                if shutdown:
                    client.shutdown(socket.SHUT_WR)
            except OSError:  # It was refused, and closed, before all was sent.
                pass
            try:
                while piece := client.recv(65536):
                    reply += piece
            except ConnectionResetError:
                pass
            return reply

    def test_hostile_clients(self):
        """Contract: H-6. Each gets a clear answer within its limits, and the host continues."""
        self.start_http()
        host = f"Host: localhost:{self.web}\r\n".encode()
        auth = b"Authorization: Bearer " + self.admin.encode() + b"\r\n"
        for data, status in (
                (b"GET / HTTP/1.1\r\n" + host + b"X: " + b"a" * 20000 + b"\r\n\r\n", b"431"),
                (b"POST /v1/workflows HTTP/1.1\r\n" + host + b"Content-Length: 100000000\r\n\r\n", b"401"),
                (b"POST /v1/workflows HTTP/1.1\r\n" + host + auth + b"Content-Type: text/yaml\r\nContent-Length: 100000000\r\n\r\n", b"413"),
                (b"POST /v1/workflows HTTP/1.1\r\n" + host + auth + b"Content-Type: text/yaml\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
                (b"POST /v1/workflows HTTP/1.1\r\n" + host + auth + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x", b"400"),
                (b"GET /%ff HTTP/1.1\r\n" + host + b"\r\n", b"400"),
                (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"400"),
                (b"GET /livez HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", b"403")):
            reply = self.raw(data)
            self.assertEqual(reply[9:12], status, (data[:80], reply[:200]))
            self.assertEqual(reply.count(b"HTTP/1.1 "), 1, reply)
        pipelined = self.raw((b"GET /livez HTTP/1.1\r\n" + host + b"\r\n") * 50, shutdown=True)
        self.assertEqual(pipelined.count(b"HTTP/1.1 200 OK"), 50)
        # Many silent clients, and work goes on.
        silent = [socket.create_connection(("127.0.0.1", self.web), timeout=LIMIT_S) for _ in range(200)]
        for client in silent:
            client.sendall(b"GET /v1/work")
        self.wait_for_outcome(self.submit_http(TWO), "succeeded")
        for client in silent:
            client.close()

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_tls(self):
        """Contract: H-5. Beyond loopback with TLS; a plain client is told nothing."""
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", self.path("key.pem"),
                        "-out", self.path("cert.pem")], check=True, capture_output=True)
        self.scheme = "https"
        self.start_http("--http-cert", self.path("cert.pem"), "--http-key", self.path("key.pem"))
        self.assertEqual(self.ask("GET", "/v1/version").status, 200)
        self.assertEqual(self.ask("GET", "/v1/version", token="x").status, 401)
        self.wait_for_outcome(self.submit_http(TWO), "succeeded")
        self.assertNotIn(b"200", self.raw(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", shutdown=True))
        self.assertEqual(self.stop("host"), 0)

    def context(self):
        return ssl.create_default_context(cafile=self.path("cert.pem")) if self.scheme == "https" else None


if __name__ == "__main__":
    unittest.main()
