"""graph/, model/ and fleet/ are pure: the same input gives the same output on every machine, for ever.

They read no clock, start and wait for no thread, draw no random number, open and print nothing, decide nothing by
floating point and hold no unordered container. Tests of a pure room may do as they like. There is no way to silence
this check: what needs one of these does not belong in a pure room.
"""

import re

import sources
from sources import Violation

PURE_ROOMS = ("graph", "model", "fleet")

# Headers, by what is wrong with them. Ours count too: an interface that hands out time is a clock.
HEADERS = {
    "a clock": "chrono ctime time.h sys/time.h rota/clock.h base/clock.h",
    "a thread": "thread mutex shared_mutex atomic condition_variable future semaphore latch barrier stop_token pthread.h "
                "threads.h stdatomic.h coroutine base/sync.h rota/detail/sync.h",
    "a random number": "random base/prng.h base/random.h rota/prng.h rota/random.h",
    "input or output": "iostream istream ostream fstream sstream iomanip syncstream cstdio stdio.h filesystem unistd.h "
                       "fcntl.h base/log.h base/logging.h base/settings.h",
    "the environment": "csignal signal.h locale clocale locale.h",
    "an unordered container": "unordered_map unordered_set",
    "floating point": "cmath math.h complex cfenv fenv.h numbers",
}
PREFIXES = {
    "a clock, a thread or input and output": ("sys/", "linux/", "netinet/", "arpa/"),
    "an unordered container": ("boost/unordered", "absl/container/flat_hash"),
    "input or output": ("spdlog/",),
}

# What code may not say, by what is wrong with it. Comments and strings are not code.
WORDS = {
    "a clock": r"std::chrono|\b(?:steady|system|high_resolution|utc|tai|file)_clock\b|\bclock_gettime\b|\bgettimeofday\b|"
               r"\b__?rdtscp?\b|\b(?:std)?::(?:time|clock)\s*\(|\btime\s*\(\s*(?:nullptr|NULL|0|&)|"
               r"\b(?:localtime|gmtime|mktime)\w*\b|\bnanosleep\b|\busleep\b|\bClock\b|\bnow(?:_ns|_us|_ms)?\s*\(\s*\)",
    "a thread": r"\bstd::(?:jthread|thread|this_thread|mutex|\w+_mutex|atomic\w*|async|future|promise|condition_variable\w*|"
                r"call_once|lock_guard|unique_lock|scoped_lock)\b|\bpthread_\w+|\bthread_local\b|\bsync::\w+|\bco_await\b",
    "a random number": r"\b(?:s?rand|rand_r|random|drand48|getrandom|arc4random)\s*\(|\brandom_device\b|\bmt19937\w*|"
                       r"\b\w+_distribution\b|\bXoshiro\w*|\bPrng\b",
    "input or output": r"\b(?:v|f|vf|d)?printf\s*\(|\bf?puts\s*\(|\bputchar\s*\(|\bfopen\b|\bstd::(?:cout|cerr|clog|cin|"
                       r"[io]?fstream|filesystem)\b|\bfmt::print\b|\bspdlog\b|\bROTA_LOG\w*|"
                       r"(?<![\w>])::(?:open|read|write|close|socket|send|recv|mmap|stat|unlink)\s*\(",
    "the environment": r"\b(?:secure_)?getenv\b|\bsetlocale\b|\bstd::locale\b|\bgetpid\b|\bsysconf\b",
    "an unordered container": r"\bunordered_(?:flat_|node_)?(?:multi)?(?:map|set)\b|\bflat_hash_(?:map|set)\b",
    "an unstable hash": r"\bstd::hash\b|\bstd::_Hash\w*",
    "floating point": r"\b(?:float|double|_Float\d+|__float128|float_t|double_t)\b|\bstd::(?:stof|stod|strtod|lround|"
                      r"llround|sqrt|pow|exp|log2?|ceil|floor|round)\b|"
                      r"(?<![\w.])(?:(?!0[xX])\d[\d']*\.\d*|\.\d+|(?!0[xX])\d[\d']*(?=[eE][+-]?\d))(?:[eE][+-]?\d+)?[fFlL]?",
}
HEADER_OF = {header: why for why, names in HEADERS.items() for header in names.split()}
PATTERNS = [(why, re.compile(pattern)) for why, pattern in WORDS.items()]


def check(tree):
    for room in PURE_ROOMS:
        for path in tree.code(f"src/{room}", f"include/rota/{room}"):
            if path.endswith(sources.ASIDE):
                continue
            yield from check_file(path, room, tree.read(path))


def check_file(path, room, text):
    for number, name, _ in sources.includes(text):
        why = HEADER_OF.get(name) or next((w for w, starts in PREFIXES.items() if name.startswith(starts)), None)
        if why:
            yield Violation(path, number, f"#include <{name}> brings {why} into {room}/, which is pure")
    for number, line in enumerate(sources.blank_comments(text).splitlines(), 1):
        if re.match(r"\s*#\s*include", line):
            continue
        for why, pattern in PATTERNS:
            match = pattern.search(line)
            if match:
                yield Violation(path, number, f"'{match.group(0).strip()}' brings {why} into {room}/, which is pure")
