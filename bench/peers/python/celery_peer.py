"""Celery's part of the rows about the host (P-13, P-14): broker and results on a Redis of its own, on loopback and in memory
only, and a worker with `threads` processes. All of it is started here, in a temporary folder, and ended here."""

import os
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import celery  # noqa: E402
import redis  # noqa: E402

import driver  # noqa: E402

URL = os.environ.get("BENCH_REDIS", "redis://127.0.0.1:0/0")
app = celery.Celery("celery_peer", broker=URL, backend=URL)
# A worker takes as many messages as it likes: the fastest setting for tasks that do nothing.
app.conf.update(worker_prefetch_multiplier=64, worker_send_task_events=False)


@app.task
def noop(*_):
    return None


@app.task
def began(*_):
    return time.monotonic_ns()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(ready, what):
    for _ in range(3600):
        try:
            if ready():
                return
        except redis.ConnectionError:
            pass
        time.sleep(0.05)
    sys.exit(f"{what} did not start")


def flat(count):
    def once():
        return len(celery.group(noop.s(i) for i in range(count)).apply_async().get())
    return driver.us_each(count, once)


def chain(count):
    def once():
        celery.chain(*(noop.si() for _ in range(count))).apply_async().get()  # The last one's result.
        return count
    return driver.us_each(count, once)


def start(count):
    return driver.us_to_start(count, lambda: began.delay().get())


def round_trip(count):
    return driver.us_to_end(count, lambda: noop.delay().get())


WORKS = {"host_flat": flat, "host_chain": chain, "host_start": start, "redis_flat": flat, "redis_chain": chain,
         "redis_round_trip": round_trip}


def measure(work, threads, count):
    """In a process of its own environment: the application reads where Redis is when it is imported."""
    with tempfile.TemporaryDirectory(prefix="rota_bench_") as folder:
        port = free_port()
        environment = {**os.environ, "BENCH_REDIS": f"redis://127.0.0.1:{port}/0",
                       "PYTHONPATH": os.path.dirname(os.path.abspath(__file__)), "PYTHONDONTWRITEBYTECODE": "1"}
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started = [subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", folder,
                                     "--save", "", "--appendonly", "no"], **quiet)]
        try:
            wait_until(redis.Redis(port=port).ping, "redis-server")
            started.append(subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "celery_peer", "worker", "--concurrency", str(threads),
                 "--loglevel", "CRITICAL", "--without-gossip", "--without-mingle", "--without-heartbeat"],
                env=environment, cwd=folder, **quiet))
            done = subprocess.run([sys.executable, os.path.abspath(__file__), "--client", work, str(count)],
                                  env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode != 0:
                sys.exit("the client failed")
            return float(done.stdout)
        finally:
            for process in reversed(started):
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        noop.delay().get(timeout=180)  # The worker is there.
        print(WORKS[sys.argv[2]](int(sys.argv[3])))
        sys.exit(0)
    sys.exit(driver.main({name: lambda threads, count, name=name: measure(name, threads, count) for name in WORKS},
                         sys.argv))
