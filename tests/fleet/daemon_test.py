"""`rota host` and `rota worker` as processes: what a user and a service manager see (C-2, U-1, U-2, U-4, H-4)."""

import json
import os
import signal
import socket
import stat
import unittest

from fleet_support import LIMIT_S, FleetCase, ROTA, stages

HELLO = stages("{name: a, run: 'echo hello from a'}", "{name: b, needs: [a], run: 'echo 7'}",
               "{name: c, needs: [b], run: 'test ${b.result} = 7'}")


class HostAlone(FleetCase):
    """A host without Redis, with a local worker: useful alone."""

    def start_alone(self, *options):
        self.start_host(*options, redis=False, local=1)
        self.wait_for_workers(1)

    def test_submit_wait_until_the_deadline(self):
        """Contract: C-2, Y-5. The exit status is that of `rota run`: 6 after a deadline."""
        self.start_alone()
        self.write("w.yaml", stages("{name: a, run: 'sleep 60'}").replace("spec:\n", "spec:\n  deadline: 100ms\n"))
        status, submitted, errors = self.submit("w.yaml", "--wait")
        self.assertEqual((status, submitted.get("outcome")), (6, "cancelled"), errors + self.log("host"))

    def test_submit_wait_status_logs_explain(self):
        """Contract: C-2."""
        self.start_alone()
        self.write("w.yaml", HELLO)
        status, submitted, errors = self.submit("w.yaml", "--wait", "--key", "first")
        self.assertEqual((status, submitted.get("outcome")), (0, "succeeded"), errors + self.log("host"))
        self.assertEqual({t["name"]: t["state"] for t in self.workflow()["tasks"]},
                         {"a": "succeeded", "b": "succeeded", "c": "succeeded"})
        self.wait_for(lambda: self.rota("logs", self.state, "a").stdout == "hello from a\n", "its output: ",
                      lambda: self.rota("logs", self.state, "a").stdout)
        self.assertIn("succeeded", self.rota("explain", self.state, "c").stdout)
        # The same key again is the same workflow.
        status, again, _ = self.submit("w.yaml", "--key", "first")
        self.assertEqual((status, again["workflow"], again["repeated"]), (0, submitted["workflow"], True))
        self.assertEqual(self.stop("host"), 0)
        # Every dispatch has a line (H-2); a thread of its own writes them, and all are there when the host has ended.
        dispatches = [line for line in self.log("host").splitlines() if " dispatch " in line]
        self.assertEqual(len(dispatches), 3, self.log("host"))
        for word in ("pool=1", "reuse_hits=0", "lambda=", "score=", "worker=local", "task=wf-1.0"):
            self.assertIn(word, dispatches[0])
        self.assert_nothing_runs()
        self.assert_replays()

    def test_the_control_socket_is_private(self):
        self.start_alone()
        mode = os.stat(os.path.join(self.state, "control.sock")).st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual((stat.S_IMODE(mode), stat.S_IMODE(os.stat(self.state).st_mode)), (0o600, 0o700))
        # Garbage gets an answer or a closed connection, and the host continues.
        for junk in (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x02\x01\xff", b"\0\0\0\x01\x63", b"GET / HTTP/1.1\r\n\r\n"):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(LIMIT_S)
                client.connect(os.path.join(self.state, "control.sock"))
                client.sendall(junk)
                client.shutdown(socket.SHUT_WR)
                try:
                    while client.recv(4096):
                        pass
                except ConnectionResetError:  # It was closed with bytes unread.
                    pass
        self.write("w.yaml", HELLO)
        self.assertEqual(self.submit("w.yaml", "--wait")[0], 0)

    def test_a_deep_state_folder(self):
        """The address of a Unix socket has 107 bytes; a state folder may be deeper."""
        self.state = self.path("/".join(["a-folder-with-a-long-name"] * 6))
        self.start_alone()
        self.write("w.yaml", HELLO)
        self.assertEqual(self.submit("w.yaml", "--wait")[0], 0)

    def test_cancel_pause_resume_retry(self):
        """Contract: C-2, B-19."""
        self.start_alone()
        self.write("w.yaml", stages("{name: long, run: 'echo $$ > pid; exec sleep 1000'}"))
        _, submitted, _ = self.submit("w.yaml")
        self.wait_for(lambda: self.read("pid"))
        for action in ("pause", "resume", "cancel"):
            done = self.rota(action, submitted["workflow"], "--state", self.state)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.wait_for_end()["outcome"], "cancelled")
        self.assertEqual(self.rota("cancel", submitted["workflow"], "--state", self.state).returncode, 4)
        self.assertEqual(self.rota("cancel", "wf-99", "--state", self.state).returncode, 3)
        os.unlink(self.path("pid"))
        self.assertEqual(self.rota("retry", submitted["workflow"], "--state", self.state).returncode, 0)
        self.wait_for(lambda: self.read("pid"))
        self.assertEqual(self.rota("cancel", "long", "--state", self.state).returncode, 0)
        self.assertEqual(self.wait_for_end()["outcome"], "cancelled")

    def test_sigterm_drains(self):
        """A running task may end; what has not started runs after the restart, and no attempt is spent."""
        self.start_alone("--drain", "1h")
        self.write("w.yaml", stages("{name: a, run: 'touch started; while [ ! -e go ]; do sleep 0.01; done; echo 1'}",
                                    "{name: b, needs: [a], run: 'echo ${a.result}'}"))
        self.submit("w.yaml")
        self.wait_for(lambda: os.path.exists(self.path("started")))
        self.running["host"].send_signal(signal.SIGTERM)
        self.wait_for(lambda: "stopping" in self.log("host"))
        status, _, errors = self.submit("w.yaml")
        self.assertEqual(status, 8, errors)  # Unavailable.
        self.write("go", "")
        self.assertEqual(self.running.pop("host").wait(LIMIT_S), 0)
        self.assert_nothing_runs()
        self.start_alone()
        end = self.wait_for_end()
        self.assertEqual(end["outcome"], "succeeded")
        self.assertEqual([task["attempts"] for task in end["tasks"]], [1, 1])

    def test_a_second_sigterm_exits_at_once(self):
        """Contract: U-4. Nothing is left, and the task runs again without having spent an attempt."""
        self.start_alone("--drain", "1h")
        self.write("w.yaml", stages("{name: a, max_attempts: 1, run: 'touch started; [ -e go ] || exec sleep 1000'}"))
        self.submit("w.yaml")
        self.wait_for(lambda: os.path.exists(self.path("started")))
        host = self.running.pop("host")
        host.send_signal(signal.SIGTERM)
        self.wait_for(lambda: "stopping" in self.log("host"))
        host.send_signal(signal.SIGTERM)
        self.assertEqual(host.wait(LIMIT_S), 7)
        self.assert_nothing_runs()
        self.write("go", "")
        self.start_alone()
        self.assertEqual(self.wait_for_end()["outcome"], "succeeded")

    def test_settings(self):
        """Contract: H-4, B-24. Flags come before the environment, which comes before the file; SIGHUP reads it again."""
        self.write("host.yaml", "policy: {mode: fixed_pipeline, aging_boost: 3}\nhost: {threads: 1}\n")
        self.environment["ORCHESTRATOR_DISPATCH_MODE"] = "static_worker"
        self.start_alone("--config", "host.yaml", "--policy-lambda-other", "0.25")
        self.write("host.yaml", "policy: {mode: fixed_pipeline, aging_boost: 4}\nhost: {threads: 2}\n")
        self.running["host"].send_signal(signal.SIGHUP)
        self.wait_for(lambda: "settings reloaded" in self.log("host"))
        self.assertIn("reloaded the policy", self.log("host"))
        self.assertIn("needs a restart setting=host.threads", self.log("host"))
        self.write("host.yaml", "policy: {mode: nonsense}\n")
        self.running["host"].send_signal(signal.SIGHUP)
        self.wait_for(lambda: "settings not reloaded" in self.log("host"))
        self.assertEqual(self.stop("host"), 0)
        wrong = self.rota("host", "--state", self.state, env={"ELASTIC_AUTO_POLL_INTERVAL_SEC": "often"})
        self.assertEqual(wrong.returncode, 2, wrong.stderr)
        self.assertIn("ELASTIC_AUTO_POLL_INTERVAL_SEC", wrong.stderr)

    def test_it_speaks_to_the_service_manager(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(self.path("notify"))
            manager.settimeout(LIMIT_S)
            self.environment["NOTIFY_SOCKET"] = self.path("notify")
            self.start_host(redis=False, local=1)
            self.assertIn(b"READY=1", manager.recv(4096))
            self.assertEqual(self.stop("host"), 0)
            self.assertIn(b"STOPPING=1", manager.recv(4096))

    def test_two_hosts_do_not_share_a_folder(self):
        self.start_alone()
        second = self.rota("host", "--state", self.state)
        self.assertNotEqual(second.returncode, 0)
        self.assertIn("ledger", second.stderr)
        self.write("w.yaml", HELLO)
        self.assertEqual(self.submit("w.yaml", "--wait")[0], 0)

    def test_nobody_is_there(self):
        self.write("w.yaml", HELLO)
        done = self.rota("submit", "w.yaml", "--state", self.state)
        self.assertEqual(done.returncode, 8)
        self.assertIn("rota host", done.stderr)
        self.assertEqual(self.rota("worker").returncode, 2)

    def test_density(self):
        """Contract: H-3."""
        os.mkdir(self.path("metrics"))
        self.environment |= {"HOST_METRICS_ENABLE_DENSITY_PLOT": "true", "HOST_METRICS_DIR": self.path("metrics"),
                             "HOST_METRICS_DENSITY_BUCKET_SEC": "3600"}
        self.start_alone()
        self.write("w.yaml", HELLO)
        self.assertEqual(self.submit("w.yaml", "--wait")[0], 0)
        self.assertEqual(self.stop("host"), 0)
        density = json.loads(self.read("metrics/task_worker_density.json"))
        self.assertEqual(density["bucket_sec"], 3600)
        self.assertEqual(sum(tasks for _, tasks in density["submissions"]), 3)
        self.assertEqual(max(workers for _, workers in density["active_workers"]), 1)


if __name__ == "__main__":
    unittest.main()
