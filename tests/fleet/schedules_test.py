"""Schedules (H-7) with a real host: `rota submit --cron`, `rota schedules`, the HTTP routes, and a host that is killed."""

import datetime
import re
import time
import unittest

from fleet_support import stages
from http_test import YAML, HttpCase

QUICK = stages("{name: a, run: 'echo 1'}")


class Schedules(HttpCase):
    def listed(self):
        return {each["name"]: each for each in self.ask("GET", "/v1/schedules").json["items"]}

    def firings(self):
        """The nominal times for which the log has a firing, as in the keys of the workflows."""
        found = []
        for line in self.rota("replay", self.state, "--records").stdout.splitlines():
            if "ScheduleFired" in line:
                found.append(re.search(r"schedule/w/([^\s\"]+)", line).group(1))
        return found

    def test_set_list_pause_resume_and_remove(self):
        """Contract: H-7, H-1, C-2. By the command line and over HTTP, with the next times."""
        self.start_http()
        self.write("w.yaml", QUICK)
        made = self.rota("submit", "w.yaml", "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--overlap", "queue", "--state", self.state)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("next: ", made.stdout + made.stderr)
        one = self.listed()["w"]
        self.assertEqual((one["cron"], one["tz"], one["overlap"], one["missed"], one["paused"], one["fired"]),
                         ("30 2 * * *", "Europe/Berlin", "queue", "last", False, 0))
        self.assertEqual(len(one["next"]), 3)
        for moment in one["next"]:  # 02:30 in Berlin is 00:30 or 01:30 UTC, or 01:00 on the day of the gap.
            self.assertRegex(moment, r"T(00:30|01:30|01:00):00")
        self.assertIn("Europe/Berlin", self.rota("schedules", self.state).stdout)
        for action, paused in (("pause", True), ("resume", False)):
            self.assertEqual(self.rota("schedules", action, "w", "--state", self.state).returncode, 0)
            self.assertEqual(self.listed()["w"]["paused"], paused)
        # Over HTTP, with another name; a second one of the same name replaces it.
        for cron in ("@daily", "0 4 1 * *"):
            answer = self.ask("POST", f"/v1/schedules?name=monthly&cron={cron.replace(' ', '%20')}&tz=UTC&missed=all", QUICK, headers=YAML)
            self.assertEqual((answer.status, answer.json["cron"], answer.json["missed"]), (201, cron, "all"), answer.body)
        self.assertEqual(sorted(self.listed()), ["monthly", "w"])
        self.assertEqual(self.ask("POST", "/v1/schedules/monthly/pause").status, 200)
        self.assertEqual(self.listed()["monthly"]["next"], [])
        # What is wrong is said before anything is stored.
        for query, part in (("cron=61%20*%20*%20*%20*", "minute"), ("cron=@daily&tz=Europe/Nowhere", "time zone"), ("", "five fields"),
                            ("cron=@daily&name=a/b", "name of a schedule"), ("cron=@daily&overlap=both", "overlap")):
            answer = self.ask("POST", "/v1/schedules?" + query, QUICK, headers=YAML)
            self.assertEqual(answer.status, 400, query)
            self.assertIn(part, answer.json["detail"])
        refused = self.rota("submit", "w.yaml", "--cron", "0 3 * *", "--state", self.state)
        self.assertIn("write five fields", refused.stderr)
        # An expression from a variable that is not set, or a schedule's option without an expression, submits nothing.
        for options in (("--cron", ""), ("--missed", "all"), ("--overlap", "queue"), ("--tz", "UTC")):
            refused = self.rota("submit", "w.yaml", *options, "--state", self.state)
            self.assertEqual(refused.returncode, 2, (options, refused.stdout, refused.stderr))
        self.assertEqual(self.ask("GET", "/v1/workflows").json["items"], [])
        self.assertEqual(self.ask("DELETE", "/v1/schedules/monthly").status, 200)
        self.assertEqual(self.ask("DELETE", "/v1/schedules/monthly").status, 404)
        self.assertEqual(self.rota("schedules", "remove", "w", "--state", self.state).returncode, 0)
        self.assertEqual(self.listed(), {})

    def test_a_schedule_of_somebody_else(self):
        """Contract: H-5, H-7."""
        self.start_http()
        tokens = {name: self.rota("token", name, "--role", "submit", "--user", name, "--state", self.state).stdout.strip() for name in ("ann", "bob")}
        self.assertEqual(self.ask("POST", "/v1/schedules?name=w&cron=@daily", QUICK, token=tokens["ann"], headers=YAML).status, 201)
        for method, path in (("POST", "/v1/schedules/w/pause"), ("DELETE", "/v1/schedules/w")):
            self.assertEqual(self.ask(method, path, token=tokens["bob"]).status, 403)
        self.assertEqual(self.ask("POST", "/v1/schedules?name=w&cron=@hourly", QUICK, token=tokens["bob"], headers=YAML).status, 403)
        self.assertEqual(self.ask("DELETE", "/v1/schedules/w", token=tokens["ann"]).status, 200)

    def test_a_host_that_is_killed_fires_once_for_each_time(self):
        """Contract: H-7. A time that passed while the host was dead fires after its start, and no time fires twice."""
        self.start_http()
        self.write("w.yaml", QUICK)
        self.assertEqual(self.rota("submit", "w.yaml", "--cron", "* * * * *", "--missed", "all", "--overlap", "allow", "--state", self.state).returncode, 0)
        due = self.listed()["w"]["next"][0]
        nominal = datetime.datetime.fromisoformat(due[:19] + "+00:00").timestamp()
        self.kill("host")
        while time.time() < nominal:  # The wall clock is what the test is about.
            time.sleep(min(0.2, max(0.0, nominal - time.time())))
        for _ in range(3):
            self.start_http()
            self.wait_for(lambda: self.listed()["w"]["fired"] >= 1, "it does not fire: ", lambda: self.log("host")[-2000:])
            self.kill("host")
        times = self.firings()
        self.assertIn(due[:19] + "Z", times)
        self.assertEqual(len(times), len(set(times)), times)


if __name__ == "__main__":
    unittest.main()
