# SPDX-License-Identifier: Apache-2.0
"""Reigen as a backend of torch.distributed:

    torch.distributed.init_process_group('reigen')

and an unchanged DDP or FSDP script trains over Reigen. PyTorch finds the backend by itself
where Reigen is installed; elsewhere (as with PYTHONPATH alone) this package has to be imported.
Also "cpu:reigen,cuda:nccl". In an elastic job in_place() says that the script makes a new group in
the same process when ranks are lost. docs/distributed.md tells what there is.
"""
from reigen import _backend

_reason = _backend.supported()
if _reason is not None:
    raise ImportError(_reason)
_backend.register()

from reigen.distributed._elastic import hosts_changed, in_place  # noqa: E402

__all__ = ['hosts_changed', 'in_place', 'is_registered']


def is_registered() -> bool:
    """True when torch.distributed knows the backend, as it does after this import."""
    import torch.distributed
    return hasattr(torch.distributed.Backend, 'REIGEN')
