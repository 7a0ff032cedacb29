"""From the rounds of a work to rows: medians, the best peer, the ratio and its spread; as a table and as JSON."""

import json
import statistics
from dataclasses import dataclass, field

from harness.measure import METERED, OPEN, threads_text

RATIO_KEYS = ("bench", "threads", "unit", "rota", "peers", "best_peer", "ratio", "limit", "spread")


@dataclass
class Result:
    """One row, measured. Values are medians over the rounds, None where there is none."""

    row: object
    rota: float = None
    peers: dict = field(default_factory=dict)
    best_peer: str = None
    ratio: float = None
    spread: list = None  # Lowest and highest ratio of a round.
    limit: float = None
    other_limits: dict = field(default_factory=dict)
    marks: dict = field(default_factory=dict)  # Participant -> what to show instead of, or beside, its figure.

    def as_json(self):
        return dict(zip(RATIO_KEYS, (self.row.bench, self.row.threads, self.row.figure.unit, self.rota, self.peers,
                                     self.best_peer, self.ratio, self.limit, self.spread), strict=True))


def middle(values):
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def ratios(ours, theirs):
    """Ours divided by theirs, round by round, where both have a figure."""
    return [a / b for a, b in zip(ours, theirs) if a is not None and b]


def evaluate(row, outcomes, peers, limits):
    """The Result of one row. `peers` and `limits` are names, `outcomes` what Runner.measure returned."""
    result = Result(row)
    if row.metered:  # Ours metered against ours unmetered: nobody else meters (P-15).
        ours, rivals = METERED, [OPEN]
    else:
        ours, rivals = OPEN, peers
    figures = {name: outcomes[name].values(row.index) for name in (ours, *rivals)}
    for name in (ours, *rivals):
        if outcomes[name].state != "ok":
            result.marks[name] = outcomes[name].state
        elif outcomes[name].stayed():
            result.marks[name] = "same thread"
    result.rota = middle(figures[ours])
    # None says "missing" or "failed" in the JSON too: a peer never just disappears. One that has no such figure does.
    result.peers = {("rota_open" if name == OPEN else name): middle(figures[name]) for name in rivals
                    if name in result.marks or middle(figures[name]) is not None}
    fair = {name: middle(figures[name]) for name in rivals
            if middle(figures[name]) is not None and result.marks.get(name) != "same thread"}
    if fair:
        best = min(fair, key=fair.get)
        result.best_peer = "rota_open" if best == OPEN else best
        each = ratios(figures[ours], figures[best])
        if each and fair[best] and result.marks.get(ours) != "same thread":
            result.ratio = result.rota / fair[best]
            result.spread = [min(each), max(each)]
    bare = {name: middle(outcomes[name].values(row.index)) for name in limits if name in outcomes}
    if bare:
        first = next(iter(bare))
        result.limit = bare.pop(first)
        result.other_limits = {name: value for name, value in bare.items() if value is not None}
    return result


def number(value):
    """Three significant digits, without an exponent."""
    if value is None:
        return "-"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


class Table:
    """The table for people, written row by row as they are measured."""

    def __init__(self, peers, write):
        self.peers, self.write = peers, write
        self.notes = []

    def line(self, cells):
        widths = (28, 1, 4, 8, *(max(7, len(peer)) for peer in self.peers), 11, 19, 7)
        texts = [cells[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:]))]
        self.write("  ".join(texts + [cells[-1]]).rstrip())

    def header(self):
        self.line(["bench", "t", "unit", "rota", *self.peers, "best peer", "ratio (rounds)", "limit", "aim"])

    def cell(self, result, name):
        key = "rota_open" if name == OPEN else name
        mark = result.marks.get(name)
        value = result.peers.get(key)
        if mark == "same thread":
            return number(value) + "~"
        if mark:
            return mark
        return number(value) if value is not None else "."

    def add(self, result):
        row = result.row
        ours = METERED if row.metered else OPEN
        rota = number(result.rota) if result.rota is not None else result.marks.get(ours, "-")
        if result.marks.get(ours) == "same thread":
            rota += "~"
        ratio = "-"
        if result.ratio is not None:
            ratio = f"{result.ratio:.2f} ({result.spread[0]:.2f}-{result.spread[1]:.2f})"
        peers = ["."] * len(self.peers) if row.metered else [self.cell(result, peer) for peer in self.peers]
        best = result.best_peer or "-"
        if row.metered and result.best_peer:
            best = f"open {number(result.peers['rota_open'])}"
        self.line([f"{row.clause} {row.bench}", str(row.threads), row.figure.unit, rota, *peers, best, ratio,
                   number(result.limit), str(row.aim)])
        for name, value in result.other_limits.items():
            if not row.metered:
                self.notes.append(f"{row.bench}, {threads_text(row.threads)}: {name} {number(value)} {row.figure.unit}")

    def end(self, outcomes):
        """What the table left open: `outcomes` is a list of (work, threads, outcomes by participant)."""
        if self.notes:
            self.write("")
            self.write("Other limits: " + "; ".join(self.notes))
        missing, others = {}, []
        for work, threads, by_name in outcomes:
            for name, outcome in by_name.items():
                shown = "rota" if name == METERED else name
                if outcome.state == "missing":
                    missing[shown] = outcome.reason
                elif outcome.state != "ok":
                    others.append(f"{outcome.state}: {name}, {work.name} at {threads}: {outcome.reason}")
                elif outcome.stayed():
                    others.append(f"~ {name}, {work.name}: most messages stayed on one thread; not compared")
        if missing or others:
            self.write("")
        for name, reason in missing.items():
            self.write(f"missing: {name}: {reason}")
        for text in others:
            self.write(text)


def write_json(path, results):
    """A list with one object a row, one row a line."""
    lines = ",\n".join(json.dumps(result.as_json()) for result in results)
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + lines + "\n]\n")
