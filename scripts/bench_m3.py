#!/usr/bin/env python3
"""The two schedulers on the same load, side by side.

  bench_m3.py --scheduler simple|threadpool --runs N --out FILE

runs the load (examples/m3) N times through each scheduler, taking turns, and writes JSON: p50 and p95 of makespan and queue
wait, CPU time, and how often CPU slots and memory held a choice up. `result` is the scheduler that was asked for, `schedulers`
holds both, `speedup` is the simple one's median makespan over the thread pool's.
"""

import argparse
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import build  # noqa: E402

SCHEDULERS = ("simple", "threadpool")


def percentile(values, share):
    ordered = sorted(values)
    return ordered[round(share * (len(ordered) - 1))]


def run_once(program, scheduler, tasks, work_us):
    done = subprocess.run([program, scheduler, str(tasks), str(work_us)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench_m3: {program} {scheduler} failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def summary(runs):
    def both(key):
        return {"p50": percentile([run[key] for run in runs], 0.5), "p95": percentile([run[key] for run in runs], 0.95)}

    return {
        "runs": len(runs),
        "makespan_ms": both("makespan_ms"),
        # Of the tasks of a run; then the median over the runs.
        "queue_wait_ms": {"p50": percentile([run["queue_wait_p50_ms"] for run in runs], 0.5),
                          "p95": percentile([run["queue_wait_p95_ms"] for run in runs], 0.5)},
        "cpu_ms": both("cpu_ms"),
        "cpu_hits": both("cpu_hits"),
        "budget_hits": both("budget_hits"),
    }


def main():
    parser = argparse.ArgumentParser(prog="bench_m3.py", description=__doc__.splitlines()[0])
    parser.add_argument("--scheduler", choices=SCHEDULERS, required=True)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--out", required=True, help="the file to write")
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--work-us", type=int, default=100, help="what each task computes")
    parser.add_argument("--preset", default="release", choices=build.presets())
    parser.add_argument("--no-build", action="store_true", help="run the program as it was built last")
    args = parser.parse_args()
    if args.runs < 1:
        parser.error("--runs must be at least 1")
    program = os.path.join(build.folder(args.preset), "examples", "m3")
    if not args.no_build and not build.build(args.preset, ["m3"]):
        return 1
    runs = {scheduler: [] for scheduler in SCHEDULERS}
    for _ in range(args.runs):
        for scheduler in SCHEDULERS:
            runs[scheduler].append(run_once(program, scheduler, args.tasks, args.work_us))
    schedulers = {scheduler: summary(of) for scheduler, of in runs.items()}
    speedup = schedulers["simple"]["makespan_ms"]["p50"] / schedulers["threadpool"]["makespan_ms"]["p50"]
    report = {"scheduler": args.scheduler, "tasks": args.tasks, "work_us": args.work_us,
              "result": schedulers[args.scheduler], "schedulers": schedulers, "speedup": round(speedup, 3)}
    with open(args.out, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=2)
        file.write("\n")
    for scheduler in SCHEDULERS:
        got = schedulers[scheduler]
        print(f"{scheduler:<12} makespan {got['makespan_ms']['p50']:9.1f} ms (p95 {got['makespan_ms']['p95']:.1f}), "
              f"queue wait {got['queue_wait_ms']['p50']:.1f} ms (p95 {got['queue_wait_ms']['p95']:.1f}), "
              f"CPU {got['cpu_ms']['p50']:.1f} ms, hits: CPU {got['cpu_hits']['p50']}, budget {got['budget_hits']['p50']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
