"""Runs a program with FSDP2 among CPUs: ``python fsdp_on_cpus.py PROGRAM ...``, under torchrun.

Torch shards there, over gloo, but accelerate 1.15 has its plugin only where there are GPUs or other
accelerators (``AcceleratorState.__init__`` in accelerate/state.py). All else is as on GPUs.
"""

import runpy
import sys
from pathlib import Path

from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType

original = AcceleratorState.__init__


def with_plugin(self, *arguments, fsdp_plugin=None, **options):
    original(self, *arguments, fsdp_plugin=fsdp_plugin, **options)
    if fsdp_plugin is not None and self.distributed_type == DistributedType.MULTI_CPU:
        self.distributed_type = DistributedType.FSDP
        self.fsdp_plugin = fsdp_plugin


AcceleratorState.__init__ = with_plugin
sys.argv = sys.argv[1:]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
