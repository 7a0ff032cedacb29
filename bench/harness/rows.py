"""What the table holds: the works, who takes part in each, and why the others do not.

A work is one run of a program (`<program> <work> <threads> <size>`); each number that it prints is one figure and makes
one row for each thread count. To add a row: a Work here, and the work of that name in the programs.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Program:
    """A program of the table: its file's name, the Debian packages that it is built from, and whose peer it is."""

    name: str
    packages: tuple = ()
    group: str = "fiber"


OURS = Program("rota")
PEERS = (
    Program("tbb", ("libtbb-dev",)),
    Program("boost_fiber", ("libboost-fiber1.81-dev",)),
    Program("openmp", ("g++",)),
    Program("go", ("golang-go",)),
    Program("rayon", ("cargo", "rustc", "librust-rayon-dev")),
    Program("tokio", ("cargo", "rustc", "librust-tokio-dev")),
    Program("sqlite", ("libsqlite3-dev",), "ledger"),
    Program("make", ("make",), "command"),
    Program("ninja", ("ninja-build",), "command"),
    Program("parallel", ("parallel",), "command"),
    Program("xargs", (), "command"),
    Program("dask", ("python3-distributed",), "host"),
    Program("dask_threads", ("python3-distributed",), "host"),
    Program("celery", ("celery", "python3-redis", "redis-server"), "host"),
    Program("bullmq", ("nodejs", "npm", "redis-server"), "host"),
)
LIMITS = (Program("bare"), Program("bare_fcontext", ("libboost-context1.81-dev",)), Program("bare_disk"),
          Program("bare_spawn"), Program("bare_etcd", ("etcd-server",)))
PEER_GROUPS = {peer.name: peer.group for peer in PEERS}


@dataclass(frozen=True, eq=False)
class Figure:
    """One number of a work. `aims` is the contract's aim, by thread count; lower is better throughout."""

    bench: str
    unit: str
    aims: dict = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Work:
    name: str
    clause: str
    what: str
    figures: tuple
    size: int
    left_out: dict  # Peer of the work's group -> why it has no such work. Those of other groups never take part.
    threads: tuple = (1, 2)
    sizes: dict = field(default_factory=dict)  # Program -> its own size, where the common one would take too long.
    quick_size: int = 0  # No size above this with --quick; 0 leaves it.
    limits: tuple = ("bare",)  # The first one is the row's limit, the others are noted below the table.
    crosses: bool = False  # The last number printed is the share of messages that changed threads.
    warm_runs: int = 0  # Runs before each measured one, not counted.
    max_rounds: int = 0  # Fewer rounds for what takes long; 0 leaves it.
    bytes_each: dict = field(default_factory=dict)  # Program -> resident bytes for each of `size`.
    metered: bool = True  # Has a row in `service` as well.
    metered_aim: float = 0  # P-15.
    group: str = "fiber"

    def takes_part(self, peer):
        return peer not in self.left_out and PEER_GROUPS.get(peer, self.group) == self.group

    def size_for(self, program, quick):
        size = self.sizes.get(program, self.size)
        return min(size, self.quick_size) if quick and self.quick_size else size


WORKERS = (1, 2, 4, 8)  # How fork-join and graphs scale, and what more workers than cores cost.

NO_YIELD = {
    "tbb": "a task cannot give way to another",
    "openmp": "libgomp's taskyield does nothing",
    "rayon": "yield_now runs another job on top of this one, it does not give way",
}
NO_BLOCKING = {
    "tbb": "a blocked task blocks its thread",
    "openmp": "a blocked task blocks its thread",
    "rayon": "a blocked job blocks its thread",
}
NO_GRAPH = {
    "boost_fiber": "has no task graph",
    "go": "has no task graph",
    "rayon": "has no task graph",
    "tokio": "has no task graph",
}
NO_DEMANDS = {
    "tbb": "has neither demands nor aging",
    "openmp": "has neither demands nor aging",
}
NO_CANCEL = {
    "boost_fiber": "has no cancellation",
    "openmp": "libgomp runs a task at once beyond 64 queued a thread: 10,000 are never pending",
    "rayon": "has no cancellation",
}

OURS_ONLY = {peer.name: "a promise of Rota's own" for peer in PEERS if peer.group == "fiber"}

STARTS_ALL = {
    "go": "every goroutine has its turn; none stays queued behind one that polls",
    "tokio": "every task has its turn; none stays queued behind one that gives way",
}

FLEET = {"metered": False, "limits": (), "group": "fleet", "threads": (1,)}
NO_YAML = {
    "make": "reads no such file",
    "ninja": "reads no such file",
    "parallel": "reads no such file",
    "xargs": "reads no such file",
}
ONE_PROCESS = {"dask_threads": "it is one process"}
ACROSS_PROCESSES = {"bullmq": "redis_* are the rows about worker processes"}
NO_LAYERS = {"celery": "its canvas has chains and chords, no graph"}
NO_FLEET = {"dask": "the cost of Rota's own host", "celery": "the cost of Rota's own host",
            "bullmq": "the cost of Rota's own host"}

COMMAND = {"metered": False, "limits": ("bare_spawn",), "group": "command"}
HOST = {"metered": False, "limits": (), "group": "host", "threads": (2,)}
LEDGER = {"metered": False, "limits": ("bare_disk",), "group": "ledger"}
REPLICATED = {"metered": False, "limits": ("bare_etcd",), "group": "replicated", "threads": (2,)}

WORKS = (
    Work("yield", "P-1", "two tasks a worker take turns; worker time a switch",
         (Figure("yield", "ns", {1: "8"}),), 2_000_000, NO_YIELD, quick_size=500_000,
         limits=("bare", "bare_fcontext"), metered_aim=1.15),
    Work("fib", "P-2", "fib(35), one spawned and joined task a call; time a task",
         (Figure("fib", "ns", {1: "7.5", 2: "3.9"}),), 35, {}, threads=WORKERS, quick_size=30,
         sizes={"boost_fiber": 25, "openmp": 30, "go": 28, "tokio": 30}, metered_aim=1.15),
    Work("spawn", "P-3", "1,000,000 empty tasks from one producer, joined; time a task",
         (Figure("spawn", "ns", {1: "10", 2: "12"}),), 1_000_000, {}, threads=WORKERS, quick_size=200_000,
         sizes={"boost_fiber": 100_000}, metered_aim=1.15),
    Work("skynet", "P-4", "a tree of ten children a node with 1,000,000 leaves, summed",
         (Figure("skynet", "ms", {1: "9", 2: "6"}),), 1_000_000, {}, threads=WORKERS, metered_aim=1.15),
    Work("channel", "P-5", "two tasks on one worker, a message there and back; time a round trip",
         (Figure("channel", "ns", {1: "25"}),), 500_000, NO_BLOCKING, threads=(1,), quick_size=100_000,
         limits=("bare", "bare_fcontext")),
    Work("channel_cross", "P-5", "the same between two workers; time a round trip",
         (Figure("channel_cross", "ns", {2: "150"}),), 500_000, NO_BLOCKING, threads=(2,), quick_size=100_000,
         sizes={"boost_fiber": 5_000, "go": 10_000, "tokio": 5_000}, crosses=True),
    Work("blocked", "P-6", "1,000,000 started and blocked tasks: memory each, time to make, to release and join",
         (Figure("blocked_bytes", "B", {1: "4300"}), Figure("blocked_make", "s", {1: "1.7 (2.1 guarded)"}),
          Figure("blocked_release", "s", {1: "0.2"})),
         1_000_000, NO_BLOCKING, quick_size=100_000, warm_runs=1, max_rounds=3,
         bytes_each={"rota": 4_800, "boost_fiber": 8_400, "go": 3_200, "tokio": 700, "bare": 4_200}),
    Work("dag", "P-7", "100 layers of 1,000 trivial tasks, three parents each; time a task to run, and to build",
         (Figure("dag_run", "ns", {1: "45", 2: "30"}), Figure("dag_build", "ns", {1: "50", 2: "50"})),
         100_000, NO_GRAPH, threads=WORKERS, metered=False),
    Work("dag_ordered", "P-7", "the same with four priorities, aging and three demands; time a task to run, and to build",
         (Figure("dag_ordered_run", "ns", {1: "300", 2: "300"}), Figure("dag_ordered_build", "ns")),
         100_000, NO_GRAPH | NO_DEMANDS, metered=False, limits=()),
    Work("dag_fan", "P-7", "one task, 100,000 behind it, one behind those; time a task to run, and to build",
         (Figure("dag_fan_run", "ns"), Figure("dag_fan_build", "ns")), 100_000, NO_GRAPH, metered=False, limits=(),
         sizes={"openmp": 1_000}),  # libgomp looks at every reader for each new one.
    Work("dag_chain", "P-7", "100,000 tasks, each behind the one before; time a task to run, and to build",
         (Figure("dag_chain_run", "ns"), Figure("dag_chain_build", "ns")), 100_000, NO_GRAPH, metered=False, limits=()),
    Work("cancel_queued", "P-8", "10,000 tasks are cancelled, one a worker polling, the rest queued; request to last end",
         (Figure("cancel_queued", "us", {1: "120", 2: "120"}),), 10_000, NO_CANCEL | STARTS_ALL, limits=()),
    Work("cancel_polling", "P-8", "10,000 started tasks that poll and give way are cancelled; request to last end",
         (Figure("cancel_polling", "us"),), 10_000, NO_CANCEL | NO_YIELD),
    Work("cancel_blocked", "P-8", "10,000 blocked tasks are cancelled; request to last acknowledgement",
         (Figure("cancel_blocked", "us", {1: "350", 2: "350"}),), 10_000, NO_CANCEL | NO_BLOCKING),
    Work("cancel_channels", "P-8", "10,000 tasks, each blocked on a channel of its own, are cancelled; request to last end",
         (Figure("cancel_channels", "us", {1: "350", 2: "350"}),), 10_000,
         {peer.name: "cancel_blocked is the same for it" for peer in PEERS if peer.group == "fiber"}, limits=()),
    Work("deadline_busy", "F-6", "every worker polls in a scope with a deadline and never yields; how late it is seen",
         (Figure("deadline_busy_p50", "us"), Figure("deadline_busy_p99", "us", {1: "1000", 2: "1000", 4: "1000"})),
         500, OURS_ONLY, threads=(1, 2, 4), quick_size=100),
    Work("kernel_beside", "F-32", "a matrix product on all workers but one, which echoes: its time; % more than alone",
         (Figure("kernel_beside", "ms"), Figure("kernel_loss", "%", {2: "0"})), 512, OURS_ONLY, threads=(2,),
         limits=(), metered=False),
    Work("wake_awake", "P-9", "a task pushed by a busy worker; push to its first instruction on one that is awake",
         (Figure("wake_awake_p50", "ns", {2: "250"}), Figure("wake_awake_p99", "ns", {2: "1000"})),
         20_000, {}, threads=(2,), sizes={"boost_fiber": 5_000}, quick_size=5_000),
    Work("wake_parked", "P-9", "the same, the other worker being parked",
         (Figure("wake_parked_p50", "ns", {2: "1.1 x limit"}), Figure("wake_parked_p99", "ns")),
         300, {"boost_fiber": "a push wakes no sleeping thread"}, threads=(2,), quick_size=100),
    Work("ledger_1", "P-11", "records of 256 bytes, each durable before the next; time a record",
         (Figure("ledger_1", "us", {1: "182"}),), 2_000, {}, threads=(1,), quick_size=500, **LEDGER),
    Work("ledger_128", "P-11", "the same in groups of 128; time a record",
         (Figure("ledger_128", "us", {1: "4"}),), 51_200, {}, threads=(1,), quick_size=12_800, **LEDGER),
    Work("ledger_relaxed", "P-11", "records one by one, synced at checkpoints only; time a record",
         (Figure("ledger_relaxed", "us"),), 20_000, {}, threads=(1,), quick_size=5_000, **LEDGER),
    Work("ledger_recover", "P-11", "a log of 1,000,000 opened, checked and read; time in all",
         (Figure("ledger_recover", "s", {1: "1"}),), 1_000_000, {}, threads=(1,), quick_size=100_000,
         **(LEDGER | {"limits": ()})),
    Work("run_true", "P-12", "a tool starts 2,000 times `true`, from its start to its end; time a task",
         (Figure("run_true", "us", {2: "400"}),), 2_000, {}, threads=(2,), quick_size=500,
         sizes={"parallel": 300}, **COMMAND),
    Work("run_one", "P-16", "the same with one `true`; the whole command (limit: the `true` alone)",
         (Figure("run_one", "ms", {2: "5"}),), 21, {}, threads=(2,), quick_size=11, **COMMAND),
    Work("yaml_10000", "P-16", "`rota validate` of a file of 10,000 stages, the whole command; `rota` without symbols",
         (Figure("yaml_10000", "ms", {1: "100"}), Figure("rota_binary", "MB", {1: "15"})), 10_000, NO_YAML, threads=(1,),
         **(COMMAND | {"limits": ()})),
    Work("host_flat", "P-13", "10,000 tasks that do nothing, without order; time a task, durable and relaxed",
         (Figure("host_flat", "us", {2: "5"}), Figure("host_flat_relaxed", "us")), 10_000, ACROSS_PROCESSES, quick_size=2_000,
         sizes={"dask": 2_000, "celery": 1_000}, **HOST),
    Work("host_chain", "P-13", "1,000 tasks, each behind the one before; time a task, durable and relaxed",
         (Figure("host_chain", "us", {2: "250"}), Figure("host_chain_relaxed", "us", {2: "10"})), 1_000, ACROSS_PROCESSES,
         sizes={"dask": 200, "celery": 100}, **(HOST | {"limits": ("bare_disk",)})),
    Work("host_layers", "P-13", "100 layers of 100 tasks, three parents each; time a task, durable and relaxed",
         (Figure("host_layers", "us", {2: "5"}), Figure("host_layers_relaxed", "us")), 10_000,
         NO_LAYERS | ACROSS_PROCESSES,
         quick_size=2_000, sizes={"dask": 2_000}, **HOST),
    Work("host_start", "P-13", "one task at a time: submitted to its first instruction; median, durable and relaxed",
         (Figure("host_start", "us", {2: "300"}), Figure("host_start_relaxed", "us", {2: "30"})), 500, ACROSS_PROCESSES,
         sizes={"dask": 100, "celery": 100}, quick_size=200, **(HOST | {"limits": ("bare_disk",)})),
    Work("etcd_1", "P-19", "records of 256 bytes on three etcd servers, each committed before the next; time a record",
         (Figure("etcd_1", "us"),), 500, {}, quick_size=200, **REPLICATED),
    Work("etcd_128", "P-19", "the same in groups of 128; time a record",
         (Figure("etcd_128", "us", {2: "25"}),), 25_600, {}, quick_size=12_800, **REPLICATED),
    Work("etcd_flat", "P-19", "a host on three etcd servers, 10,000 tasks that do nothing, without order; time a task",
         (Figure("etcd_flat", "us"),), 10_000, {}, quick_size=2_000, **(REPLICATED | {"limits": ()})),
    Work("etcd_chain", "P-19", "the same, 200 tasks, each behind the one before; time a task",
         (Figure("etcd_chain", "us", {2: "1500"}),), 200, {}, **REPLICATED),
    Work("redis_flat", "P-14", "10,000 tasks that do nothing, over Redis to two worker processes; time a task, durable",
         (Figure("redis_flat", "us", {2: "20"}),), 10_000, ONE_PROCESS, quick_size=2_000,
         sizes={"dask": 2_000, "celery": 1_000, "bullmq": 2_000}, **HOST),
    Work("redis_chain", "P-14", "1,000 tasks over Redis, each behind the one before; time a task, durable",
         (Figure("redis_chain", "us", {2: "500"}),), 1_000, ONE_PROCESS, quick_size=200,
         sizes={"dask": 200, "celery": 100, "bullmq": 100}, **HOST),
    Work("redis_round_trip", "P-14", "one task at a time over Redis: submitted until its end is durable; median",
         (Figure("redis_round_trip", "us", {2: "300"}),), 500, ONE_PROCESS, quick_size=200,
         sizes={"dask": 100, "celery": 100, "bullmq": 100}, **HOST),
    Work("redis_idle", "P-14", "1,000 workers without tasks, joined over Redis; the host's processor time, % of one core",
         (Figure("redis_idle", "%", {2: "5"}),), 1_000, ONE_PROCESS | NO_FLEET, max_rounds=3, **HOST),
    Work("redis_busy", "P-14", "100 worker processes, tasks of 1 ms of processor time; time above what the cores allow",
         (Figure("redis_busy", "%", {2: "5"}),), 100, ONE_PROCESS | NO_FLEET, max_rounds=3, **HOST),
    *(Work(f"brain_{name}", "P-10", what + "; time a decision: mean, p50, p99",
           (Figure(f"brain_{name}", "ns", {1: mean} if mean else {}), Figure(f"brain_{name}_p50", "ns"),
            Figure(f"brain_{name}_p99", "ns", {1: p99} if p99 else {})), size, {}, quick_size=100_000, **FLEET)
      for name, what, size, mean, p99 in (
          ("10", "10 full workers, 100,000 queued tasks; each success frees a worker for the next", 100_000, "", ""),
          ("100", "the same with 100 workers", 100_000, "1000", ""),
          ("1000", "the same with 1,000 workers", 100_000, "", "5000"),
          ("10000", "the same with 10,000 workers", 100_000, "", "20000"),
          ("million", "100 full workers, 1,000,000 queued tasks", 1_000_000, "", ""),
          ("static", "100 full workers, mode static_worker", 100_000, "1000", ""),
          ("pipeline", "100 full workers, mode fixed_pipeline, 100 types", 100_000, "1000", ""),
          ("round_robin", "100 full workers, mode static_round_robin", 100_000, "1000", ""),
          *((f"{mode}_{count}", f"{int(count):,} full workers, mode {name}", 100_000, "", aim)
            for mode, name in (("static", "static_worker"), ("pipeline", "fixed_pipeline, a type per worker"),
                               ("round_robin", "static_round_robin"))
            for count, aim in (("1000", "5000"), ("10000", "20000"))),
          ("shapes", "1,000 full workers, 100,000 tasks that each need another amount of memory", 100_000, "", "20000"),
          ("users", "the same, each of another user", 100_000, "", "20000"),
          ("priorities", "the same, each of another priority", 100_000, "", "20000"),
          ("templates", "the same, each with another mergeable template", 100_000, "", "20000"),
          ("bound", "the same, each a workflow that will own a worker (static_worker)", 100_000, "", "20000"),
          ("idle_1000", "a workflow of one task arrives at 1,000 idle workers of ten kinds", 20_000, "", "5000"),
          ("idle_10000", "the same with 10,000 workers", 20_000, "", "20000"),
          ("each_1000", "the same with 1,000, by least_loaded, which looks at each", 20_000, "", ""),
          ("each_10000", "the same with 10,000", 20_000, "", ""))),
    Work("brain_memory", "P-10", "1,000,000 queued tasks, 10,000 workers: resident bytes a task, a worker",
         (Figure("brain_task_bytes", "B", {1: "200"}), Figure("brain_worker_bytes", "B")), 1_000_000, {}, max_rounds=3,
         quick_size=1_000_000, **FLEET),
    Work("placement", "P-22", "42 generated WfFormat traces (ROTA_TRACES=FOLDER: real ones) on 4, 16 and 64 simulated "
         "slots; makespan over the lower bound, and on three speeds over HEFT's",
         (Figure("placement_fifo", "x"), Figure("placement_first_run", "x", {1: "1.12"}),
          Figure("placement_later_run", "x", {1: "1.10"}), Figure("placement_heft", "x"),
          Figure("placement_mixed", "x HEFT", {1: "1.0"}), Figure("placement_mixed_fifo", "x HEFT")),
         42, {}, max_rounds=1, quick_size=42, **FLEET),
    Work("simulate", "P-20", "the simulator: fleets of 5 workers and 100 tasks with every class of faults; time a seed, and "
         "real time a second of virtual time",
         (Figure("sim_seed", "ms", {1: "5"}), Figure("sim_second", "ms", {1: "1"})), 1000, {}, max_rounds=3,
         quick_size=200, **FLEET),
    Work("brain_chain", "P-17", "a chain 1,000,000 stages deep: resident bytes a task; time to accept it, then to cancel it",
         (Figure("chain_task_bytes", "B", {1: "1000"}), Figure("chain_accept", "s"), Figure("chain_cancel", "s")),
         1_000_000, {}, max_rounds=3, quick_size=1_000_000, **FLEET),
)


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure of a work at a thread count, unmetered or metered."""

    work: Work
    index: int
    threads: int
    metered: bool = False

    @property
    def figure(self):
        return self.work.figures[self.index]

    @property
    def clause(self):
        return "P-15" if self.metered else self.work.clause

    @property
    def bench(self):
        return self.figure.bench + ("_metered" if self.metered else "")

    @property
    def aim(self):
        if self.metered:
            return f"{self.work.metered_aim} x open" if self.work.metered_aim else ""
        return self.figure.aims.get(self.threads, "")

    def matches(self, word):
        """A clause or a group by its whole name (P-1 is not P-15), a row by any part of its own."""
        word = word.lower()
        return word in (self.clause.lower(), self.work.group, self.work.name) or word in self.bench


def rows(works=WORKS):
    """Every row, those of one run side by side."""
    return [Row(work, index, threads, metered)
            for work in works for threads in work.threads
            for metered in ((False, True) if work.metered else (False,)) for index in range(len(work.figures))]


def select(words, works=WORKS):
    """The rows that any of the words matches; all of them without a word."""
    every = rows(works)
    return [row for row in every if not words or any(row.matches(word) for word in words)]
