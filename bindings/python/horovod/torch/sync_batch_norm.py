# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks.

Each rank contributes per channel its count, sum and sum of squares to one allreduce, and in
backward the two sums that the gradient of the normalisation needs to another.
"""
from typing import Any, Optional

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch.mpi_ops import Sum, allreduce_async, synchronize


def _per_channel(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return values.view(1, -1, *[1] * (like.dim() - 2)).to(like.dtype)


def _widened(values: torch.Tensor) -> torch.Tensor:
    """In a type that holds sums: float32 where it was shorter."""
    return values.float() if values.element_size() < 4 else values


def _sum_over_ranks(values: torch.Tensor, name: str, process_set: ProcessSet) -> torch.Tensor:
    return synchronize(allreduce_async(values.contiguous(), name=name, op=Sum,
                                       process_set=process_set))


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm1d to 3d, with mean and variance of the whole batch of all ranks.

    process_set: of the ranks of this set, which are all that may train this layer.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: Optional[float] = 0.1,
                 affine: bool = True, track_running_stats: bool = True,
                 process_set: ProcessSet = global_process_set, **kwargs: Any):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, **kwargs)
        self.process_set = process_set

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f'expected at least 2D input (got {input.dim()}D input)')

    def forward(self, input):
        self._check_input_dim(input)
        if not self.training and self.track_running_stats:
            return torch.nn.functional.batch_norm(input, self.running_mean, self.running_var,
                                                  self.weight, self.bias, False, 0.0, self.eps)
        return self._over_all_ranks(input)

    @torch.jit.unused
    def _over_all_ranks(self, input: torch.Tensor) -> torch.Tensor:
        if self.process_set.size() == 1:
            return super().forward(input)
        output, mean, variance, count = _Normalize.apply(input, self.weight, self.bias, self.eps,
                                                         self.process_set)
        if self.track_running_stats:
            self._track(mean, variance, count)
        return output

    @torch.no_grad()
    def _track(self, mean, variance, count):
        self.num_batches_tracked += 1
        momentum = self.momentum
        if momentum is None:
            momentum = 1.0 / float(self.num_batches_tracked)
        unbiased = variance * (count / (count - 1).clamp(min=1))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum)


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, weight, bias, eps, process_set):
        ctx.process_set = process_set
        axes = [0, *range(2, input.dim())]
        wide = input.to(torch.float64)
        count = torch.tensor([input.numel() // input.shape[1]], dtype=torch.float64,
                             device=input.device)
        sums = torch.cat([wide.sum(axes), (wide * wide).sum(axes), count])
        sums = _sum_over_ranks(sums, 'sync_batch_norm.forward', process_set)
        channels = input.shape[1]
        total = sums[-1].clamp(min=1)
        mean = sums[:channels] / total
        variance = (sums[channels:-1] / total - mean * mean).clamp(min=0)
        inverse = (variance + eps).rsqrt()
        ctx.save_for_backward(input, weight, mean, inverse, total)
        values = _widened(input)
        normal = (values - _per_channel(mean, values)) * _per_channel(inverse, values)
        if weight is not None:
            normal = normal * _per_channel(weight, values) + _per_channel(bias, values)
        ctx.mark_non_differentiable(mean, variance, total)
        return normal.to(input.dtype), mean, variance, total

    @staticmethod
    def backward(ctx, grad, *_):
        input, weight, mean, inverse, total = ctx.saved_tensors
        dtype, input, grad = input.dtype, _widened(input), _widened(grad)
        axes = [0, *range(2, input.dim())]
        normal = (input - _per_channel(mean, input)) * _per_channel(inverse, input)
        grad_bias = grad.sum(axes)
        grad_weight = (grad * normal).sum(axes)
        sums = torch.cat([grad_bias, grad_weight]).to(torch.float64)
        sums = _sum_over_ranks(sums, 'sync_batch_norm.backward', ctx.process_set) / total
        mean_grad, mean_product = sums[:input.shape[1]], sums[input.shape[1]:]
        centred = grad - _per_channel(mean_grad, grad) - normal * _per_channel(mean_product, grad)
        scale = inverse if weight is None else inverse * weight
        grad_input = (centred * _per_channel(scale, grad)).to(dtype)
        if weight is None:
            return grad_input, None, None, None, None
        return grad_input, grad_weight, grad_bias, None, None
