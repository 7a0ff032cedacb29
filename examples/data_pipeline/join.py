"""Joins the sums of the parts. They arrive as inputs: JSON in $ROTA_INPUTS, or in a file if they are large."""

import json
import os

if "ROTA_INPUTS_FILE" in os.environ:
    with open(os.environ["ROTA_INPUTS_FILE"], encoding="utf-8") as file:
        inputs = json.load(file)
else:
    inputs = json.loads(os.environ["ROTA_INPUTS"])

cities = {}
for part in inputs["parts"]:
    for name, sums in part["cities"].items():
        city = cities.setdefault(name, {"pieces": 0, "cents": 0})
        for key in city:
            city[key] += sums[key]
result = {"rows": sum(part["rows"] for part in inputs["parts"]), "rows_expected": inputs["rows"], "cities": cities}
# A result can also be written to this file; then everything that is printed is only output.
with open(os.environ["ROTA_RESULT"], "w", encoding="utf-8") as file:
    json.dump(result, file)
print(f"{result['rows']} rows of {len(cities)} cities")
