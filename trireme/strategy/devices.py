"""Devices and what they can do, by their vendors' data sheets."""

from typing import NamedTuple


class Device(NamedTuple):
    """A device.

    Attributes:
        memory: Bytes.
        bf16: Operations per second in bfloat16, dense.
        fp32: Operations per second in float32, without TF32, which PyTorch does not use by default.
        link: Bytes per second that it sends to others of its node: half of what data sheets say,
            which count both directions.
    """

    memory: float
    bf16: float
    fp32: float
    link: float


DEVICES = {
    # https://www.nvidia.com/en-us/data-center/a100/ and its data sheet
    "a100-40gb": Device(40e9, 312e12, 19.5e12, 300e9),
    "a100": Device(80e9, 312e12, 19.5e12, 300e9),
    "a800": Device(80e9, 312e12, 19.5e12, 200e9),
    # https://www.nvidia.com/en-us/data-center/h100/ and its data sheet
    "h100": Device(80e9, 989e12, 67e12, 450e9),
    "h100-pcie": Device(80e9, 756e12, 51e12, 64e9),
    "h800": Device(80e9, 989e12, 67e12, 200e9),
    "h20": Device(96e9, 148e12, 44e12, 450e9),
    # https://www.nvidia.com/en-us/data-center/h200/
    "h200": Device(141e9, 989e12, 67e12, 450e9),
    # https://www.nvidia.com/en-us/data-center/dgx-b200/, an eighth of it
    "b200": Device(180e9, 2250e12, 75e12, 900e9),
    # https://www.nvidia.com/en-us/data-center/l40s/
    "l40s": Device(48e9, 362e12, 91.6e12, 32e9),
    # https://www.nvidia.com/en-us/data-center/products/a10-gpu/
    "a10": Device(24e9, 125e12, 31.2e12, 32e9),
    # https://www.amd.com/en/products/accelerators/instinct/mi300/mi300x.html
    "mi300x": Device(192e9, 1307e12, 163.4e12, 448e9),
}
