"""Chooses which source files of one target are compiled together: unity_groups.py MAX_LINES FILE...

Prints one line per file: the number of its group, a tab, the file. Two files share a group unless one of them uses a name
that the other one declares for itself alone (in an anonymous namespace, as a static or as a macro). Files with hooks of
the simulator (base/sim_hooks.h) share a group with each other only: src/sim replaces their objects. The script reads
declarations with regular expressions, which works because clang-format has formatted the code: a declaration at
namespace scope starts in the first column, and a comment marks the end of each namespace. A clash that the script misses
is a compile error in the unity build.
"""

import re
import sys

NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"\w*\(.*?\)\w*"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
TYPE = re.compile(r"(?:struct|class|enum class|enum|union|using|concept)\s+(\w+)\b(?!::)")
OTHER = re.compile(r"[^(={;\[]*?(\w+)\s*[(={;\[]")  # A function or a variable.
NOT_A_DECLARATION = ("namespace", "template", "using namespace", "TEST", "RC_GTEST")


def own_names(text):
    """The names that this file declares for itself alone."""
    names = set(re.findall(r"^\s*#\s*define\s+(\w+)", text, re.MULTILINE))
    inside = False
    for line in text.splitlines():
        if line.startswith("namespace {"):
            inside = True
        elif line.startswith("}  // namespace"):
            inside = False
        line = re.sub(r"^(?:\[\[[^\]]*\]\] *)+", "", line)  # Attributes: [[gnu::noinline]].
        if not re.match(r"[A-Za-z_]", line) or line.startswith(NOT_A_DECLARATION):
            continue
        if not inside and not line.startswith("static "):
            continue
        line = NOISE.sub('""', line)
        while re.search(r"<[^<>]*>", line):
            line = re.sub(r"<[^<>]*>", "", line)
        declaration = TYPE.match(line) or OTHER.match(line)
        if declaration:
            names.add(declaration.group(1))
    return names


def used_names(text):
    """The names that this file uses, other than members and those with a namespace before them."""
    return set(re.findall(r"(?<![\w.:>])[A-Za-z_]\w*", NOISE.sub("", text)))


class Source:
    def __init__(self, path):
        self.path = path
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.lines = text.count("\n")
        self.own = own_names(text)
        self.used = used_names(text)
        self.hooked = '#include "base/sim_hooks.h"' in text

    def clashes_with(self, other):
        return self.hooked != other.hooked or bool(self.own & other.used or other.own & self.used)


def groups(sources, max_lines):
    """Puts each file into the first group that has room for it and no clash."""
    made = []
    for source in sources:
        for group in made:
            if sum(s.lines for s in group) + source.lines <= max_lines and not any(map(source.clashes_with, group)):
                group.append(source)
                break
        else:
            made.append([source])
    return made


def main():
    sources = [Source(path) for path in sys.argv[2:]]
    for number, group in enumerate(groups(sources, int(sys.argv[1])), 1):
        for source in group:
            print(f"{number}\t{source.path}")


if __name__ == "__main__":
    main()
