# SPDX-License-Identifier: Apache-2.0
"""A sampler that shares out what is left of an epoch when the ranks change."""
import random
from typing import Any, Dict, Iterator, List, Sized

import torch

from horovod.torch.mpi_ops import rank, size


class ElasticSampler(torch.utils.data.Sampler):
    """This rank's part of a data set's indices, without those that have been used in this epoch.

    Put it into the TorchState, call record_batch() after each batch and set_epoch() at the *end* of
    each epoch: called at its beginning it would forget what has been used of a broken one.

    dataset: of the same length on all ranks. seed: equal on all ranks.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0):
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        #: Samples that all ranks together have used in this epoch.
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Go to this epoch: all samples are there again, in another order."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Every rank has used a batch of this size."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> Dict[str, Any]:
        return {'epoch': self.epoch, 'processed_num': self.processed_num}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        self.epoch = state_dict['epoch']
        self.processed_num = state_dict['processed_num']
        self.reset()

    def reset(self) -> None:
        """Share out what is left among the ranks that there are now."""
        self.num_replicas, self.rank = size(), rank()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices: List[int] = order[self.processed_num:]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        left = self.remaining_indices
        # All ranks get equally many: the first ones are used twice.
        filled = left + [left[i % len(left)] for i in range(self.total_size - len(left))]
        self.indices = filled[self.rank::self.num_replicas]
        return iter(self.indices)

    def __len__(self) -> int:
        return self.num_samples
