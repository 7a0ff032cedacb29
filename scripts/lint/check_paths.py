"""No path of one person's machine in any file: what works must work in every clone."""

import re

from sources import Violation

MACHINE = re.compile(r"(?<![\w./$}-])/(?:home/\w|root/|work/|Users/\w|mnt/\w)|\b[A-Z]:\\Users\\")
BINARY = (".png", ".jpg", ".gz", ".ico", ".woff2", ".bin", ".pdf", ".db")


def check(tree):
    for path in tree.files:
        if path.endswith(BINARY):
            continue
        for number, line in enumerate(tree.read(path).splitlines(), 1):
            match = MACHINE.search(line)
            if match:
                yield Violation(path, number, f"'{match.group(0)}...' is a path of one machine")
