# SPDX-License-Identifier: Apache-2.0
"""The allreduce of sparse tensors, as gradients of embeddings are: all ranks' entries, added up.

The runtime's operations are on dense memory. So the ranks tell each other how many entries they
have, gather them, filled up to the longest, and each adds them in the same order: all get the same
bits. The caller waits for it, also where it asked for a handle.
"""
from typing import Any

import torch


@torch.no_grad()
def allreduce(group: Any, tensor: torch.Tensor, average: bool) -> None:
    """tensor becomes the sum or average of all ranks' tensors. group: its Collectives."""
    own = tensor.coalesce()
    indices, values = own.indices(), own.values()
    shape = torch.tensor([*own.shape, own.sparse_dim(), indices.shape[1]])
    ndim = torch.tensor([shape.numel()])
    kinds = _gather(group, ndim)
    if bool((kinds != ndim).any()):
        raise ValueError('all_reduce: the sparse tensors of the ranks differ in their dimensions: '
                         f'{(kinds.flatten() - 2).tolist()}')
    shapes = _gather(group, shape)
    if bool((shapes[:, :-1] != shape[:-1]).any()):
        raise ValueError('all_reduce: the sparse tensors of the ranks differ in shape or in their '
                         f'sparse dimensions: {shapes[:, :-1].tolist()}')
    counts = shapes[:, -1].tolist()
    longest = max(counts)
    if longest:
        all_indices = _gather(group, _fill(indices.t().contiguous(), longest))
        all_values = _gather(group, _fill(values.contiguous(), longest))
        indices = torch.cat([all_indices[i, :n] for i, n in enumerate(counts)]).t()
        values = torch.cat([all_values[i, :n] for i, n in enumerate(counts)])
        own = torch.sparse_coo_tensor(indices, values, own.shape, is_coalesced=False).coalesce()
        if average:
            own = own / len(counts)
    tensor.copy_(own)


def _fill(rows: torch.Tensor, count: int) -> torch.Tensor:
    filled = rows.new_zeros((count, *rows.shape[1:]))
    filled[:rows.shape[0]] = rows
    return filled


def _gather(group: Any, own: torch.Tensor) -> torch.Tensor:
    rows = own.new_empty((group._engine.size, *own.shape))
    group.all_gather_single(rows, own).wait()
    return rows
