"""`rota simulate`, as a user runs it (dev build)."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from subcommands_test import SubcommandCase  # noqa: E402
from support import graph  # noqa: E402

FLEET = """apiVersion: rota/v1
kind: Fleet
workers:
  - {name: w, cpu: 1, memory: 4GiB, cost_per_hour: 3.60}
"""
MODES = ["adaptive", "static_worker", "fixed_pipeline", "static_round_robin"]
SECOND = 1_000_000_000
# Two tasks of 100 and 50 seconds, one after the other, in WfFormat 1.5.
TRACE = {
    "name": "recorded", "schemaVersion": "1.5",
    "workflow": {
        "specification": {"tasks": [
            {"name": "a", "id": "a", "parents": [], "children": ["b"]},
            {"name": "b", "id": "b", "parents": ["a"], "children": []}]},
        "execution": {"makespanInSeconds": 150, "executedAt": "2024-01-01T00:00:00Z", "tasks": [
            {"id": "a", "runtimeInSeconds": 100}, {"id": "b", "runtimeInSeconds": 50}]}}}


class Simulate(SubcommandCase):
    def setUp(self):
        super().setUp()
        self.write("fleet.yaml", FLEET)
        self.write("w.yaml", graph("first: {run: echo one}", "second: {needs: first, run: echo two}"))
        self.write("wide.yaml", graph("wide: {run: echo one, matrix: {n: [1, 2, 3, 4]}}"))

    def predicted(self, *arguments):
        return json.loads(self.ok("simulate", "--json", *arguments))

    def makespans(self, *arguments):
        """The median makespan in seconds, by policy and fleet."""
        return {(course["policy"], course["fleet"]): course["makespan_ns"]["p50"] / SECOND
                for course in self.predicted(*arguments)["courses"]}

    # S-3: makespan, cost and utilisation for each dispatch mode, side by side.
    def test_each_mode_side_by_side(self):
        told = self.predicted("w.yaml", "--fleet", "fleet.yaml", "--spread", "0%", "--duration", "30m")
        self.assertEqual([course["policy"] for course in told["courses"]], MODES)
        self.assertEqual(told["tasks"], 2)
        for course in told["courses"]:
            self.assertEqual(course["makespan_ns"], {"p50": 3600 * SECOND, "p95": 3600 * SECOND}, course["policy"])
            self.assertEqual(course["cost_busy_microdollars"]["p50"], 3_600_000)
            self.assertEqual((course["succeeded_most"], course["failed_most"], course["unfinished_most"]), (2, 0, 0))
        table = self.ok("simulate", "w.yaml", "--fleet", "fleet.yaml")
        for word in [*MODES, "makespan p50", "p95", "busy cost", "cpu"]:
            self.assertIn(word, table)

    # S-3: the same seed predicts the same; durations vary with another one, and with the spread.
    def test_draws(self):
        options = ["wide.yaml", "--fleet", "fleet.yaml", "--policy", "mode=adaptive"]
        self.assertEqual(self.predicted(*options), self.predicted(*options))
        self.assertNotEqual(self.predicted(*options), self.predicted(*options, "--seed", "2"))
        span = self.predicted(*options, "--runs", "50")["courses"][0]["makespan_ns"]
        self.assertLess(span["p50"], span["p95"])

    # S-3: what added machines gain, and what a stage's duration changes.
    def test_more_machines_and_durations(self):
        options = ["wide.yaml", "--fleet", "fleet.yaml", "--fleet", "+1xw", "--spread", "0%", "--policy", "mode=adaptive"]
        fleets = {fleet: seconds for (_, fleet), seconds in self.makespans(*options).items()}
        self.assertEqual(fleets, {"fleet.yaml": 240, "fleet.yaml +1xw": 120})
        fleets = {fleet: seconds for (_, fleet), seconds in self.makespans(*options, "--duration", "wide=10s").items()}
        self.assertEqual(fleets, {"fleet.yaml": 40, "fleet.yaml +1xw": 20})
        self.assertIn("-50.0 %", self.ok("simulate", *options))

    # S-3: a worker that is lost costs what it had done, and only then.
    def test_losses(self):
        options = ["wide.yaml", "--fleet", "fleet.yaml", "--fleet", "+1xw", "--spread", "0%", "--policy", "mode=adaptive"]
        lost = self.predicted(*options, "--fail", "w@30s")["courses"]
        self.assertGreater(lost[1]["makespan_ns"]["p50"], 120 * SECOND)
        self.assertEqual(lost[1]["succeeded_most"], 4)
        self.assertEqual(self.predicted(*options, "--fail", "w@10h")["courses"], self.predicted(*options)["courses"])
        self.assertEqual(self.predicted(*options, "--spot", "0%/h")["courses"], self.predicted(*options)["courses"])

    # S-3: the durations of a real run.
    def test_from_a_log(self):
        self.ok("run", "w.yaml")
        spans = self.makespans("w.yaml", "--fleet", "fleet.yaml", "--from-log", "w.yaml")
        for policy, seconds in spans.items():
            self.assertLess(seconds, 60, policy)

    # S-3: WfFormat (WfCommons).
    def test_a_trace_in_wf_format(self):
        self.write("trace.json", json.dumps(TRACE))
        told = self.predicted("trace.json", "--fleet", "fleet.yaml", "--spread", "0%")
        self.assertEqual(told["recorded_makespan_ns"], 150 * SECOND)
        self.assertEqual({course["makespan_ns"]["p50"] for course in told["courses"]}, {150 * SECOND})

    # S-3: the log of a simulated run is a log like any other.
    def test_the_log_of_a_run(self):
        self.ok("simulate", "w.yaml", "--fleet", "fleet.yaml", "--trace", "run.log")
        self.assertIn("Verified", self.ok("replay", "run.log"))
        self.ok("trace", "run.log", "-o", "trace.json")
        with open(self.path("trace.json"), encoding="utf-8") as file:
            self.assertTrue(json.load(file))

    def test_errors_say_what_is_right(self):
        good = ["w.yaml", "--fleet", "fleet.yaml"]
        for arguments, words in [(["w.yaml"], "--fleet FILE is missing"),
                                 (["w.yaml", "--fleet", "+2xw"], "--fleet FILE is missing"),
                                 ([*good, "--fleet", "+2xgpu"], "the fleet has no worker 'gpu'"),
                                 ([*good, "--fleet", "more"], "like +2xgpu"),
                                 ([*good, "--fail", "x@3m"], "the fleet has no worker 'x'"),
                                 ([*good, "--fail", "w"], "like w2@30m"),
                                 ([*good, "--spot", "5%"], "like 5%/h"),
                                 ([*good, "--spread", "200%"], "from 0% to 100%"),
                                 ([*good, "--duration", "third=2h"], "the workflow has no stage 'third'"),
                                 ([*good, "--duration", "soon"], "like 90s"),
                                 ([*good, "--policy", "mood=adaptive"], "mood"),
                                 ([*good, "--trace", "missing/run.log"], "could not be written"),
                                 (["none.yaml", "--fleet", "fleet.yaml"], "none.yaml"),
                                 (["w.yaml", "--fleet", "none.yaml"], "none.yaml")]:
            with self.subTest(arguments=arguments):
                done = self.rota("simulate", *arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(done.stdout, "")
                self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
