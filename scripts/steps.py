"""Runs one step of ./dev: its output goes to a log, the screen gets one line.

A step that fails says which command failed, where its log is, and shows the part of the log that matters. On a
terminal a long step shows how far it is; elsewhere it says so once in half a minute.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOGS = os.path.join(ROOT, "build", "logs")
TERMINAL = sys.stdout.isatty()
LIVE = set()  # The processes under way.


def relative(path):
    """`path` as a person in the project's folder would type it."""
    inside = os.path.relpath(path, ROOT)
    return path if inside.startswith("..") else inside


def line(title, result, seconds):
    """The one line of a finished step."""
    erase = "\r\033[K" if TERMINAL else ""
    print(f"{erase}{title:<32} {result:<36} {seconds:6.1f} s", flush=True)


def progress(title, text):
    """What a step is doing now; the next line() replaces it."""
    if TERMINAL:
        print(f"\r\033[K{title:<32} {text}", end="", flush=True)


def shown(command):
    return shlex.join(relative(str(part)) for part in command)


def log_path(name):
    os.makedirs(LOGS, exist_ok=True)
    return os.path.join(LOGS, re.sub(r"[^\w.-]+", "_", name) + ".log")


def execute(command, log, cwd=ROOT, env=None, quiet_s=None, on_line=None):
    """Runs `command` with its output in `log`. Returns its exit status, or None when it said nothing for `quiet_s`.

    The command is a process group of its own, and is killed as one: nothing that a test starts outlives it.
    """
    with open(log, "w", encoding="utf-8", errors="replace", buffering=1) as out:
        out.write(f"$ {shown(command)}\n")
        out.flush()
        process = subprocess.Popen(
            [str(part) for part in command], cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True, text=True, encoding="utf-8", errors="replace")
        LIVE.add(process)
        heard, ended, gave_up = threading.Event(), threading.Event(), threading.Event()

        def watch():
            while heard.wait(quiet_s):
                heard.clear()
                if ended.is_set():
                    return
            gave_up.set()
            kill_group(process)

        watcher = threading.Thread(target=watch, daemon=True) if quiet_s else None
        if watcher:
            watcher.start()
        try:
            for text in process.stdout:
                heard.set()
                out.write(text)
                if on_line:
                    on_line(text)
            status = process.wait()
        finally:
            LIVE.discard(process)
            ended.set()
            heard.set()
            if watcher:
                watcher.join()
        if gave_up.is_set():
            out.write(f"\nstopped: nothing was heard from it for {quiet_s} s\n")
            return None
        return status


def kill_group(process, how=signal.SIGKILL):
    try:
        os.killpg(process.pid, how)
    except ProcessLookupError:
        pass


def group_lives(process):
    if process.poll() is not None:
        return False
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def end_together():
    """From now on, whoever stops this program (Ctrl-C) stops all that it runs."""

    def stop(number, _frame):
        # Politely first: ninja's compilers are groups of their own, and only it can end them.
        for process in list(LIVE):
            kill_group(process, signal.SIGTERM)
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline and any(group_lives(process) for process in list(LIVE)):
            time.sleep(0.02)
        for process in list(LIVE):
            kill_group(process)
        os._exit(128 + number)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def failing_part(log, limit=40):
    """The lines of a log that a person wants to see first."""
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()[1:]
    starts = [i for i, text in enumerate(lines)
              if re.search(r"^FAILED: |CMake Error|^\S+:\d+: Failure|Sanitizer|^Traceback|: error:|^ERROR:|^FAIL:", text)]
    first = starts[0] if starts else max(0, len(lines) - 25)
    return lines[first:first + limit]


def report_failure(command, log, part=None):
    """Says what failed, on the screen."""
    for text in part if part is not None else failing_part(log):
        print("    " + (text if len(text) <= 200 else text[:200] + " ..."))
    print(f"  failed: {shown(command)}")
    print(f"  log:    {relative(log)}", flush=True)


def run(title, command, cwd=ROOT, env=None, log_name=None, result="done"):
    """One step with its one line; returns whether it went well."""
    log = log_path(log_name or title)
    start = time.monotonic()
    last_word = [start]

    def on_line(text):
        step = re.match(r"\[(\d+/\d+)\]", text)
        if not step:
            return
        progress(title, step.group(1))
        if not TERMINAL and time.monotonic() - last_word[0] > 30:
            last_word[0] = time.monotonic()
            print(f"{title:<32} {step.group(1)}", flush=True)

    progress(title, "...")
    status = execute(command, log, cwd=cwd, env=env, on_line=on_line)
    line(title, result if status == 0 else "FAILED", time.monotonic() - start)
    if status != 0:
        report_failure(command, log)
    return status == 0
