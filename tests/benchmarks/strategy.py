"""Whether the language model's trainer needs the memory that ``trireme strategy`` predicts.

Each strategy on one, two and four processes; of a pipeline, each stage. Predicted, measured, ratio.

    python tests/benchmarks/strategy.py
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from trainer_memory import measure

MODEL = "--layers 4 --width 640 --heads 20 --vocabulary 8192 --batch-size 16"
LENGTH = 64
CASES = {
    1: ["single", "single --micro-batch 2", "single --recompute", "single --bf16"],
    2: ["ddp", "fsdp", "tp", "pp", "fsdp --recompute", "fsdp --bf16", "tp --bf16", "pp --bf16"],
    4: [
        "ddp",
        "fsdp",
        "tp",
        "pp --micro-batch 1",
        "hybrid --dp 2 --tp 2",
        "hybrid --dp 2 --pp 2",
        "hybrid --tp 2 --pp 2",
    ],
}


def main() -> None:
    """Measures and prints a line for each stage."""
    print(f"language_model.py {MODEL}, {LENGTH} tokens a sample")
    print(f"{'processes':<9}  {'--strategy':<22}  {'predicted':>9}  {'measured':>9}  ratio")
    for processes, cases in CASES.items():
        given = [f"--strategy {case}" for case in cases]
        for stage in measure(processes, LENGTH, MODEL, given):
            sizes = [f"{size / 1e6:6.0f} MB" for size in (stage.predicted, stage.measured)]
            what = stage.case.removeprefix("--strategy ")
            ratio = stage.predicted / stage.measured
            print(f"{processes:<9}  {what:<22}  {'  '.join(sizes)}  {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
