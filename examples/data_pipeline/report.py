"""Writes the report as text."""

import json
import os
import sys

joined = json.loads(os.environ["ROTA_INPUTS"])["joined"]
lines = [f"{'city':10} {'pieces':>10} {'turnover':>16}"]
for name, sums in sorted(joined["cities"].items(), key=lambda item: -item[1]["cents"]):
    lines.append(f"{name:10} {sums['pieces']:>10,} {sums['cents'] / 100:>16,.2f}")
lines.append(f"{joined['rows']:,} rows")
with open(sys.argv[1], "w", encoding="utf-8") as file:
    file.writelines(line + "\n" for line in lines)
print("\n".join(lines))
