"""A `rota host` with one local worker and an HTTP interface on loopback, for the benchmarks that are clients of it."""

import json
import os
import resource
import signal
import socket
import subprocess
import time
import urllib.request

LIMIT_S = 600


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def raise_open_files():
    """Lets this process, and those that it starts, open as many files as the machine allows. Returns that number."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class Host:
    def __init__(self, rota, folder, *options):
        self.port = free_port()
        state = os.path.join(folder, "state")
        with open(os.path.join(folder, "host.log"), "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [rota, "host", "--state", state, "--http", f"127.0.0.1:{self.port}", "--local-workers", "1", "--drain", "0s",
                 "--policy-max-queue-per-worker", "500", *options], cwd=folder, stdout=log, stderr=log)
        for _ in range(20 * LIMIT_S):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=LIMIT_S).close()
                break
            except OSError:
                time.sleep(0.05)
        with open(os.path.join(state, "admin.token"), encoding="utf-8") as file:
            self.token = file.read().strip()

    def ask(self, path, body=None):
        headers = {"Authorization": "Bearer " + self.token, "Content-Type": "application/json"}
        question = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=body and body.encode(), headers=headers)
        with urllib.request.urlopen(question, timeout=LIMIT_S) as answer:
            return json.load(answer), int(answer.headers["Rota-Index"] or 0)

    def submit(self, name, tasks, run):
        stage = {"name": "many", "run": run, "resources": {"hardware": {"cpu": "100m"}}, "matrix": {"x": list(range(tasks))}}
        return self.ask("/v1/workflows", json.dumps({"apiVersion": "rota/v1", "kind": "Workflow", "metadata": {"name": name},
                                                     "spec": {"stages": [stage]}}))[0]["workflow"]

    def run(self, tasks):
        """Seconds for a workflow of that many tasks."""
        begun = time.monotonic()
        self.wait(self.submit("measured", tasks, ["true"]))
        return time.monotonic() - begun

    def wait(self, name):
        """Until the workflow has succeeded."""
        index = 0
        while True:
            found, index = self.ask(f"/v1/workflows/{name}?wait_index={index}&wait=10")
            if found["outcome"] != "running":
                if found["outcome"] != "succeeded":
                    raise RuntimeError(f"{name} {found['outcome']}")
                return
            time.sleep(0.02)

    def cpu_s(self):
        """Processor time that the host has used, without that of the programs it ran."""
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="utf-8") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(LIMIT_S)
