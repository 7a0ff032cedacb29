"""Runs one step of ./dev: its output goes to a log, the screen gets one line.

A step that fails says which command failed, where its log is, and shows the part of the log that matters. On a
terminal a long step shows how far it is; elsewhere it says so once in half a minute.
"""

import codecs
import os
import queue
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
START_S = 60  # A program has at least so long until its first word: on a busy machine it may have to wait for a processor.
LAST_WORDS_S = 10  # How long a program that was stopped, or has ended, may keep its output open.
BUILD_QUIET_S = 1800  # A build that says nothing for so long hangs: ninja speaks after each file.


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


def give_way(process):
    """The process and all that it starts run when nobody else wants a processor. It leads a session, and Linux divides the
    processors among sessions first (autogroup), so `nice` alone would only count inside of it."""
    try:
        os.setpriority(os.PRIO_PROCESS, process.pid, 19)
        with open(f"/proc/{process.pid}/autogroup", "w", encoding="ascii") as file:
            file.write("19")
    except OSError:  # A kernel without autogroups, or the process has ended.
        pass


def execute(command, log, cwd=ROOT, env=None, quiet_s=None, limit_s=None, on_line=None, dump=False, gives_way=False):
    """Runs `command` with its output in `log`. Returns its exit status, or None when it was stopped: because it said nothing
    for `quiet_s`, or ran for more than `limit_s`. stop_reason(log) then has the reason.

    The command is a process group of its own, and is killed as one: nothing that a test starts outlives it. With `dump` it
    gets ABRT before that, for which Python's faulthandler says where each thread is. With `gives_way` it runs behind everything
    else: a build beside tests.
    """
    with open(log, "w", encoding="utf-8", errors="replace", buffering=1) as out:
        out.write(f"$ {shown(command)}\n")
        out.flush()
        process = subprocess.Popen([str(part) for part in command], cwd=cwd, env=env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        LIVE.add(process)
        if gives_way:
            give_way(process)
        try:
            output = Output(process, out, on_line)
            reason = output.copy(quiet_s, limit_s)
            if reason and dump and process.poll() is None:
                process.send_signal(signal.SIGABRT)
                output.copy(limit_s=LAST_WORDS_S)
            if reason:
                kill_group(process)
                output.copy(limit_s=LAST_WORDS_S)
            status = process.wait()
        finally:
            LIVE.discard(process)
        if reason:
            out.write(f"\n{reason}\n")
            return None
        return status


class Output:
    """The output of a process. A thread reads it, so that nobody waits for a process that is silent."""

    def __init__(self, process, out, on_line):
        self.process, self.out, self.on_line = process, out, on_line
        self.pieces = queue.Queue(64)
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.line = ""
        self.at_end = False
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while piece := self.process.stdout.read1(65536):
            self.pieces.put(piece)
        self.pieces.put(None)

    def take(self, piece):
        """Writes it at once, also a part of a line, and calls on_line with each line that is whole."""
        text = self.decoder.decode(piece)
        self.out.write(text)
        self.out.flush()
        if self.on_line:
            *whole, self.line = (self.line + text).split("\n")
            for each in whole:
                self.on_line(each)

    def copy(self, quiet_s=None, limit_s=None):
        """Copies until the output ends and returns None, or why the process must be stopped. A process that has ended may have
        left others behind that keep its output open: they are not waited for."""
        start = heard = time.monotonic()
        patience_s = quiet_s and max(quiet_s, START_S)
        ended = None
        while not self.at_end:
            try:
                piece = self.pieces.get(timeout=0.2)
            except queue.Empty:
                piece = b""
            now = time.monotonic()
            if piece is None:
                self.at_end = True
            elif piece:
                heard, patience_s = now, quiet_s
                self.take(piece)
            elif self.process.poll() is not None:
                ended = ended or now
                if now - ended > LAST_WORDS_S:
                    kill_group(self.process)
                    break
            elif patience_s and now - heard > patience_s:
                return f"stopped: nothing was heard from it for {quiet_s} s"
            if limit_s and ended is None and now - start > limit_s:
                return f"stopped: it ran for more than {limit_s} s"
        return None


def stop_reason(log):
    """Why execute() returned None."""
    with open(log, encoding="utf-8", errors="replace") as file:
        found = re.findall(r"^stopped: .*", file.read(), re.MULTILINE)
    return found[-1] if found else "stopped"


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
    # Of a script that was stopped: which test it was in, and where.
    stacks = [i for i, text in enumerate(lines) if "Fatal Python error: Aborted" in text]
    if stacks and lines[-1].startswith("stopped: "):
        return [lines[-1]] + lines[max(0, stacks[-1] - 2):stacks[-1] + limit]
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
    status = execute(command, log, cwd=cwd, env=env, quiet_s=BUILD_QUIET_S, on_line=on_line, gives_way=True)
    line(title, result if status == 0 else "FAILED", time.monotonic() - start)
    if status != 0:
        report_failure(command, log)
    return status == 0
