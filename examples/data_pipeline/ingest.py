"""Generates one day of sales, the same every time, and splits them into parts, one CSV file each."""

import argparse
import json
import os
import random

parser = argparse.ArgumentParser()
parser.add_argument("--out", required=True)
parser.add_argument("--parts", type=int, required=True)
parser.add_argument("--rows", type=int, required=True)
options = parser.parse_args()

CITIES = ("Bergen", "Graz", "Lyon", "Porto", "Turku")
dice = random.Random(7)
os.makedirs(options.out, exist_ok=True)
files = []
for part in range(options.parts):
    path = os.path.join(options.out, f"part-{part}.csv")
    rows = options.rows // options.parts + (1 if part < options.rows % options.parts else 0)
    # Written under another name and then renamed, so that no reader sees half a file.
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write("city,pieces,cents\n")
        file.writelines(f"{dice.choice(CITIES)},{dice.randint(1, 9)},{dice.randint(100, 9999)}\n" for _ in range(rows))
    os.replace(path + ".new", path)
    files.append(path)
    print(f"{path}: {rows} rows")

# The last line of the output is the task's result.
print(json.dumps({"rows": options.rows, "files": files}))
