"""No file of more than 800 lines without a reason near its top: a comment that says `Long because: ...`."""

import re

from sources import Violation

LIMIT = 800
NEAR_TOP = 40
KINDS = (".h", ".cc", ".c", ".S", ".py", ".sh", ".cmake", ".ts", ".tsx", ".js", ".css", "CMakeLists.txt", "/dev", "/run")
REASON = re.compile(r"^\s*(?://|#|\*|/\*)\s*Long because: *\S.{9,}")


def check(tree):
    for path in tree.files:
        if not ("/" + path).endswith(KINDS):
            continue
        lines = tree.read(path).splitlines()
        if len(lines) > LIMIT and not any(REASON.match(line) for line in lines[:NEAR_TOP]):
            yield Violation(path, LIMIT + 1, f"{len(lines)} lines; split it, or say near the top `Long because: ...`")
