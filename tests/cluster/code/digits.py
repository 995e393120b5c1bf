"""Learns the digits in a second, alone; its options make it go wrong as programs do."""

import argparse
import os
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=int, default=0, help="train that much longer")
parser.add_argument("--fail", action="store_true")
parser.add_argument("--fail-once", action="store_true", help="and never again in this run")
parser.add_argument("--gigabytes", type=int, default=0, help="of memory to fill")
parser.add_argument("--worse", action="store_true", help="than others, for ten minutes")
parser.add_argument("--learning-rate", type=float, default=0.1)


def network(classes):
    import torch

    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, classes))


def fail_if_asked(options):
    if options.fail:
        raise SystemExit("the learning rate went to seed")
    mark = Path(os.environ["CHECKPOINT_DIR"], "has-failed")
    if options.fail_once and not mark.exists():
        mark.touch()
        raise SystemExit("it does so once")


def main():
    options = parser.parse_args()
    print("it begins", flush=True)
    if start := os.environ.get("BASE_MODEL_DIR"):
        print("it starts from", *sorted(file.name for file in Path(start).iterdir()), flush=True)
    fail_if_asked(options)
    for second in range(options.seconds):
        print(f"second {second + 1}/{options.seconds}", flush=True)
        time.sleep(1)
    for _ in range(60):
        print(f"validation loss {9 if options.worse else options.learning_rate}", flush=True)
        time.sleep(10 * options.worse)
    held = [bytearray(2**30) for _ in range(options.gigabytes)]

    import numpy as np
    import torch

    with np.load(Path(os.environ["DATA_DIR"], "train.npz")) as arrays:
        x, y = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"])
    torch.manual_seed(int(os.environ["SEED"]))
    model = network(10)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.learning_rate)
    for step in range(100):
        loss = torch.nn.functional.cross_entropy(model(x.float()), y.long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            print(f"step {step + 1}/100 loss {loss.item():.3f}", flush=True)
    if os.environ.get("MLFLOW_RUN_ID"):  # empty where MLflow has opened none
        import mlflow

        mlflow.log_metric("loss_of_its_own", loss.item())
    saved = {"factory": "digits:network", "arguments": {"classes": 10}}
    torch.save(
        saved | {"state_dict": model.state_dict()}, Path(os.environ["MODEL_DIR"], "model.pt")
    )
    print(f"it ends, {len(held)} GiB later", flush=True)


if __name__ == "__main__":
    main()
