"""Atomics, locks and threads come from the sync shim (base/sync.h, rota/detail/sync.h).

The shim is what lets the interleaving checker run the real code. What is below the shim, and the checker itself, use the
standard's. Elsewhere a line may do so with its reason behind it: `// Not through the shim: ...`.
"""

import re

import sources
from sources import Violation

RAW = re.compile(r"\bstd::(?:atomic\w*|(?:recursive_|shared_|timed_)*mutex|condition_variable(?:_any)?|j?thread)\b(?!::)")
SIGNAL_FENCE = "std::atomic_signal_fence"  # Orders the compiler only: there is nothing to explore.
REASON = re.compile(r"// Not through the shim: \S.{9,}")
BELOW = re.compile(r"src/base/sync\w*\.|include/rota/detail/sync\w*\.|src/base/assert\.cc|src/interleave/")


def check(tree):
    for path in tree.code("src", "include"):
        if path.endswith(sources.ASIDE) or BELOW.match(path):
            continue
        text = tree.read(path)
        lines = text.splitlines()
        for number, line in enumerate(sources.blank_comments(text).splitlines(), 1):
            match = RAW.search(line.replace(SIGNAL_FENCE, ""))
            above = lines[number - 2] if number > 1 else ""
            if match and not REASON.search(lines[number - 1]) and not REASON.search(above):
                yield Violation(path, number, f"{match.group(0)}: use the sync shim, so that it can be explored")
