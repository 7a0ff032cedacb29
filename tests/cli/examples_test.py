"""The workflows of examples/, as their headers say to run them, in a copy of the folder (C-1)."""

import json
import os
import shutil
import signal
import unittest

from support import LIMIT_S, ROOT, RunCase

EXAMPLES = os.path.join(ROOT, "examples")


class Examples(RunCase):
    def setUp(self):
        super().setUp()
        shutil.copytree(EXAMPLES, self.path("examples"), ignore=shutil.ignore_patterns("out", ".rota", "*.cc", "*.h"))

    def run_example(self, name, *arguments, status=0, env=None):
        """The summary of a run, and the task rows by name."""
        done = self.rota("run", f"examples/{name}", "--json", *arguments, env=env)
        self.assertEqual(done.returncode, status, done.stdout[-3000:] + done.stderr)
        report = self.summary(done)
        return report, {task["name"]: task for task in report["tasks"]}

    def check_log(self, name, task):
        """Runs the commands that the header of the example proposes."""
        log = f"examples/.rota/{name}"
        replayed = self.rota("replay", log, "--json")
        self.assertEqual(replayed.returncode, 0, replayed.stdout + replayed.stderr)
        self.assertTrue(json.loads(replayed.stdout)["verified"])
        self.assertIn("succeeded", self.rota("explain", task, "--log", log).stdout)
        self.assertEqual(self.rota("graph", f"examples/{name}").returncode, 0)
        self.assertIn("nothing was run", self.rota("run", f"examples/{name}", "--dry-run").stdout)

    def test_each_is_listed_and_valid(self):
        with open(os.path.join(EXAMPLES, "README.md"), encoding="utf-8") as file:
            listed = file.read()
        for name in sorted(os.listdir(EXAMPLES)):
            if name.startswith(".") or name in ("README.md", "CMakeLists.txt"):
                continue
            self.assertIn(f"`{name}", listed)
            if name.endswith(".yaml") and not name.endswith("_fleet.yaml"):
                done = self.rota("validate", f"examples/{name}")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_data_pipeline(self):
        _, tasks = self.run_example("data_pipeline.yaml", env={"ROWS": "4000"})
        self.assertEqual([name for name, task in tasks.items() if task["state"] == "skipped"], ["alarm"])
        report = self.read("examples/data_pipeline/out/report.txt")
        self.assertIn("4,000 rows", report)
        self.assertIn("Porto", report)
        self.check_log("data_pipeline.yaml", "summarize[2]")

    def test_finetune(self):
        fleet = ("--workers", "examples/finetune_fleet.yaml")
        fast = {"TRAIN_STEPS": "20", "TRAIN_STEP_MS": "5"}
        report, tasks = self.run_example("finetune.yaml", *fleet, env=fast)
        self.assertGreater(report["cost_microdollars"], 0)
        self.assertEqual(tasks["train[1]"]["attempts"], 2)  # Died in the middle, and went on.
        for name, task in tasks.items():
            if name.startswith("train["):
                self.assertTrue(task["worker"].startswith("trainer-"), task)
            if name.startswith("evaluate["):
                self.assertNotEqual(task["worker"], "small")
        self.assertEqual(tasks["keep-the-old-one"]["state"], "skipped")
        self.assertEqual(json.loads(self.read("examples/finetune/out/published/model.json"))["lr"], 0.01)
        self.check_log("finetune.yaml", "train[1]")
        self.assertEqual(self.rota("replay", "examples/.rota/finetune.yaml", "--policy", "lambda_training=0.1").returncode, 0)
        _, tasks = self.run_example("finetune.yaml", *fleet, "--fresh", env={**fast, "GOOD_ENOUGH": "0.99"})
        self.assertEqual((tasks["publish"]["state"], tasks["keep-the-old-one"]["state"]), ("skipped", "succeeded"))

    # U-3: after a kill, every training resumes from its last checkpoint.
    def test_finetune_killed_and_run_again(self):
        command = ("run", "examples/finetune.yaml", "--workers", "examples/finetune_fleet.yaml", "--json")
        # No training ends by itself before the kill, however slow the machine is: 1,000 steps take a minute or more.
        slow = {**self.environment, "TRAIN_STEPS": "1000", "TRAIN_STEP_MS": "60"}
        process = self.start(*command, env=slow)
        seen = {}
        for line in process.stdout:
            if '"report":"checkpoint"' in line:
                name = json.loads(line)["name"]
                seen[name] = seen.get(name, 0) + 1
            if sum(count >= 3 for count in seen.values()) >= 2:  # There are two workers that can train.
                break
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT_S)
        self.assert_nothing_runs()
        done = self.rota(*command, env={"TRAIN_STEPS": "1000", "TRAIN_STEP_MS": "0"})
        self.assertEqual(done.returncode, 0, done.stdout[-3000:])
        logs = self.path("examples/.rota/finetune.yaml/logs")
        resumed = [name for name in os.listdir(logs) if "resuming from step " in self.read(os.path.join(logs, name))]
        self.assertGreaterEqual(len({name.split("-")[0] for name in resumed}), 2, resumed)

    # Y-2, Y-3, Y-4, Y-5: what Argo's examples and the tutorial of Snakemake do.
    def test_diamond(self):
        _, tasks = self.run_example("diamond.yaml")
        self.assertGreaterEqual(tasks["d"]["started_ns"], max(tasks["b"]["ended_ns"], tasks["c"]["ended_ns"]))
        self.check_log("diamond.yaml", "d")

    def test_fan_out(self):
        _, tasks = self.run_example("fan_out.yaml")
        self.assertEqual(sum(1 for name in tasks if name.startswith("square[")), 5)
        self.assertIn("55", self.rota("logs", "examples/fan_out.yaml", "sum").stdout)
        self.check_log("fan_out.yaml", "check[4]")
        _, tasks = self.run_example("fan_out.yaml", "--set", "most=25", "--fresh")
        self.assertEqual(len(tasks), 52)

    def test_conditionals(self):
        _, tasks = self.run_example("conditionals.yaml")
        self.assertEqual((tasks["heads"]["state"], tasks["tails"]["state"]), ("succeeded", "skipped"))
        self.assertIn("tails was skipped", self.rota("logs", "examples/conditionals.yaml", "after").stdout)
        _, tasks = self.run_example("conditionals.yaml", "--set", "coin=tails", "--fresh")
        self.assertEqual((tasks["heads"]["state"], tasks["tails"]["state"]), ("skipped", "succeeded"))
        self.check_log("conditionals.yaml", "tails")

    def test_retry(self):
        _, tasks = self.run_example("retry.yaml")
        self.assertEqual((tasks["flaky"]["attempts"], tasks["after"]["state"]), (3, "succeeded"))
        self.check_log("retry.yaml", "flaky")

    def test_exit_handler(self):
        _, tasks = self.run_example("exit_handler.yaml")
        self.assertEqual([tasks[name]["state"] for name in ("clean-up", "celebrate", "cry")],
                         ["succeeded", "succeeded", "skipped"])
        _, tasks = self.run_example("exit_handler.yaml", "--set", "fail=true", status=1)
        self.assertEqual([tasks[name]["state"] for name in ("clean-up", "celebrate", "cry")],
                         ["succeeded", "skipped", "succeeded"])
        self.assertIn("work has failed", self.rota("logs", "examples/exit_handler.yaml", "cry").stdout)

    def test_build_matrix(self):
        _, tasks = self.run_example("build_matrix.yaml")
        self.assertEqual(len(tasks), 5 + 2 + 1)
        self.assertIn('"flags":"-flto"', self.rota("logs", "examples/build_matrix.yaml", "build[0]").stdout)
        self.check_log("build_matrix.yaml", "test[1]")
        _, tasks = self.run_example("build_matrix.yaml", "--only", "build[1]")
        self.assertEqual([name for name, task in tasks.items() if task["state"] == "succeeded"], ["build[1]"])

    def test_mapping(self):
        self.run_example("mapping.yaml")
        report, _ = self.run_example("mapping.yaml")
        self.assertEqual(sum(1 for task in report["tasks"] if task.get("cached")), 8)
        with open(self.path("examples/out/data/b.txt"), "a", encoding="utf-8") as file:
            file.write("GATTACA\n")
        _, tasks = self.run_example("mapping.yaml")
        self.assertEqual(sorted(name for name, task in tasks.items() if not task.get("cached")),
                         ["call", "data", "map[1]", "plot", "sort[1]"])

    def test_matrix(self):
        report, tasks = self.run_example("matrix.yaml")
        self.assertEqual(len(report["tasks"]), 1002)
        self.assertEqual({task["state"] for task in tasks.values()}, {"succeeded"})
        self.assertEqual(self.rota("explain", "square[123]", "--log", "examples/.rota/matrix.yaml").returncode, 0)


if __name__ == "__main__":
    unittest.main()
