"""Scores one model on one suite. Its inputs contain the models of all trainings; it uses the one with its learning rate."""

import json
import os

inputs = json.loads(os.environ["ROTA_INPUTS"])
mine = next(model for model in inputs["models"] if model["lr"] == inputs["lr"])
with open(mine["model"], encoding="utf-8") as file:
    loss = json.load(file)["loss"]
score = max(0.0, 1 - loss / 4) * {"rhyme": 1.0, "metre": 0.95}[inputs["suite"]]
print(json.dumps({"lr": inputs["lr"], "suite": inputs["suite"], "model": mine["model"], "score": round(score, 4)}))
