"""A fake trainer: the loss falls with each step, and the learning rate determines by how much. The communication with Rota
is real: progress and checkpoints on $ROTA_FD, and an attempt that continues from the last checkpoint ($ROTA_CHECKPOINT).

With lr 0.01 the first attempt dies after half of its steps. TRAIN_STEPS and TRAIN_STEP_MS set the length.
"""

import argparse
import json
import os
import signal
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--data", required=True)
parser.add_argument("--out", required=True)
options = parser.parse_args()
steps = int(os.environ.get("TRAIN_STEPS", "40"))
step_s = int(os.environ.get("TRAIN_STEP_MS", "50")) / 1000
rota = os.fdopen(int(os.environ["ROTA_FD"]), "w", buffering=1)


def checkpoint(step, loss):
    """A real trainer would save its weights to a file here and write `checkpoint /path/to/file`."""
    print("checkpoint", json.dumps({"step": step, "loss": loss}), file=rota)


def on_term(_number, _frame):
    """Another task needs the machine: save a checkpoint, so that the work so far is not lost."""
    checkpoint(step, loss)
    sys.exit(1)


with open(options.data, encoding="utf-8") as file:
    examples = sum(1 for _ in file)
before = json.loads(os.environ.get("ROTA_CHECKPOINT") or "null") or {"step": 0, "loss": 4.0}
step, loss = before["step"], before["loss"]
resumed_at = step
signal.signal(signal.SIGTERM, on_term)
if resumed_at:
    print(f"resuming from step {resumed_at}, loss {loss:.3f}")
print("cache model tiny-llm", file=rota)
print("cache dataset poems", file=rota)
while step < steps:
    time.sleep(step_s)
    step += 1
    # The rate in the middle learns best; a large one jumps about, a small one crawls.
    loss *= {0.1: 0.97, 0.01: 0.93}.get(options.lr, 0.985) ** (40 / steps)
    print(f"progress {step * 100 / steps:.1f} lr {options.lr}, loss {loss:.3f}", file=rota)
    if step % 5 == 0 or step == steps:
        checkpoint(step, loss)
    if options.lr == 0.01 and os.environ["ROTA_ATTEMPT"] == "1" and step == steps // 2:
        print("out of memory, says the device", file=sys.stderr)
        sys.exit(1)

model = os.path.join(options.out, f"model-{options.lr}.json")
with open(model, "w", encoding="utf-8") as file:
    json.dump({"lr": options.lr, "loss": loss, "examples": examples}, file)
with open(os.environ["ROTA_RESULT"], "w", encoding="utf-8") as file:
    json.dump({"lr": options.lr, "model": model, "loss": round(loss, 4), "resumed_at": resumed_at}, file)
