"""The operations that training a transformer costs, and how many of them GPUs can do."""

import re

import torch
import transformer

PEAKS = {
    **dict.fromkeys(("H100 PCIe", "H800 PCIe"), 756e12),
    **dict.fromkeys(("H100 NVL", "H200 NVL"), 835e12),
    **dict.fromkeys(("H100", "H200", "H800", "GH200"), 989e12),
    **dict.fromkeys(("A100", "A800"), 312e12),
    "H20": 148e12,
    "L40S": 362e12,
    "L20": 119.5e12,
    "A10": 125e12,
}
"""Operations per second of GPUs in bfloat16, dense, as their data sheets say."""


def peak_flops(device: torch.device) -> float:
    """Returns a device's operations per second in bfloat16; 0 where they are not known."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    # Whole words: the A10G of some clouds is slower than an A10.
    return next((speed for gpu, speed in PEAKS.items() if re.search(rf"\b{gpu}\b", name)), 0.0)


def operations(shape: transformer.Shape, length: int) -> int:
    """Returns the floating-point operations that a token costs in training.

    Source: https://arxiv.org/abs/2204.02311, appendix B.
    """
    with torch.device("meta"):
        count = sum(value.numel() for value in transformer.LanguageModel(*shape).parameters())
    return 6 * count + 12 * shape.layers * shape.width * length
