"""Several hosts on one log, as real processes: three etcd servers, three hosts, Redis and workers (L-3, L-4).

Goal: whichever host or etcd server dies or stands still, no decision that was acknowledged is lost, none takes effect twice,
running tasks continue, and the log replays. Method: one test per failure, and a chaos run that draws failures from a seed.
The result of every execution is unique, and dependants show which result they got: it must be the one in the log.

ROTA_CHAOS_SECONDS is the length of the chaos run (default 30; a long run is 300), ROTA_CHAOS_SEED its seed (default 1).
"""

import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

from fleet_support import FleetCase, LIMIT_S, ROOT, ROTA, free_port, stages

SECONDS = float(os.environ.get("ROTA_CHAOS_SECONDS") or 30)
SEED = int(os.environ.get("ROTA_CHAOS_SEED") or 1)
HOSTS = ("h1", "h2", "h3")
SERVERS = ("etcd1", "etcd2", "etcd3")

ITEMS = 6


def workflow(wait):
    """Each execution has a result of its own. The last task has all of them as its inputs. `wait` is what a task of the first
    stage executes before it ends."""
    items = ", ".join(str(i) for i in range(ITEMS))
    return f"""apiVersion: rota/v1
spec:
  resources: {{hardware: {{cpu: 500m}}}}
  stages:
    - name: first
      matrix: {{i: [{items}]}}
      max_attempts: 50
      run: |
        read -r nonce < /proc/sys/kernel/random/uuid
        {wait}
        echo "\\"$nonce\\""
    - name: second
      matrix: {{i: [{items}]}}
      max_attempts: 50
      env: {{ALL: "${{first.result}}"}}
      run: |
        read -r nonce < /proc/sys/kernel/random/uuid
        echo "{{\\"saw\\": $ALL, \\"nonce\\": \\"$nonce\\"}}" > "$ROTA_RESULT"
"""


@unittest.skipUnless(shutil.which("etcd"), "etcd is not installed")
class HaCase(FleetCase):
    lease_s = 5  # On a busy machine a leader may lose a short lease at any time; most tests tolerate that.

    def setUp(self):
        super().setUp()
        self.environment["HOME"] = self.folder  # No context file of the user.
        self.environment["ETCD_UNSUPPORTED_ARCH"] = os.uname().machine.replace("aarch64", "arm64")
        self.clients = {name: free_port() for name in SERVERS}
        self.peers = {name: free_port() for name in SERVERS}
        self.web = {name: free_port() for name in HOSTS}
        self.paused = set()  # Hosts that cannot answer.
        self.etcd = ",".join(f"http://127.0.0.1:{port}" for port in self.clients.values())
        # The hosts have the same tokens.
        for name in HOSTS:
            os.mkdir(self.path(name), 0o700)
        done = self.rota("token", "admin", "--role", "admin", "--user", "ann", "--state", self.path("h1"), "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.token = done.stdout.strip()
        for name in HOSTS[1:]:
            shutil.copy(self.path("h1/tokens"), self.path(name))
        self.environment.update(ROTA_URL=",".join(map(self.host_url, HOSTS)), ROTA_TOKEN=self.token)

    def host_url(self, name):
        return f"http://127.0.0.1:{self.web[name]}"

    # ------------------------------------------------------------------------------------------------------ processes

    def start_etcd(self, name):
        cluster = ",".join(f"{each}=http://127.0.0.1:{port}" for each, port in self.peers.items())
        client, peer = (f"http://127.0.0.1:{ports[name]}" for ports in (self.clients, self.peers))
        self.spawn(name, ["etcd", "--name", name, "--data-dir", self.path("data-" + name), "--listen-client-urls", client,
                          "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                          "--initial-cluster", cluster, "--initial-cluster-state", "new", "--heartbeat-interval", "100",
                          "--election-timeout", "1000", "--logger", "zap", "--log-outputs", "stderr", "--pre-vote"])

    def start_shared_host(self, name):
        self.spawn(name, [ROTA, "host", "--state", self.path(name), "--http", f"127.0.0.1:{self.web[name]}", "--etcd",
                          self.etcd, "--etcd-lease", f"{self.lease_s}s", "--redis", self.url, "--policy-heartbeat-ttl-ms",
                          str(self.ttl_ms)])

    def start_one(self, name):
        if name == "redis":
            self.start_redis()
        elif name in HOSTS:
            self.start_shared_host(name)
        elif name in SERVERS:
            self.start_etcd(name)
        else:
            self.start_worker(name, "--cpu", "2", "--dir", self.path("dir-" + name))

    def start_all(self, workers=2):
        for name in (*SERVERS, "redis", *HOSTS, *(f"w{i + 1}" for i in range(workers))):
            self.start_one(name)
        self.wait_for_leader()
        self.wait_for(lambda: self.idle() >= workers, f"{workers} workers did not register: ", self.logs)

    def logs(self):
        return "\n".join(f"--- {name}\n{self.log(name)[-3000:]}" for name in HOSTS)

    # --------------------------------------------------------------------------------------------------------- asking

    def ask(self, name, path, method="GET", body=None, limit=5, token=True):
        """(status, JSON) of one host's answer; (0, None) if it does not answer."""
        request = urllib.request.Request(self.host_url(name) + path, method=method, data=body, headers={
            "Content-Type": "application/yaml", **({"Authorization": "Bearer " + self.token} if token else {})})
        try:
            with urllib.request.urlopen(request, timeout=limit) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except (OSError, ValueError):
            return 0, None

    def role(self, name):
        answer = self.ask(name, "/v1/version")[1]
        return answer["role"] if answer else None

    def leader(self, among=HOSTS):
        """The host that leads; None if none does now. A host that was paused may believe that it leads."""
        leaders = [name for name in among if self.role(name) == "leader"]
        return leaders[0] if len(leaders) == 1 else None

    def wait_for_leader(self, among=HOSTS):
        found = []
        self.wait_for(lambda: found.append(self.leader(among)) or found[-1], "no host leads: ", self.logs)
        return found[-1]

    def idle(self):
        status, page = self.ask(self.leader() or "h1", "/v1/workers")
        return sum(worker["status"] in ("idle", "busy") for worker in page["items"]) if status == 200 else 0

    def submit_keyed(self, file, key):
        done = self.rota("submit", file, "--key", key, "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())
        return json.loads(done.stdout)["workflow"]

    def write_held(self):
        """A workflow whose tasks run until release(): no test depends on how fast it notices that they run."""
        self.write("w.yaml", workflow(f"until [ -e {self.path('release')} ]; do sleep 0.1; done"))

    def release(self):
        self.write("release", "")

    def workflow_of(self, identity):
        for name in (each for each in HOSTS if each not in self.paused):
            status, found = self.ask(name, "/v1/workflows/" + identity)
            if status == 200:
                return found
        return {"outcome": "unknown"}

    def wait_until_running(self, identity, count):
        self.wait_for(lambda: self.workflow_of(identity).get("running", 0) >= count, "no task runs: ",
                      lambda: f"{self.workflow_of(identity)} {self.logs()}")

    def wait_until_ended(self, identity):
        self.wait_for(lambda: self.workflow_of(identity)["outcome"] not in ("running", "unknown"), "the workflow did not end: ",
                      lambda: f"{self.workflow_of(identity)} {self.logs()}")
        return self.workflow_of(identity)

    # ------------------------------------------------------------------------------------------------------- checking

    def records(self):
        """The log, from whichever host answers."""
        done = self.rota("replay", "--records", timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr + self.logs())
        return [json.loads(line) for line in done.stdout.splitlines()]

    def check(self, identities, once=False):
        """Every task has succeeded once; its dependants saw that result; terms never go back; the log replays. `once`: and no
        task was started a second time."""
        done = self.rota("replay", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())
        self.assertTrue(json.loads(done.stdout)["verified"])
        results = {}
        last = 0
        for record in self.records():
            self.assertGreaterEqual(record["term"], last)
            last = record["term"]
            for event in record["events"]:
                if event["event"] == "TaskSucceeded":
                    self.assertNotIn(event["task"], results, "it succeeded twice")
                    results[event["task"]] = json.loads(record["command"]["outcome"]["result"] or "null")
                if once and event["event"] == "TaskAssigned":
                    self.assertEqual(event["attempt"], 1, f"{event} {self.logs()}")
        for identity in identities:
            self.assertEqual(self.workflow_of(identity)["outcome"], "succeeded", identity)
            first = [results[f"{identity}.{i}"] for i in range(ITEMS)]
            for i in range(ITEMS):
                self.assertEqual(results[f"{identity}.{ITEMS + i}"]["saw"], first)

    def stop_everything(self):
        for name in [each for each in self.running if each.startswith("w")] + list(HOSTS):
            if name in self.running and self.running[name].poll() is None:
                self.assertEqual(self.stop(name), 0, self.log(name)[-3000:])


class SharedLog(HaCase):
    def test_a_follower_answers_reads_and_names_the_leader(self):
        """Contract: L-3. A not-leader response names the leader; clients go there by themselves."""
        self.lease_s = 120  # The leader stays.
        self.start_all()
        leader = self.wait_for_leader()
        followers = [name for name in HOSTS if name != leader]
        self.write("w.yaml", workflow("sleep 0.1"))
        identity = self.submit_keyed("w.yaml", "one")
        self.wait_until_ended(identity)
        index = self.ask(leader, "/v1/version", limit=60)[1]["index"]
        others = []
        for name in followers:
            status, found = self.ask(name, f"/v1/workflows/{identity}?wait_index={index}&wait=30", limit=60)
            self.assertEqual((status, found["outcome"]), (200, "succeeded"))
            self.assertEqual(self.ask(name, "/v1/version", limit=60)[1]["leader"], self.host_url(leader))
            with open(self.path("w.yaml"), "rb") as file:
                status, problem = self.ask(name, "/v1/workflows", "POST", file.read(), limit=60)
            self.assertEqual((status, problem["code"], problem["details"]["leader"]),
                             (503, "NotLeader", self.host_url(leader)))
            status, problem = self.ask(name, f"/v1/workflows/{identity}/cancel", "POST", limit=60)
            self.assertEqual((status, problem["code"]), (503, "NotLeader"))
            # A client that knows this host only.
            done = self.rota("submit", "w.yaml", "--json", "--wait", env={"ROTA_URL": self.host_url(name)})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            others.append(json.loads(done.stdout)["workflow"])
        # Its own control socket says so as well.
        done = self.rota("submit", "w.yaml", "--state", self.path(followers[0]))
        self.assertIn(self.host_url(leader), done.stderr)
        for each in others:
            self.wait_until_ended(each)
        self.check([identity], once=True)
        self.stop_everything()

    def test_killed_leaders(self):
        """Contract: L-3. Two leaders in turn are killed during a workflow: the next host continues with the same state, and
        running tasks are neither lost nor started again."""
        self.start_all()
        self.write_held()
        identity = self.submit_keyed("w.yaml", "one")
        self.wait_until_running(identity, 2)
        killed = []
        for _ in range(2):
            leader = self.wait_for_leader([name for name in HOSTS if name not in killed])
            self.kill(leader)
            killed.append(leader)
            # The same submission again is the same workflow, also for a new leader.
            again = self.rota("submit", "w.yaml", "--key", "one", "--json")
            self.assertEqual(json.loads(again.stdout)["workflow"], identity, again.stderr)
            self.start_one(killed[0])
            killed = killed[-1:]
        self.start_one(killed[0])
        self.release()
        self.assertEqual(self.wait_until_ended(identity)["outcome"], "succeeded")
        self.check([identity], once=True)
        terms = {record["term"] for record in self.records()}
        self.assertGreaterEqual(len(terms), 2)
        self.stop_everything()

    def test_a_leader_that_was_paused_can_do_nothing_any_more(self):
        """Contract: L-3. A leader stands still beyond its lease while another one takes over, with workers that the old one
        does not know. When it continues, it takes no worker away, and follows."""
        self.start_all()
        self.write_held()
        first = self.submit_keyed("w.yaml", "one")
        self.wait_until_running(first, 2)
        old = self.wait_for_leader()
        others = [name for name in HOSTS if name != old]
        self.running[old].send_signal(signal.SIGSTOP)
        self.paused.add(old)
        new = self.wait_for_leader(others)
        self.start_one("w3")
        second = self.submit_keyed("w.yaml", "two")
        self.wait_until_running(second, 1)
        self.running[old].send_signal(signal.SIGCONT)
        self.paused.remove(old)
        self.wait_for(lambda: self.role(old) == "follower", "the old leader does not follow: ", self.logs)
        self.assertIsNone(self.running[old].poll())
        self.release()
        for identity in (first, second):
            self.assertEqual(self.wait_until_ended(identity)["outcome"], "succeeded")
        self.check([first, second], once=True)
        self.assertNotIn("the bus is closed", self.log(new))
        self.stop_everything()

    def test_etcd_servers_die(self):
        """Contract: L-3. One etcd server less is not noticed. Without any, nothing is accepted and running tasks continue;
        when they are back, the hosts continue, and what was reported meanwhile counts."""
        self.start_all()
        self.write_held()
        first = self.submit_keyed("w.yaml", "one")
        self.wait_until_running(first, 2)
        for name in SERVERS:  # One of them is etcd's leader.
            self.kill(name)
            self.submit_keyed("w.yaml", "one")
            self.start_one(name)
        second = self.submit_keyed("w.yaml", "two")
        self.wait_until_running(second, 2)
        for name in SERVERS:
            self.kill(name)
        self.release()
        with self.assertRaises(subprocess.TimeoutExpired):  # It waits for etcd.
            self.rota("submit", "w.yaml", "--key", "three", "--json", timeout=5)
        self.assertTrue(all(self.running[name].poll() is None for name in HOSTS), self.logs())
        self.assertEqual(self.ask("h1", "/v1/workflows/" + first)[0], 200)  # Reads are answered from memory.
        for name in HOSTS:
            self.wait_for(lambda name=name: self.ask(name, "/readyz")[0] == 503, "it says that it is ready: ", self.logs)
            self.assertIn("etcd has not answered for", self.ask(name, "/readyz")[1]["detail"])
        for name in SERVERS:
            self.start_one(name)
        for name in HOSTS:
            self.wait_for(lambda name=name: self.ask(name, "/readyz")[0] == 200, "it is not ready: ", self.logs)
        third = self.submit_keyed("w.yaml", "three")
        identities = [first, second, third]
        for identity in identities:
            self.assertEqual(self.wait_until_ended(identity)["outcome"], "succeeded")
        self.assertEqual(len(set(identities)), 3)
        self.check(identities, once=True)
        self.stop_everything()


    def test_a_host_that_waits_for_etcd_can_be_stopped(self):
        """Contract: L-3. Without etcd a host waits for a while at its start. SIGTERM ends that wait, and the host, at once."""
        self.start_redis()
        self.start_one("h1")
        self.wait_for(lambda: "connecting to etcd" in self.log("h1"), "it does not connect: ", self.logs)
        self.assertEqual(self.stop("h1"), 0)
        self.assertIn("stopping before etcd has answered", self.log("h1"))


class Copies(HaCase):
    def test_a_log_moves_to_etcd_and_back(self):
        """Contract: L-1, L-3. The log of a run on a laptop is copied to etcd, continued there by a host, and copied back: the
        records are the same, terms grow, and what was compacted is not needed."""
        for name in SERVERS:
            self.start_one(name)
        self.write("w.yaml", stages("{name: a, run: 'echo 1'}", "{name: b, needs: [a], run: 'echo 2'}"))
        self.assertEqual(self.rota("run", "w.yaml", "--state", self.path("laptop")).returncode, 0)
        where = "etcd:" + self.etcd

        def ok(*arguments, status=0):
            done = self.rota(*arguments)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            return done.stdout + done.stderr

        def records(place):
            return ok("replay", place, "--records").splitlines()

        copied = json.loads(ok("ledger", "copy", self.path("laptop"), where, "--json"))
        self.assertEqual((copied["action"], copied["last_index"]), ("copy", len(records(self.path("laptop")))))
        self.assertTrue(json.loads(ok("ledger", "verify", where, "--json"))["verified"])
        self.assertIn("nothing was changed", ok("ledger", "copy", self.path("laptop"), where, status=4))
        ok("ledger", "copy", where, self.path("back"))
        self.assertEqual(records(self.path("back")), records(self.path("laptop")))
        self.assertIn("already", ok("ledger", "copy", where, self.path("back"), status=4))

        # A host continues it. Snapshots are frequent, so that the log is compacted.
        self.start_redis()
        for name in ("h1", "w1"):
            self.start_one(name)
        self.wait_for_leader(["h1"])
        self.assertIn("h1", self.web)
        ok("ledger", "copy", self.path("laptop"), where, status=4)
        self.wait_for(lambda: self.idle() >= 1, "no worker registered: ", self.logs)
        self.environment["ROTA_URL"] = self.host_url("h1")
        ok("submit", "w.yaml", "--wait")
        ok("ledger", "backup", where, self.path("copy.db"))
        self.assertTrue(json.loads(ok("ledger", "verify", self.path("copy.db"), "--json"))["verified"])
        self.assertEqual(self.stop("h1"), 0)
        ok("ledger", "copy", where, self.path("after"))
        before, after = (list(map(json.loads, records(self.path(name)))) for name in ("laptop", "after"))
        self.assertEqual(after[:len(before)], before)
        self.assertGreater(after[len(before)]["term"], before[-1]["term"])
        # Into another place in etcd, as after the loss of the servers.
        self.environment["ROTA_ETCD_PREFIX"] = "restored/"
        ok("ledger", "restore", self.path("copy.db"), where)
        self.assertTrue(json.loads(ok("ledger", "verify", where, "--json"))["verified"])
        self.environment["ROTA_ETCD_PREFIX"] = "empty/"
        self.assertIn("there is no log", ok("ledger", "verify", where, status=3))


@unittest.skipUnless(os.environ.get("ROTA_FAILOVER_KILLS"), "set ROTA_FAILOVER_KILLS=50 to measure failovers")
class Failover(HaCase):
    lease_s = 2

    def test_failover_times(self):
        """Contract: P-19. From the death of the leader to the first answer of its successor as the leader."""
        self.start_all()
        times = []
        for _ in range(int(os.environ["ROTA_FAILOVER_KILLS"])):
            leader = self.wait_for_leader()
            others = [name for name in HOSTS if name != leader]
            self.running[leader].kill()
            since = time.monotonic()
            while not any(self.role(name) == "leader" for name in others):
                self.assertLess(time.monotonic() - since, LIMIT_S, self.logs())
            times.append(time.monotonic() - since)
            self.running[leader].wait(LIMIT_S)
            self.start_one(leader)
            self.wait_for(lambda name=leader: self.role(name) == "follower", "it does not follow: ", self.logs)
        times.sort()
        print(f"{len(times)} failovers, lease {self.lease_s} s: p50 {times[len(times) // 2]:.2f} s, "
              f"p99 {times[min(len(times) - 1, len(times) * 99 // 100)]:.2f} s, longest {times[-1]:.2f} s", flush=True)
        self.check([])


class Demo(HaCase):
    def test_the_demo(self):
        """examples/ha/demo ends with 0: the leader is killed twice, the result is right, and the log verifies."""
        environment = {name: value for name, value in self.environment.items() if name not in ("ROTA_URL", "ROTA_TOKEN")}
        done = subprocess.run([sys.executable, os.path.join(ROOT, "examples", "ha", "demo")], capture_output=True, text=True,
                              check=False, timeout=4 * LIMIT_S, env={**environment, "ROTA_COMMAND": ROTA})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("everything is as it should be", done.stdout)
        self.assertIn("Verified", done.stdout)
        self.assert_nothing_runs()


class Chaos(HaCase):
    """Faults come at random moments while workflows run: KILL and STOP of hosts, etcd servers, Redis and workers."""

    ttl_ms = 3000
    lease_s = 2
    pause_s = 2.0

    def test_chaos(self):
        """Contract: L-3."""
        print(f"seed {SEED}", flush=True)
        dice = random.Random(SEED)
        self.start_all(workers=4)
        self.write("w.yaml", workflow("sleep 0.$(($(od -An -N1 -tu1 /dev/urandom) % 9 + 1))"))
        faults = collections.Counter()
        stopped = {}
        known = {}
        number = 0
        deadline = time.monotonic() + SECONDS
        next_fault = time.monotonic() + self.pause_s
        while time.monotonic() < deadline:
            self.tend(stopped)
            if time.monotonic() >= next_fault:
                name = dice.choice([*HOSTS, *HOSTS, *SERVERS, "redis", "w1", "w2", "w3", "w4", "leader", "leader"])
                name = self.leader() or "h1" if name == "leader" else name
                kind = dice.choice(["kill", "stop"])
                pause = dice.uniform(0.1, 3 * self.lease_s)
                next_fault = time.monotonic() + dice.uniform(0.5, 1.5) * self.pause_s
                if name in stopped or self.running[name].poll() is not None:
                    continue
                faults[f"{kind} {name}"] += 1
                if kind == "kill":
                    self.kill(name)
                else:
                    self.running[name].send_signal(signal.SIGSTOP)
                    stopped[name] = time.monotonic() + pause
            elif self.try_submit(f"run-{number}", known):
                number += 1
            time.sleep(0.1)
        self.tend(stopped, everybody=True)
        self.wait_for(lambda: self.tend(stopped) or known or self.try_submit("run-0", known), "nothing is accepted: ", self.logs)
        for identity in known.values():
            self.wait_for(lambda identity=identity: self.tend(stopped) or
                          self.workflow_of(identity)["outcome"] not in ("running", "unknown"),
                          f"seed {SEED}: {identity} did not end: ",
                          lambda identity=identity: f"{self.workflow_of(identity)} {self.logs()}")
        self.wait_for_leader()
        self.check(list(known.values()))
        # Nobody was told of a workflow that another key has as well.
        self.assertEqual(len(set(known.values())), len(known))
        self.stop_everything()
        print(f"seed {SEED}, {sum(faults.values())} faults {dict(faults)}, {len(known)} workflows", flush=True)

    def tend(self, stopped, everybody=False):
        """Continues what was stopped, and starts what has ended, as a service manager does."""
        for name, until in list(stopped.items()):
            if everybody or time.monotonic() >= until:
                del stopped[name]
                self.running[name].send_signal(signal.SIGCONT)
        for name, process in list(self.running.items()):
            if process.poll() is not None:
                self.start_one(name)

    def try_submit(self, key, known):
        try:
            done = self.rota("submit", "w.yaml", "--key", key, "--json", timeout=5)
        except subprocess.TimeoutExpired:
            return False
        if done.returncode != 0:
            return False
        known[key] = json.loads(done.stdout)["workflow"]
        return True


if __name__ == "__main__":
    unittest.main()
