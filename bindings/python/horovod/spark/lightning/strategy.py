# SPDX-License-Identifier: Apache-2.0
"""A strategy of Lightning 2 in which the ranks are Horovod's: gradients are averaged by
hvd.DistributedOptimizer, while backward() runs where a core is idle. Lightning had one until its
version 2.

A pass that only accumulates gradients is blocked by Lightning (block_backward_sync), and they are
averaged behind the last one, before Lightning clips them and calls the optimizer.
"""
import contextlib
import re
from typing import Any, Callable, Iterator, List, Optional

import torch

from horovod.spark.lightning import flavour

#: What the optimizer is told where not each pass ends in a step: its hooks send nothing, and
#: post_backward() sends all.
_MANY = 1 << 30
_RATES = ('lr', 'initial_lr', 'max_lr', 'min_lr')  # of a parameter group
_LISTS = ('base_lrs', 'max_lrs', '_last_lr')       # of a scheduler


def _schedulers(scheduler: Any) -> Iterator[Any]:
    """It, and those that it is made of."""
    yield scheduler
    for one in getattr(scheduler, '_schedulers', []):
        yield from _schedulers(one)


def _synchronized(module: torch.nn.Module, kind: type) -> None:
    """Puts Horovod's layers, with the same parameters, in the place of its batch norms."""
    for name, child in module.named_children():
        if isinstance(child, torch.nn.modules.batchnorm._BatchNorm) and not isinstance(child, kind):
            made = kind(child.num_features, child.eps, child.momentum, child.affine,
                        child.track_running_stats)
            made._parameters, made._buffers = child._parameters, child._buffers
            setattr(module, name, made.train(child.training))
        else:
            _synchronized(child, kind)


class _Strategy:
    """What stands before Lightning's ParallelStrategy; made by strategy()."""
    strategy_name = 'horovod'
    #: Lightning gives ordinary data loaders a sampler for each rank then, unless told.
    is_distributed = True

    def __init__(self, hvd: Any, compression: Any, **more: Any):
        super().__init__(**more)
        self._hvd, self._compression, self._blocked = hvd, compression, False

    @property
    def root_device(self) -> torch.device:
        return self.parallel_devices[0]

    @property
    def distributed_sampler_kwargs(self) -> dict:
        return {'num_replicas': self._hvd.size(), 'rank': self._hvd.rank()}

    def model_to_device(self) -> None:
        self.model.to(self.root_device)

    # ------------------------------------------------------------------ begin and end

    def setup(self, trainer: Any) -> None:
        if self._layer_sync is not None:
            _synchronized(self.lightning_module, self._hvd.SyncBatchNorm)
        super().setup(trainer)
        self._hvd.broadcast_parameters(self.lightning_module.state_dict(), root_rank=0)
        self._share_metrics()
        self.scale(self._hvd.size())
        each = trainer.accumulate_grad_batches == 1 and \
            self.lightning_module.automatic_optimization and not any(
                hasattr(one, 'going_to_accumulate_grad_batches') for one in trainer.callbacks)
        self.optimizers = [self._distributed(one, 1 if each else _MANY) for one in self.optimizers]

    def _distributed(self, optimizer: Any, passes: int) -> Any:
        mine = {id(param) for group in optimizer.param_groups for param in group['params']}
        if not mine:
            return optimizer
        more = {} if self._compression is None else {'compression': self._compression}
        return self._hvd.DistributedOptimizer(
            optimizer, named_parameters=[
                (name, param) for name, param in self.lightning_module.named_parameters()
                if id(param) in mine], backward_passes_per_step=passes, **more)

    def _share_metrics(self) -> None:
        """Those of torchmetrics look for a group of torch.distributed, unless told."""
        for module in self.lightning_module.modules():
            if hasattr(module, 'distributed_available_fn') and hasattr(module, 'dist_sync_fn'):
                module.distributed_available_fn = self._hvd.is_initialized
                module.dist_sync_fn = module.dist_sync_fn or (
                    lambda tensor, group=None: self._hvd.allgather_object(tensor))

    def scale(self, factor: float) -> None:
        """The learning rates, also those that schedulers go by: they are of one rank at first."""
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group.update({name: group[name] * factor for name in _RATES if name in group})
        for config in self.lr_scheduler_configs:
            for scheduler in _schedulers(config.scheduler):
                for name in _LISTS:
                    if hasattr(scheduler, name):
                        setattr(scheduler, name, [one * factor for one in getattr(scheduler, name)])

    def load_checkpoint(self, checkpoint_path: Any, weights_only: Optional[bool] = None) -> dict:
        return torch.load(checkpoint_path, map_location='cpu', weights_only=False)

    # ------------------------------------------------------------------ steps

    @contextlib.contextmanager
    def block_backward_sync(self) -> Iterator[None]:
        before, self._blocked = self._blocked, True
        try:
            yield
        finally:
            self._blocked = before

    def post_backward(self, closure_loss: Any) -> None:
        if self._blocked:
            return
        for optimizer in self.optimizers:
            trained = any(param.requires_grad for group in optimizer.param_groups
                          for param in group['params'])
            if trained:  # equally on all ranks; Lightning freezes those of other optimizers
                optimizer.synchronize()

    def optimizer_step(self, optimizer: Any, closure: Callable, model: Any = None,
                       **kwargs: Any) -> Any:
        skipping = getattr(optimizer, 'skip_synchronize', contextlib.nullcontext)
        with skipping():  # post_backward() has done it
            return super().optimizer_step(optimizer, closure, model, **kwargs)

    # ------------------------------------------------------------------ collectives

    def reduce(self, tensor: Any, group: Any = None, reduce_op: Any = 'mean') -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        hvd = self._hvd
        found = re.search(r'avg|mean|average|max|min|product', str(reduce_op).lower())
        op = {'max': hvd.Max, 'min': hvd.Min, 'product': hvd.Product}.get(
            found.group(), hvd.Average) if found else hvd.Sum
        if op == hvd.Average and not tensor.is_floating_point():
            tensor = tensor.float()
        return hvd.allreduce(tensor, op=op)

    def all_gather(self, tensor: Any, group: Any = None, sync_grads: bool = False) -> Any:
        with contextlib.nullcontext() if sync_grads else torch.no_grad():
            return self._hvd.allgather(tensor.unsqueeze(0))

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        return self._hvd.broadcast_object(obj, root_rank=src)

    def barrier(self, name: Optional[str] = None) -> None:
        self._hvd.barrier()


class _Environment:
    """What stands before Lightning's LightningEnvironment: ranks are there, whatever scheduler has
    put variables into their environment, which stay."""

    def __init__(self, hvd: Any):
        super().__init__()
        self._hvd = hvd

    @property
    def creates_processes_externally(self) -> bool:
        return True

    def world_size(self) -> int:
        return self._hvd.size()

    def global_rank(self) -> int:
        return self._hvd.rank()

    def local_rank(self) -> int:
        return self._hvd.local_rank()

    def node_rank(self) -> int:
        return self._hvd.cross_rank()

    def teardown(self) -> None:
        pass


def strategy(lightning: Any, hvd: Any, device: torch.device, compression: Any = None) -> Any:
    """For Trainer(strategy=...) of that package (see flavour.py), on this rank's device. hvd:
    horovod.torch, after hvd.init(). compression: hvd.Compression.fp16, ... of gradients."""
    lightning.utilities.rank_zero.rank_zero_only.rank = hvd.rank()
    bases: List[type] = [_Environment, flavour.environments(lightning).LightningEnvironment]
    environment = type('HorovodEnvironment', tuple(bases), {})(hvd)
    bases = [_Strategy, lightning.strategies.ParallelStrategy]
    made = type('HorovodStrategy', tuple(bases), {})
    return made(hvd, compression, parallel_devices=[device], cluster_environment=environment)
