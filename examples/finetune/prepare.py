"""Creates a small dataset and reports its path."""

import json
import os
import sys

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
path = os.path.join(out, "poems.txt")
lines = [f"line {i} of a poem that never was" for i in range(1000)]
with open(path, "w", encoding="utf-8") as file:
    file.writelines(line + "\n" for line in lines)
print(json.dumps({"dataset": path, "lines": len(lines)}))
