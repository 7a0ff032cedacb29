"""Every clause of docs/CONTRACT.md is cited by a test.

  contract.py [--root FOLDER] [PREFIX...]

lists each clause with the tests that cite it. A prefix is a letter (F) or a clause (F-17). A clause is
  tested   when a test cites its id: in a comment right above the test, or inside it;
  pending  when a room it speaks of does not exist yet;
  open     when scripts/contract_open.txt says that it is being worked on;
  MISSING  otherwise, and then this command fails. With a prefix, open clauses are missing too.

What counts as a test: TEST and its relatives in *_test.cc and tests/, one whole file where there are none (a C program,
a script), functions test_* of Python; for P clauses also the files of bench/ and *_bench.cc. A disabled test is none.
"""

import argparse
import fnmatch
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lint"))
import sources  # noqa: E402

# The rooms a letter's clauses speak of: pending until all of them exist. P clauses have their own map.
ROOMS = {"F": ["fiber"], "G": ["graph", "flow"], "B": ["fleet"], "L": ["ledger"], "U": ["bus", "worker"], "H": ["host"],
         "S": ["sim"], "C": ["cli"], "W": ["web"], "Y": ["workflow"]}
P_ROOMS = {**{n: ["fiber"] for n in (1, 2, 3, 4, 5, 6, 8, 9, 15)}, 7: ["flow"], 10: ["fleet"], 11: ["ledger"],
           12: ["cli"], 13: ["host"], 14: ["bus", "worker"], 16: ["cli"], 17: ["flow", "fleet"], 18: ["net", "host"],
           19: ["net", "ledger"], 20: ["sim"], 21: ["web"], 22: ["fleet"]}

CLAUSE = re.compile(r"\*\*([A-Z])-(\d+)\*\*")
CITATION = re.compile(r"(?<![\w-])([A-Z])-(\d+)(?![\w-])")
CPP_TEST = re.compile(r"^\s*[A-Z]\w*(?:TEST|PROP)\w*\(\s*(\w+)\s*,\s*(\w+)|^\s*TEST\w*\(\s*(\w+)\s*,\s*(\w+)")
PY_TEST = re.compile(r"^\s*(?:async )?def (test_\w+)\(")
COMMENT = re.compile(r"^\s*(?://|#|\*|/\*|@|$)")


def read_clauses(tree):
    """The ids in the order of the document, as (letter, number)."""
    found = {}
    for letter, number in CLAUSE.findall(tree.read("docs/CONTRACT.md")):
        found[(letter, int(number))] = None
    return list(found)


def is_test(path):
    if path.startswith("tests/checks/") or path.endswith(".md"):  # Tests of this very check; prose proves nothing.
        return False
    return path.startswith("tests/") or fnmatch.fnmatch(path, "*_test.cc") or fnmatch.fnmatch(path, "*_test.c")


def is_benchmark(path):
    if path.startswith(("bench/peers/", "bench/tests/")):
        return False
    return path.endswith("_bench.cc") or path.startswith("bench/") and path.endswith((".cc", ".c", ".py", "/run", "/http", "/pages"))


def citations(path, text):
    """((letter, number), test's name, line) of each clause cited by a test of this file."""
    lines = text.splitlines()
    names = [None] * len(lines)  # The test that each line belongs to.
    pattern = PY_TEST if path.endswith(".py") else CPP_TEST
    current, starts = None, {}
    for i, line in enumerate(lines):
        match = pattern.match(line)
        if match:
            current = ".".join(part for part in match.groups() if part)
            starts[i] = current
        names[i] = current
        if line.startswith("}"):
            current = None
    for start, name in starts.items():  # The comment right above a test is the test's.
        i = start - 1
        while i >= 0 and COMMENT.match(lines[i]) and lines[i].strip():
            names[i] = name
            i -= 1
    for i, line in enumerate(lines):
        name = names[i] if starts else "the whole file"
        if name is None or "DISABLED_" in name:
            continue
        for letter, number in CITATION.findall(line):
            yield (letter, int(number)), name, i + 1


def read_open(tree):
    """The clauses that contract_open.txt names."""
    result = set()
    path = "scripts/contract_open.txt"
    if path not in tree.files:
        return result
    for line in tree.read(path).splitlines():
        match = re.match(r"([A-Z])-(\d+)(?:\.\.([A-Z])-(\d+))?\s*$", line)
        if match:
            letter, first, _, last = match.groups()
            result |= {(letter, n) for n in range(int(first), int(last or first) + 1)}
        elif line.strip() and not line.startswith("#"):
            raise SystemExit(f"{path}: cannot read '{line}'; write F-3 or F-3..F-9")
    return result


def room_exists(tree, room):
    return any(path in tree.files for path in (f"src/{room}/CMakeLists.txt", f"{room}/package.json"))


def judge(tree, prefixes):
    """(clause, state, tests, note) of each clause that was asked for, in order."""
    tests = {}
    for path in tree.files:
        if is_test(path) or is_benchmark(path):
            for clause, name, line in citations(path, tree.read(path)):
                if clause[0] == "P" or not is_benchmark(path):
                    tests.setdefault(clause, []).append(f"{path}:{line} {name}")
    open_clauses = read_open(tree)
    for clause in read_clauses(tree):
        letter, number = clause
        if prefixes and not ({letter, f"{letter}-{number}"} & set(prefixes)):
            continue
        rooms = P_ROOMS.get(number) if letter == "P" else ROOMS.get(letter)
        missing_rooms = [room for room in rooms or [] if not room_exists(tree, room)]
        if rooms is None:
            yield clause, "MISSING", [], "scripts/contract.py knows no room for it"
        elif clause in tests:
            yield clause, "tested", tests[clause], "is still listed as open" if clause in open_clauses else ""
        elif missing_rooms:
            yield clause, "pending", [], f"no {' and '.join(room + '/' for room in missing_rooms)} yet"
        elif clause in open_clauses and not prefixes:
            yield clause, "open", [], "being worked on"
        else:
            yield clause, "MISSING", [], "no test cites it"


def main():
    parser = argparse.ArgumentParser(prog="./dev contract", description="Each clause of the contract and its tests.")
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--root", default=os.path.dirname(here), help="the project's folder")
    parser.add_argument("--brief", action="store_true", help="only what is missing, and the count")
    parser.add_argument("prefixes", nargs="*", metavar="PREFIX", help="a letter (F) or a clause (F-17)")
    args = parser.parse_args()
    tree = sources.Tree(args.root)
    known = read_clauses(tree)
    for prefix in args.prefixes:
        if not any(prefix in (letter, f"{letter}-{number}") for letter, number in known):
            parser.error(f"docs/CONTRACT.md has no clause '{prefix}'")
    counts = {"tested": 0, "open": 0, "pending": 0, "MISSING": 0}
    for (letter, number), state, tests, note in judge(tree, args.prefixes):
        counts[state] += 1
        if args.brief and state != "MISSING":
            continue
        print(f"{letter}-{number:<4} {state:<8} {note}".rstrip())
        if not args.brief:
            for test in tests:
                print(f"         {test}")
    print(f"{counts['tested']} tested, {counts['open']} open, {counts['pending']} pending, {counts['MISSING']} missing")
    return 1 if counts["MISSING"] else 0


if __name__ == "__main__":
    sys.exit(main())
