"""Whether the language model's trainer needs the memory that ``trireme strategy`` predicts.

Each strategy on one, two and four processes; of a pipeline, each stage. Where there is a GPU, three
sizes of GPT-2 on one of it instead. Predicted, measured, ratio.

    python benchmarks/strategy.py
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import torch
from trainer_memory import measure

MODEL = "--layers 4 --width 640 --heads 20 --vocabulary 8192 --batch-size 16"
LENGTH = 64
ON_GPU = "--bf16 --batch-size 32", 1024
SIZES = {
    "gpt2-124m": ["", "--micro-batch 8", "--recompute", "--compile"],
    "gpt2-350m": ["", "--micro-batch 8", "--recompute", "--compile"],
    "gpt2-1.5b": [
        "--micro-batch 8",
        "--micro-batch 16",
        "--recompute",
        "--micro-batch 8 --compile",
    ],
}
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
    if torch.cuda.is_available():
        on_gpu()
        return
    print(f"language_model.py {MODEL}, {LENGTH} tokens a sample")
    print(f"{'processes':<9}  {'--strategy':<22}  {'predicted':>9}  {'measured':>9}  ratio")
    for processes, cases in CASES.items():
        options = [f"--strategy {case}" for case in cases]
        for stage in measure(processes, LENGTH, MODEL, options):
            sizes = [f"{size / 1e6:6.0f} MB" for size in (stage.predicted, stage.measured)]
            case = stage.case.removeprefix("--strategy ")
            ratio = stage.predicted / stage.measured
            print(f"{processes:<9}  {case:<22}  {'  '.join(sizes)}  {ratio:.2f}", flush=True)


def on_gpu() -> None:
    """Measures each size of GPT-2 on one GPU and prints a line for each case."""
    model, length = ON_GPU
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(f"language_model.py {model}, {length} tokens a sample")
    print(f"{'':<42}  {'predicted':>9}  {'measured':>9}  ratio   reserved")
    for size, cases in SIZES.items():
        for stage in measure(1, length, model, [f"--size {size} {case}" for case in cases]):
            line = f"{stage.case:<42}  {stage.predicted / 1e9:6.1f} GB"
            if not stage.measured:
                print(f"{line}  does not fit")
                continue
            ratio = f"{stage.predicted / stage.measured:.2f}"
            reserved = f"{stage.reserved / 1e9:6.1f} GB"
            print(f"{line}  {stage.measured / 1e9:6.1f} GB  {ratio}   {reserved}")


if __name__ == "__main__":
    main()
