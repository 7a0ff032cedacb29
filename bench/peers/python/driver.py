"""What the Python peers share: the command line and the way of measuring of common/bench.h."""

import statistics
import sys
import time

REPETITIONS = 3
ENOUGH_S = 2
WIDTH = 100  # Of a layer.


def parents(i):
    """Of task i of the layers: three of the layer before."""
    above = (i // WIDTH - 1) * WIDTH
    return [above + (i % WIDTH + step) % WIDTH for step in (0, 1, 7)] if i >= WIDTH else []


def expect(got, want):
    print(f"result {got}", file=sys.stderr)
    if got != want:
        sys.exit(f"wrong result: {got}, expected {want}")


def us_each(count, once):
    """Once to warm up, then up to three times: the median, in microseconds divided by count. `once` returns the number
    of tasks that have run."""
    once()
    values, done, start = [], 0, time.perf_counter()
    while len(values) < REPETITIONS and (not values or time.perf_counter() - start < ENOUGH_S):
        begun = time.perf_counter()
        done = once()
        values.append((time.perf_counter() - begun) * 1e6 / count)
    expect(done, count)
    return statistics.median(values)


def us_to_start(count, once):
    """The median of so many starts: `once` returns when its task began, by the system's monotonic clock."""
    once()
    values = []
    for _ in range(count):
        begun = time.monotonic_ns()
        values.append((once() - begun) / 1000)
    expect(len(values), count)
    return statistics.median(values)


def us_to_end(count, once):
    """The median of so many round trips."""
    once()
    values = []
    for _ in range(count):
        begun = time.monotonic_ns()
        once()
        values.append((time.monotonic_ns() - begun) / 1000)
    expect(len(values), count)
    return statistics.median(values)


def main(works, argv):
    """`works` is name -> function of (threads, size): microseconds."""
    if len(argv) not in (3, 4):
        print(f"usage: {argv[0]} <work> <threads> [size]\nworks: {' '.join(works)}", file=sys.stderr)
        return 2
    if argv[1] not in works:
        print(f"no such work here: {argv[1]}", file=sys.stderr)
        return 2
    figure = works[argv[1]](int(argv[2]), int(argv[3]) if len(argv) == 4 else 100)
    # Of the rows in one process ours has a figure with full durability and one without; these have one way of working.
    print(f"{figure:.6g}" if argv[1].startswith("redis_") else f"{figure:.6g} {figure:.6g}")
    return 0
