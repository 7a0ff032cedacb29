"""The static checks, each a module check_<name>.py with one function check(tree) that yields violations.

  run.py [--root FOLDER] [NAME...]   runs all checks, or those named; exits 1 when one finds something
  run.py --list                      their names
  run.py --rewrite-format [FILE...]  formats every C and C++ file, or those named, in place
"""

import argparse
import importlib
import os
import sys

import sources

CHECKS = ("rooms", "purity", "sync", "length", "paths", "format")
SHOWN = 20


def run_one(name, tree):
    return list(importlib.import_module(f"check_{name}").check(tree))


def main():
    parser = argparse.ArgumentParser(prog="./dev lint", description="The static checks; seconds, no build.")
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(here)), help="the project's folder")
    parser.add_argument("--list", action="store_true", help="print the names of the checks")
    parser.add_argument("--rewrite-format", action="store_true", help="format files in place")
    parser.add_argument("names", nargs="*", help="only these checks (or files to format)")
    args = parser.parse_args()
    if args.list:
        print("\n".join(CHECKS))
        return 0
    tree = sources.Tree(args.root)
    if args.rewrite_format:
        importlib.import_module("check_format").rewrite(tree, args.names)
        return 0
    unknown = set(args.names) - set(CHECKS)
    if unknown:
        parser.error(f"there is no check '{sorted(unknown)[0]}'; there are: {' '.join(CHECKS)}")
    failed = 0
    for name in args.names or CHECKS:
        violations = run_one(name, tree)
        print(f"lint {name:<27} {'ok' if not violations else 'FAILED'}")
        for violation in violations[:SHOWN]:
            print(f"    {violation}")
        if len(violations) > SHOWN:
            print(f"    and {len(violations) - SHOWN} more")
        failed += bool(violations)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
