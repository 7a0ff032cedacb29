"""Clients that mean harm, against the real program: each meets a limit and gets a clear answer, and decisions continue (H-6)."""

import json
import select
import socket
import subprocess
import sys
import time
import unittest

from fleet_support import LIMIT_S
from http_test import TWO, HttpCase

# A process of its own holds many connections, so that the limit of open files of this one does not matter. It says how many
# it has and how many of them were refused with 503, and closes them when its standard input ends.
CROWD = """
import select, socket, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
clients = []
for _ in range(count):
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    client.sendall(b"GET /livez HTTP/1.1\\r\\nHost: localhost\\r\\nX: ")
    clients.append(client)
refused = 0
poll = select.poll()
by_number = {client.fileno(): client for client in clients}
for number in by_number:
    poll.register(number, select.POLLIN)
while events := poll.poll(1000):
    for number, _ in events:
        try:
            refused += by_number[number].recv(4096).startswith(b"HTTP/1.1 503 ")
        except ConnectionResetError:
            refused += 1
        poll.unregister(number)
print(len(clients), refused, flush=True)
sys.stdin.read()
"""


class Hostile(HttpCase):
    def setUp(self):
        super().setUp()
        self.write("w.yaml", TWO)

    def head(self, method, path, *fields, token=True):
        lines = [f"{method} {path} HTTP/1.1".encode(), f"Host: localhost:{self.web}".encode(), *fields]
        if token:
            lines.append(b"Authorization: Bearer " + self.admin.encode())
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def connect(self):
        client = socket.create_connection(("127.0.0.1", self.web), timeout=LIMIT_S)
        self.addCleanup(client.close)
        return client

    def talk(self, *pieces, half_close=False):
        """Sends the pieces, as far as the host takes them, and returns all that it answers before it closes the connection."""
        client = self.connect()
        try:
            for piece in pieces:
                client.sendall(piece)
            if half_close:
                client.shutdown(socket.SHUT_WR)
        except OSError:  # The host has refused the request and closed the connection.
            pass
        reply = b""
        try:
            while piece := client.recv(1 << 16):
                reply += piece
        except ConnectionResetError:
            pass
        client.close()
        return reply

    def memory_kib(self):
        with open(f"/proc/{self.running['host'].pid}/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))

    def assert_works(self):
        """The host decides: a workflow that is submitted now succeeds."""
        status, _, errors = self.submit("w.yaml", "--wait")
        self.assertEqual(status, 0, errors + self.log("host")[-2000:])

    def assert_problem(self, reply, *statuses):
        """One answer, with one of the statuses, and a problem in UTF-8 that says what is wrong."""
        self.assertEqual(reply.count(b"HTTP/1.1 "), 1, reply[:2000])
        self.assertIn(int(reply[9:12]), statuses, reply[:2000])
        problem = json.loads(reply.split(b"\r\n\r\n", 1)[1].decode("utf-8"))
        self.assertEqual(problem["status"], int(reply[9:12]))
        self.assertTrue(problem["detail"])
        return problem

    def test_slow_loris(self):
        """300 clients that send a byte now and then get 408 and are disconnected; meanwhile the host works."""
        self.start_http()
        waiting = {client.fileno(): client for client in (self.connect() for _ in range(300))}
        replies = {number: b"" for number in waiting}
        for client in waiting.values():
            client.sendall(b"GET /livez HTTP/1.1\r\nX: ")
        self.assert_works()
        until = time.monotonic() + 4 * LIMIT_S
        while waiting:
            self.assertLess(time.monotonic(), until, f"{len(waiting)} clients are still connected")
            for number in select.select(list(waiting), [], [], 0.2)[0]:
                try:
                    piece = waiting[number].recv(4096)
                except ConnectionResetError:
                    piece = b""
                replies[number] += piece
                if not piece:
                    del waiting[number]
            for client in waiting.values():
                try:
                    client.send(b"a")
                except OSError:
                    pass
        # A client that sends while the host closes may lose the answer to a reset.
        answered = [reply for reply in replies.values() if reply]
        self.assertGreater(len(answered), 0)
        self.assertEqual({reply[9:12] for reply in answered}, {b"408"})
        self.assert_works()

    def test_request_smuggling(self):
        """Heads that two servers could read in two ways are refused, and what follows them is not taken for a request."""
        self.start_http()
        inner = self.head("POST", "/v1/workflows", b"Content-Type: text/yaml", b"Content-Length: 0")
        chunked, length = b"Transfer-Encoding: chunked", f"Content-Length: {len(inner)}".encode()
        text = b"Content-Type: text/yaml"
        for fields in (
                (length, chunked), (chunked, length), (chunked, chunked), (chunked, b"Transfer-Encoding: identity"),
                (b"Transfer-Encoding: identity, chunked",), (b"Transfer-Encoding: chunked, chunked",), (b"Transfer-Encoding : chunked",),
                (b"Transfer-Encoding:\x0bchunked",), (b"Transfer-Encoding: \x00chunked",), (b"X: y\r\n Transfer-Encoding: chunked", b"Transfer-Encoding: x"),
                (b"Content-Length: 0", length), (b"Content-Length: 0, 5",), (b"Content-Length: +0",), (b"Content-Length: 0x0",),
                (b"Content-Length: -1",), (b"Content-Length:",), (b"Content-Length: 0 0",), (b"Host: elsewhere", b"Content-Length: 0")):
            with self.subTest(fields=fields):
                reply = self.talk(self.head("POST", "/v1/validate", text, *fields), b"0\r\n\r\n", inner)
                self.assert_problem(reply, 400, 501)
        for body in (b"0\r\nX: y\r\n", b"1\r\nab\r\n0\r\n\r\n", b"-1\r\n", b"0x1\r\na\r\n0\r\n\r\n", b"1 \r\na\r\n0\r\n\r\n", b"1\na\n0\n\n",
                     b"ffffffffffffffffff\r\n", b"1\r\na0\r\n\r\n", b";\r\n"):
            with self.subTest(body=body):
                reply = self.talk(self.head("POST", "/v1/validate", text, chunked), body, inner)
                self.assert_problem(reply, 400, 413)
        # As HTTP/1.0 has no chunks, this body would be another request.
        self.assert_problem(self.talk(self.head("POST", "/v1/validate", text, chunked).replace(b"HTTP/1.1", b"HTTP/1.0"), b"0\r\n\r\n", inner), 400)
        self.assertEqual(self.ask("GET", "/v1/workflows").json["items"], [])

    def test_pipelined_requests(self):
        """Requests that are sent without waiting are answered in their order, and a wrong one ends the connection."""
        self.start_http()
        live, version = self.head("GET", "/livez"), self.head("GET", "/v1/version")
        reply = self.talk((live + version) * 500, half_close=True)
        answers = reply.split(b"HTTP/1.1 200 OK")[1:]
        self.assertEqual([b"\"version\"" in each for each in answers], [False, True] * 500)
        reply = self.talk(live, b"GET /livez HTTP/1.1\r\n\r\n", live)
        self.assertEqual([each[:3] for each in reply.split(b"HTTP/1.1 ")[1:]], [b"200", b"400"])

    def test_bodies_of_100_mb(self):
        """A body that is too large is refused, whether it is announced or not, and is never kept in memory."""
        self.start_http()
        self.assert_works()
        before = self.memory_kib()
        block, count = b"x" * 1_000_000, 100
        for path, content in (("/v1/workflows", b"text/yaml"), ("/v1/validate", b"application/json"),
                              ("/v1/files/" + "0" * 64 + "?bytes=100000000&offset=0", b"application/octet-stream")):
            method = "PUT" if "files" in path else "POST"
            fields = b"Content-Type: " + content
            with self.subTest(path=path):
                announced = self.talk(self.head(method, path, fields, b"Content-Length: 100000000"), *[block] * count)
                chunks = [b"%x\r\n%s\r\n" % (len(block), block)] * count
                sent = self.talk(self.head(method, path, fields, b"Transfer-Encoding: chunked"), *chunks, b"0\r\n\r\n")
                # The host may close before everything was sent; then the answer can be lost to a reset.
                for reply in (announced, sent):
                    if reply:
                        self.assert_problem(reply, 403, 411, 413)
        self.assertLess(self.memory_kib() - before, 64 << 10, "KiB")
        self.assert_works()

    def test_text_that_is_not_utf8(self):
        """Wrong bytes anywhere in a request: the answer is a problem in UTF-8, and none of them reaches the log."""
        self.start_http()
        bad = b"\xff\xfe\x80"
        yaml = b"apiVersion: rota/v1\nspec: {stages: [{name: a, run: 'echo %s'}]}\n" % bad
        def sized(method, path, content, body, *fields):
            return self.talk(self.head(method, path, b"Content-Type: " + content, b"Content-Length: %d" % len(body), b"Connection: close", *fields), body)
        self.assert_problem(sized("POST", "/v1/workflows", b"text/yaml", yaml), 400)
        self.assert_problem(sized("POST", "/v1/workflows", b"application/json", b'{"apiVersion": "%s"}' % bad), 400)
        self.assert_problem(sized("PATCH", "/v1/workflows/wf-1", b"application/json", b'{"priority": "%s"}' % bad), 400, 404)
        for target in ("/v1/workflows?q=%ff", "/v1/tasks/%ff", "/v1/%c3%28"):
            self.assert_problem(self.talk(self.head("GET", target)), 400)
        self.assert_problem(self.talk(self.head("GET", "/v1/workflows?q=RAW").replace(b"RAW", bad)), 400)
        self.assert_problem(self.talk(self.head("GET", "/v1/workflows", b"Authorization: Bearer " + bad, b"Connection: close", token=False)), 400, 401)
        # A key with such bytes is refused, or kept as it is; it is never half of either.
        reply = sized("POST", "/v1/workflows", b"text/yaml", TWO.encode(), b"Idempotency-Key: " + bad)
        self.assertIn(reply[9:12], (b"201", b"400"))
        if reply.startswith(b"HTTP/1.1 201"):
            self.assertEqual(self.ask("GET", "/v1/events?from=1").status, 200)
        self.assertEqual(self.ask("GET", "/v1/workflows?q=x").status, 200)

    def test_half_closed_sockets(self):
        """A client that will send nothing more still gets its answer; one that stops in the middle does not hold anything."""
        self.start_http()
        self.assertTrue(self.talk(self.head("GET", "/livez"), half_close=True).startswith(b"HTTP/1.1 200 "))
        head = self.head("POST", "/v1/workflows", b"Content-Type: text/yaml", f"Content-Length: {len(TWO)}".encode())
        self.assertTrue(self.talk(head, TWO.encode(), half_close=True).startswith(b"HTTP/1.1 201 "))
        for data in (b"", b"GET /liv", self.head("GET", "/livez")[:-2], head, head + TWO.encode()[:10],
                     self.head("POST", "/v1/workflows", b"Content-Type: text/yaml", b"Transfer-Encoding: chunked") + b"5\r\nspec"):
            with self.subTest(data=data):
                reply = self.talk(data, half_close=True)  # It returns: the host has closed the connection, too.
                self.assertNotIn(b"HTTP/1.1 2", reply)
        self.wait_for_outcome("wf-1", "succeeded")
        self.assertEqual(len(self.ask("GET", "/v1/workflows").json["items"]), 1)
        # A stream of events whose client has closed its sending side ends with the client.
        stream = self.connect()
        stream.sendall(self.head("GET", "/v1/events?from=1", b"Accept: text/event-stream"))
        stream.shutdown(socket.SHUT_WR)
        self.assertIn(b"200", stream.recv(4096))
        stream.close()
        self.assert_works()

    def test_20000_connections(self):
        """Connections beyond the limit are refused with 503; the others wait for their limits, and decisions continue."""
        self.start_http("--http-connections", "15000")
        limit = 15000
        crowds = [subprocess.Popen([sys.executable, "-c", CROWD, str(self.web), "10000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                  for _ in range(2)]
        for crowd in crowds:
            self.addCleanup(crowd.wait)
            self.addCleanup(crowd.kill)
        self.assert_works()
        counts = [tuple(map(int, crowd.stdout.readline().split())) for crowd in crowds]
        self.assert_works()
        self.assertEqual([count for count, _ in counts], [10000, 10000], self.log("host")[-2000:])
        self.assertGreaterEqual(sum(refused for _, refused in counts), 20000 - limit)
        for crowd in crowds:
            crowd.stdin.close()
        # When they have gone, clients are served again.
        self.wait_for(lambda: self.answers(), "the host serves no client any more: ", lambda: self.log("host")[-2000:])
        self.assert_works()

    def answers(self):
        try:
            return self.ask("GET", "/v1/version").status == 200
        except OSError:
            return False


if __name__ == "__main__":
    unittest.main()
