"""C and C++ files are as clang-format 19 writes them with our .clang-format (`./dev format` does it).

A file that was found clean is remembered by a hash of its content and of the style, so that a run checks only what
changed.
"""

import concurrent.futures
import hashlib
import os
import re
import shutil
import subprocess

from sources import Violation

TOOL = "clang-format-19"
FOLDERS = ("src", "include", "tests", "bench", "examples")
BATCH = 16


def files(tree):
    return [path for path in tree.code(*FOLDERS) if not path.endswith(".S")]


def check(tree):
    if shutil.which(TOOL) is None:
        yield Violation(".clang-format", 1, f"{TOOL} is not installed; ./dev setup installs it")
        return
    memory = os.path.join(tree.root, "build", "lint", "format.ok")
    known = set()
    if os.path.exists(memory):
        with open(memory, encoding="utf-8") as file:
            known = set(file.read().split())
    style = tree.read(".clang-format")
    hashes = {path: hashlib.sha256((style + "\0" + path + "\0" + tree.read(path)).encode()).hexdigest()
              for path in files(tree)}
    todo = [path for path, value in hashes.items() if value not in known]
    bad = {}
    batches = [todo[i:i + BATCH] for i in range(0, len(todo), BATCH)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(lambda batch: run(tree.root, batch), batches):
            bad.update(result)
    os.makedirs(os.path.dirname(memory), exist_ok=True)
    with open(memory, "w", encoding="utf-8") as file:
        file.write("\n".join(value for path, value in hashes.items() if path not in bad))
    for path, line in sorted(bad.items()):
        yield Violation(path, line, "not as clang-format writes it; ./dev format does it")


def run(root, batch):
    """path -> first line that is not as it should be."""
    found = subprocess.run([TOOL, "--dry-run", "--style=file", *batch], cwd=root, capture_output=True, text=True,
                           check=False)
    bad = {}
    for path, line in re.findall(r"^(\S+?):(\d+):\d+: (?:warning|error):", found.stderr, re.MULTILINE):
        bad.setdefault(path, int(line))
    if found.returncode != 0 and not bad:
        raise RuntimeError(f"{TOOL}: {found.stderr.strip()}")
    return bad


def rewrite(tree, names=()):
    """Formats every file, or those named, in place (./dev format)."""
    todo = names or files(tree)
    for i in range(0, len(todo), BATCH):
        subprocess.run([TOOL, "-i", "--style=file", *todo[i:i + BATCH]], cwd=tree.root, check=True)
