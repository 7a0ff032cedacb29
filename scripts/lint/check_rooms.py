"""Every #include follows the arrows of src/rooms.txt.

- A file of src/<room>/ includes its own room, the rooms it may use, their public headers, and libraries.
- A public header includes the standard library and public headers, of its own room or of one that room may use.
- An example is a user: of ours it includes public headers only.
- The interleaving checker is for x_interleave_test.cc of any room. The sync shim may reach it under ROTA_INTERLEAVE.
"""

import os
import re

import sources
from sources import Violation

SYNC_SHIM = re.compile(r"(src/base|include/rota/detail)/sync\w*\.(h|cc)$")


# Headers of the system in a folder with the name of a room.
SYSTEM = {"net/if.h"}


def check(tree):
    table = sources.rooms(tree)
    standard = standard_headers()
    for path in tree.code("src", "include", "examples"):
        if path.startswith("src/") and sources.room_of(path, table) is None:
            yield Violation(path, 1, "no such room in src/rooms.txt")
            continue
        text = tree.read(path)
        for number, name, quoted in sources.includes(text):
            problem = judge(path, name, quoted, table, standard)
            if problem is None and targets(name, table) == "interleave" and SYNC_SHIM.match(path) \
                    and not under_macro(text, number):
                problem = "the checker may be reached under #if ROTA_INTERLEAVE only"
            if problem:
                yield Violation(path, number, f'#include "{name}": {problem}')


def standard_headers():
    with open(os.path.join(os.path.dirname(__file__), "std_headers.txt"), encoding="utf-8") as file:
        return {word for line in file if not line.startswith("#") for word in line.split()}


def targets(name, table):
    """The room that an include leads to, or None for a library's or the standard's."""
    first = name.split("/")[0]
    if name in SYSTEM:
        return None
    if first == "rota":
        return sources.public_owner(name, table)
    return first if "/" in name and first in table else None


def judge(path, name, quoted, table, standard):
    """What is wrong with this include, or None."""
    room = sources.room_of(path, table)
    target = targets(name, table)
    public = path.startswith("include/")
    if ".." in name.split("/") or name.startswith("/"):
        return 'write it from the root: "room/x.h" or "rota/x.h"'
    if not re.search(r"[\w/]\.\w|^[a-z_]+$", name):
        return "an include must be a name, so that it can be checked"
    if path.startswith("examples/"):
        if target is not None and not name.startswith("rota/"):
            return "an example uses public headers only"
        return None
    if target == "interleave" and room != "interleave":
        allowed = path.endswith("_interleave_test.cc") or SYNC_SHIM.match(path)
        return None if allowed else "the interleaving checker is for x_interleave_test.cc and the sync shim only"
    if target is not None and target != room and target not in table[room]:
        may = " ".join(table[room]) or "no other room"
        return f"{room} may not use {target} (src/rooms.txt: {room} may use {may})"
    if public and SYNC_SHIM.match(path) and target == "interleave":
        return None
    if public and not name.startswith("rota/") and name not in standard:
        return "a public header includes the standard library and rota/ only"
    if not public and target is None and quoted:
        return 'our own headers are written "room/x.h" or "rota/x.h", a library\'s <x.h>'
    return None


def under_macro(text, number):
    """Whether line `number` stands inside an #if that names ROTA_INTERLEAVE (and not in its #else)."""
    stack = []
    for line in text.splitlines()[:number]:
        match = re.match(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)", line)
        if not match:
            continue
        word, condition = match.groups()
        if word in ("if", "ifdef"):
            stack.append("ROTA_INTERLEAVE" in condition and not re.search(r"!\s*(defined)?\W*ROTA_INTERLEAVE", condition))
        elif word == "ifndef":
            stack.append(False)
        elif word == "endif" and stack:
            stack.pop()
        elif stack:
            stack[-1] = False
    return any(stack)
