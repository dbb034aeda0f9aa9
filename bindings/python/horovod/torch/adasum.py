# SPDX-License-Identifier: Apache-2.0
"""The delta optimizer: what DistributedOptimizer(op=Adasum) gives.

Adasum combines how far each rank wants to go rather than its gradients, so that an optimizer with a
state of its own (momentum, Adam) keeps its meaning: step() lets the user's optimizer step on this
rank's gradients, takes the difference to where the parameters were, combines the differences of all
ranks, each parameter's with a dot product of its own, and goes there from where they were.
"""
import contextlib
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch

from horovod.common.process_sets import ProcessSet
from horovod.torch.mpi_ops import Adasum, grouped_allreduce_

_NO_SKIP = 'Skipping synchronization is not supported when using Adasum optimizer.'


class DistributedAdasumOptimizer(torch.optim.Optimizer):
    """What is put before the user's optimizer class; made by DistributedOptimizer(op=Adasum)."""

    def _hvd_setup(self, names: Dict[int, str], compression: Any, passes: int,
                   process_set: ProcessSet) -> None:
        self._compression = compression
        self.backward_passes_per_step = passes
        self.process_set = process_set
        params = [p for group in self.param_groups for p in group['params'] if p.requires_grad]
        self._named: List[Tuple[str, torch.Tensor]] = [(names[id(p)], p) for p in params]
        #: Where the parameters were before the last step.
        self._starting_models = [torch.empty_like(p, requires_grad=False) for p in params]

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Said by scripts; gradients are summed until step() is called, however often that is."""
        self.backward_passes_per_step = passes

    def synchronize(self) -> None:
        """Nothing: the differences do not exist before step()."""

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Refused with an AssertionError, as in Horovod: step() is what synchronizes."""
        raise AssertionError(_NO_SKIP)
        yield  # what makes this a context manager

    def step(self, closure=None) -> Optional[Any]:
        """The user's step on this rank, then the combination of all ranks' steps."""
        if not self._named or not self.process_set.included() or self.process_set.size() == 1:
            return super().step() if closure is None else super().step(closure)
        with torch.no_grad():
            for start, (_, param) in zip(self._starting_models, self._named):
                start.copy_(param)
        loss = super().step() if closure is None else super().step(closure)
        with torch.no_grad():
            self._combine()
        return loss

    # As in optimizer.py: the step that torch's hooks belong to is the user's one.
    step.hooked = True

    def _combine(self) -> None:
        params = [param for _, param in self._named]
        pairs = [self._compression.compress(param - start)
                 for start, param in zip(self._starting_models, params)]
        deltas = grouped_allreduce_([delta for delta, _ in pairs], op=Adasum,
                                    name=f'adasum.{self._named[0][0]}',
                                    process_set=self.process_set)
        for delta, (_, ctx), start, param in zip(deltas, pairs, self._starting_models, params):
            torch.add(start, self._compression.decompress(delta, ctx), out=param)
