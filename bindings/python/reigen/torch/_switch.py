# SPDX-License-Identifier: Apache-2.0
"""torch.use_deterministic_algorithms(), as the runtime is told of it.

PyTorch calls nobody when the switch changes, so it is looked at where a reduction is submitted:

    if _switch.asks() is not _switch.told:
        _switch.tell()
"""
import torch

from reigen import _core

#: Whether PyTorch's switch is on.
asks = torch._C._get_deterministic_algorithms
#: What the runtime was told last.
told = False


def tell() -> None:
    """Tell the runtime what the switch says now."""
    global told
    told = asks()
    _core.ask_for_determinism('torch', told)
