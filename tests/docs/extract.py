"""Makes a test program out of a page: every example in it is compiled, run, and its output compared.

  extract.py PAGE.md OUT.cc

An example is a ```cpp block with a marker in the line above it:

  <!-- test: name -->                     a whole program if it has main(), otherwise the inside of a task
  <!-- test: name, in: function -->       the inside of a function, with no runtime around it
  <!-- test: name, in: file -->           declarations; compiled, not run
  <!-- test: name, with: other another -->  sees what these blocks, which are `in: file`, declare
  <!-- not tested: why -->                left alone

A ```cpp block without a marker is an error, and so is a marker without a block. What the example must print is in the
```text block behind it, if one comes before the next code block or heading; otherwise it must print nothing. A `…` in
such a text stands for anything within its line.

The #include lines of all blocks come first in the program; then each block has a namespace of its own, in which
rota::fiber and the literals of std::chrono are known, and what run_example.h includes. Line numbers are those of the page.
"""

import os
import re
import sys

MARKER = re.compile(r"^<!--\s*(test|not tested)\s*:\s*(.*?)\s*-->$")
FENCE = re.compile(r"^(```+)\s*(\w*)\s*$")
NAME = re.compile(r"^[a-z][a-z0-9_]*$")
MAIN = re.compile(r"\bint\s+main\s*\(\s*\)")
PLACES = ("program", "task", "function", "file")


class PageError(Exception):
    pass


class Example:
    """A block: its name, where it stands, its lines, and what it must print."""

    def __init__(self, name, line, place, uses, code):
        self.name, self.line, self.place, self.uses, self.code = name, line, place, uses, code
        self.expected = ""


def parse_marker(text, where):
    """(name, place, uses) of a marker's text: `name, in: place, with: other another`."""
    parts = [part.strip() for part in text.split(",")]
    name, place, uses = parts[0], None, []
    if not NAME.match(name):
        raise PageError(f"{where}: '{name}' is no name; write small letters, digits and _")
    for part in parts[1:]:
        key, _, value = (piece.strip() for piece in part.partition(":"))
        if key == "in" and value in PLACES:
            place = value
        elif key == "with" and value:
            uses = value.split()
        else:
            raise PageError(f"{where}: cannot read '{part}'; write 'in: {'|'.join(PLACES)}' or 'with: name...'")
    return name, place, uses


def read_fence(lines, at, ticks, where):
    """The lines inside the fence that opens at `at`, and the index behind its end."""
    for end in range(at + 1, len(lines)):
        if lines[end].rstrip() == ticks:
            return lines[at + 1:end], end + 1
    raise PageError(f"{where}: the code block has no end")


def examples_of(text, page):
    """All examples of a page, in order."""
    found, names = [], {}
    lines = text.split("\n")
    marker = None   # The marker in the line above, and its line.
    waiting = None  # The example whose output may still come.
    at = 0
    while at < len(lines):
        line, where = lines[at], f"{page}:{at + 1}"
        if marker is not None and not re.match(r"^```+\s*cpp\s*$", line):
            raise PageError(f"{page}:{marker[0]}: no ```cpp block follows this marker")
        if match := MARKER.match(line.strip()):
            marker = (at + 1, *match.groups())
            at += 1
            continue
        fence = FENCE.match(line)
        if fence is None:
            if line.startswith("#"):
                waiting = None
            at += 1
            continue
        code, behind = read_fence(lines, at, fence.group(1), where)
        if fence.group(2) == "cpp":
            if marker is None:
                raise PageError(f"{where}: a ```cpp block needs a marker above it, <!-- test: name --> or "
                                "<!-- not tested: why -->")
            waiting = None
            if marker[1] == "test":
                name, place, uses = parse_marker(marker[2], f"{page}:{marker[0]}")
                has_main = any(MAIN.search(each) for each in code)
                place = place or ("program" if has_main else "task")
                if has_main != (place == "program"):
                    raise PageError(f"{where}: 'in: {place}', but there is {'a' if has_main else 'no'} main()")
                if name in names:
                    raise PageError(f"{where}: there is another example '{name}'")
                for other in uses:
                    if other not in names or names[other].place != "file":
                        raise PageError(f"{where}: with '{other}', which is no earlier example 'in: file'")
                names[name] = waiting = Example(name, at + 2, place, uses, code)
                found.append(waiting)
            elif not marker[2]:
                raise PageError(f"{where}: 'not tested' needs a reason")
            marker = None
        elif fence.group(2) == "text" and waiting is not None:
            if waiting.place == "file":
                raise PageError(f"{where}: declarations print nothing")
            waiting.expected = "".join(each + "\n" for each in code)
            waiting = None
        else:
            waiting = None
        at = behind
    if marker is not None:
        raise PageError(f"{page}:{marker[0]}: no ```cpp block follows this marker")
    return found


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", '\\n"\n        "') + '"'


def program_of(examples, page):
    """The test program's source."""
    stem = re.sub(r"\W", "_", os.path.splitext(os.path.basename(page))[0])
    suite = "Docs" + "".join(word.capitalize() for word in stem.split("_"))
    includes = {}
    for example in examples:
        for i, line in enumerate(example.code):
            if line.startswith("#include"):
                includes[line.strip()] = None
                example.code[i] = ""
    out = [f"// Made by tests/docs/extract.py from {os.path.basename(page)}."]
    if examples:  # Most pages have none, and their file compiles in no time.
        out += ['#include "run_example.h"', '#include "rota/fiber.h"', *includes]
    for example in examples:
        space = f"docs_{stem}::{example.name}"
        out += ["", f"namespace {space} {{", "using namespace rota::fiber;", "using namespace std::chrono_literals;"]
        out += [f"using namespace docs_{stem}::{other};" for other in example.uses]
        code = [f'#line {example.line} "{page}"', *(MAIN.sub("int example_main()", line) for line in example.code)]
        if example.place == "task":
            code = ["int example_main() {", "Runtime runtime({.worker_count = 2});", "runtime.run([] {", *code, "});",
                    "return 0;", "}"]
        elif example.place == "function":
            code = ["int example_main() {", *code, "return 0;", "}"]
        out += [*code, f"}}  // namespace {space}"]
        if example.place != "file":
            out += [f"TEST({suite}, {example.name}) {{",
                    f"  docs::expect_output({space}::example_main, {quoted(example.expected)});", "}"]
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    page, target = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        text = file.read()
    try:
        program = program_of(examples_of(text, page), page)
    except PageError as error:
        raise SystemExit(str(error)) from None
    with open(target, "w", encoding="utf-8") as file:
        file.write(program)


if __name__ == "__main__":
    main()
