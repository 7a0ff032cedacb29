"""What the checks share: which files there are, what is code in them, and the table of rooms."""

import dataclasses
import os
import re
import subprocess

CODE = (".h", ".cc", ".c", ".S")
# Names that make a C++ file a test, benchmark or fuzzer rather than part of the library.
ASIDE = ("_test.cc", "_test.c", "_bench.cc", "_fuzz.cc", "_test.h")


@dataclasses.dataclass(frozen=True)
class Violation:
    path: str
    line: int
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.text}"


class Tree:
    """The files of the project: those git knows and those it would ask about. Without git, all but build/."""

    def __init__(self, root):
        self.root = root
        found = None
        if os.path.exists(os.path.join(root, ".git")):
            found = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root,
                                   capture_output=True, text=True, check=False)
        if found is not None and found.returncode == 0:
            names = set(found.stdout.split("\0")) - {""}
        else:
            names = {os.path.relpath(os.path.join(folder, name), root)
                     for folder, _, files in os.walk(root) for name in files}
        # A file that was deleted but not yet committed is gone; a symbolic link is checked where it points.
        self.files = sorted(name for name in names
                            if not re.match(r"(build|\.git|node_modules)/|.*/(node_modules|__pycache__)/", name)
                            and os.path.isfile(os.path.join(root, name))
                            and not os.path.islink(os.path.join(root, name)))

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
            return file.read()

    def code(self, *folders):
        return [path for path in self.files
                if path.endswith(CODE) and any(path.startswith(folder + "/") for folder in folders)]


def rooms(tree):
    """room -> the rooms it may use, from src/rooms.txt, in its order."""
    table = {}
    for text in tree.read("src/rooms.txt").splitlines():
        match = re.match(r"([a-z]+):([ a-z]*)$", text)
        if match:
            table[match.group(1)] = match.group(2).split()
    return table


def room_of(path, table):
    """The room that a file of src/ or include/rota/ belongs to, or None."""
    parts = path.split("/")
    if parts[0] == "src" and len(parts) > 2 and parts[1] in table:
        return parts[1]
    if parts[:2] == ["include", "rota"]:
        return public_owner("/".join(parts[1:]), table)
    return None


def public_owner(include, table):
    """The room that owns the public header `rota/...`: that of rota/<room>/... and rota/<room>.h; else base."""
    name = include.split("/")[1].removesuffix(".h")
    return name if name in table else "base"


def includes(text):
    """(line number, name, is it quoted) of each #include; a name that is a macro comes as it stands."""
    for number, line in enumerate(blank_comments(text, strings=False).splitlines(), 1):
        match = re.match(r'\s*#\s*include(?:_next)?\s*(?:"([^"]*)"|<([^>]*)>|(\S+))', line)
        if match:
            yield number, match.group(1) or match.group(2) or match.group(3), match.group(1) is not None


_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\\ ]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'", re.DOTALL)


def blank_comments(text, strings=True):
    """`text` with comments (and, if asked, what is in quotes) turned into blanks; lines keep their numbers."""

    def blank(match):
        token = match.group(0)
        if not strings and not token.startswith("/"):
            return token
        return re.sub(r"[^\n]", " ", token)

    return _TOKEN.sub(blank, text)
