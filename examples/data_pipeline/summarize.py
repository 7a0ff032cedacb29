"""Sums up one part by city, and reports its progress as lines on the descriptor $ROTA_FD."""

import csv
import json
import os
import sys

path = sys.argv[1]
rota = os.fdopen(int(os.environ["ROTA_FD"]), "w", buffering=1)
size = os.path.getsize(path)
cities = {}
rows = read = 0
with open(path, encoding="utf-8", newline="") as file:
    for row in csv.DictReader(file):
        city = cities.setdefault(row["city"], {"pieces": 0, "cents": 0})
        city["pieces"] += int(row["pieces"])
        city["cents"] += int(row["pieces"]) * int(row["cents"])
        rows += 1
        read += len(row["city"]) + len(row["pieces"]) + len(row["cents"]) + 3
        if rows % 10000 == 0:
            print(f"progress {min(read * 100 / size, 99):.1f} {path}", file=rota)
print(json.dumps({"rows": rows, "cities": cities}))
