"""Chooses the model with the best mean over the suites."""

import argparse
import json
import os

parser = argparse.ArgumentParser()
parser.add_argument("--good-enough", type=float, required=True)
options = parser.parse_args()
by_model = {}
for each in json.loads(os.environ["ROTA_INPUTS"])["scores"]:
    by_model.setdefault(each["model"], []).append(each["score"])
means = {model: sum(scores) / len(scores) for model, scores in by_model.items()}
best = max(means, key=means.get)
for model, mean in sorted(means.items(), key=lambda item: -item[1]):
    print(f"{model}: {mean:.3f}")
print(json.dumps({"model": best, "score": round(means[best], 4), "good_enough": means[best] >= options.good_enough}))
