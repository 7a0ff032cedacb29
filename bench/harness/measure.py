"""Runs the programs of one work round robin and keeps one value a program and round.

Alternating is the point: on a shared machine the speed drifts by more than programs differ, and it drifts for all of
them alike when they take turns.
"""

import os
import re
import signal
import subprocess
from dataclasses import dataclass, field

OPEN, METERED = "rota", "rota_metered"  # The two participants that are the same program of ours.


@dataclass
class Outcome:
    """What one participant of a work did. `rounds` has one list of figures a round, None where it failed."""

    state: str = "ok"  # or missing (no program), absent (it has no such work), failed, memory (too little)
    reason: str = ""
    rounds: list = field(default_factory=list)
    crossed: list = field(default_factory=list)  # The share of messages that changed threads, by round.

    def fail(self, state, reason):
        self.state, self.reason = state, reason

    def values(self, index):
        """One figure, by round; None where there is none."""
        return [figures[index] if figures and index < len(figures) else None for figures in self.rounds]

    def stayed(self):
        """True if most messages never changed threads, so that the figure is not the row's work."""
        shares = [share for share in self.crossed if share is not None]
        return bool(shares) and sum(shares) / len(shares) < 0.5


class NoSuchWork(ValueError):
    """The program is there and does not know the work."""


def parse(line, count):
    """`count` numbers of a program's line, `-` being none; anything else is an error."""
    words = line.split()
    if len(words) != count:
        raise ValueError(f"{count} numbers expected, got {line.strip()!r}")
    figures = [None if word == "-" else float(word) for word in words]
    if any(figure is not None and not figure >= 0 for figure in figures):
        raise ValueError(f"no such figure can be: {line.strip()!r}")
    return figures


def run_program(command, count, timeout_s):
    """The figures that `command` prints, or raises ValueError with a sentence."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, errors="replace", start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # Its own group: start_new_session.
        process.communicate()
        raise ValueError(f"no answer in {timeout_s} s") from None
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    if process.returncode != 0:
        said = [text for text in err.splitlines() if text.strip() and not text.startswith("result ")]
        if process.returncode == 2 and said and "no such work" in said[-1]:
            raise NoSuchWork(said[-1])
        how = f"signal {-process.returncode}" if process.returncode < 0 else f"status {process.returncode}"
        raise ValueError(f"{how}: {said[-1] if said else 'without a word'}")
    return parse(out, count)


def available_bytes():
    """Memory that can be had without swapping; 0 if the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = re.search(r"^MemAvailable:\s+(\d+) kB", file.read(), re.MULTILINE)
    except OSError:
        return 0
    return int(found.group(1)) * 1024 if found else 0


def threads_text(threads):
    return f"{threads} thread{'s' if threads > 1 else ''}"


class Runner:
    """Measures works with the programs of one folder."""

    def __init__(self, folder, peers, limits=(), rounds=5, quick=False, timeout_s=180, progress=lambda where, name: None):
        self.folder, self.peers, self.limits, self.quick = folder, peers, limits, quick
        self.rounds, self.timeout_s, self.progress = rounds, timeout_s, progress

    def command(self, work, participant, threads):
        program = OPEN if participant == METERED else participant
        size = work.size_for(program, self.quick)
        extra = ["--profile=service"] if participant == METERED else []
        return [os.path.join(self.folder, program), work.name, str(threads), str(size), *extra]

    def packages(self, participant):
        known = (program.packages for program in (*self.peers, *self.limits) if program.name == participant)
        return next(known, ())

    def not_there(self, participant):
        log = os.path.join(self.folder, participant + ".log")
        if os.path.exists(log):
            return f"could not be built; see {os.path.relpath(log)}"
        packages = self.packages(participant)
        if packages:
            return f"not built; needs the packages {' '.join(packages)}"
        return "not built"

    def check(self, work, participant, outcome):
        """Marks who cannot run at all: a program that is not there, or needs more memory than there is."""
        program = OPEN if participant == METERED else participant
        if not os.access(os.path.join(self.folder, program), os.X_OK):
            outcome.fail("missing", self.not_there(program))
        needed = work.bytes_each.get(program, 0) * work.size_for(program, self.quick)
        if outcome.state == "ok" and 0 < available_bytes() < needed * 1.1:
            outcome.fail("memory", f"needs {needed / 1e9:.1f} GB of memory, more than is free")

    def participants(self, work, unmetered, metered):
        """In their order of a round. The peers have no part in a metered row (P-15)."""
        ours = [OPEN, METERED] if metered else [OPEN]
        peers = [peer.name for peer in self.peers if work.takes_part(peer.name)] if unmetered else []
        return ours + peers + list(work.limits)

    def measure(self, work, threads, unmetered=True, metered=True):
        """Participant -> Outcome, for the unmetered rows of a work, the metered ones, or both."""
        outcomes = {name: Outcome() for name in self.participants(work, unmetered, metered)}
        for name, outcome in outcomes.items():
            self.check(work, name, outcome)
        rounds = min(self.rounds, work.max_rounds or self.rounds)
        count = len(work.figures) + (1 if work.crosses else 0)
        for number in range(1, rounds + 1):
            for name, outcome in outcomes.items():
                if outcome.state != "ok":
                    continue
                self.progress(f"{work.name}, {threads_text(threads)}, round {number}/{rounds}", name)
                try:
                    for _ in range(work.warm_runs + 1):
                        figures = run_program(self.command(work, name, threads), count, self.timeout_s)
                except (ValueError, OSError) as error:
                    outcome.fail("absent" if isinstance(error, NoSuchWork) else "failed", str(error))
                    outcome.rounds.append(None)
                    continue
                outcome.crossed.append(figures.pop() if work.crosses else None)
                outcome.rounds.append(figures)
        return outcomes
