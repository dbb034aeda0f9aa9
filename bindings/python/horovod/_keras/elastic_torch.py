# SPDX-License-Identifier: Apache-2.0
"""Elastic state of Keras models on PyTorch."""
from typing import Any

import numpy as np
import torch

import horovod.torch as hvd
from horovod._keras import on_torch
from horovod._keras.callbacks import optimizer_variables
from horovod.common.elastic import ObjectState, run_fn


def run(func):
    """Decorator: run func(state, ...) again from the last commit when ranks fail or change."""
    return run_fn(func, _reset)


def _reset() -> None:
    hvd.shutdown()
    hvd.init()


class KerasState(ObjectState):
    """A Keras model, its optimizer, and any objects given by keyword."""

    def __init__(self, model: Any, optimizer: Any = None, **kwargs):
        if not model.built:
            raise ValueError('Model must be built first. Run `model.build(input_shape)`.')
        self.model = model
        self.optimizer = optimizer or model.optimizer
        super().__init__(bcast_object=hvd.broadcast_object, get_rank=hvd.rank, **kwargs)
        self._saved: Any = None
        self._save_model()

    def _variables(self) -> list:
        return [*self.model.weights,
                *(optimizer_variables(self.optimizer) if self.optimizer is not None else ())]

    def _save_model(self) -> None:
        self._saved = [np.array(v.value.detach().cpu()) for v in self._variables()]

    def save(self) -> None:
        self._save_model()
        super().save()

    @torch.no_grad()
    def restore(self) -> None:
        found = self._variables()
        for i, variable in enumerate(found):
            # One made since the last commit, when the optimizer had not run yet, starts anew.
            saved = self._saved[i] if i < len(self._saved) else np.zeros(variable.shape)
            variable.assign(saved)
        super().restore()

    def sync(self) -> None:
        """Give every rank the state of rank 0."""
        count = hvd.broadcast_object(len(self._variables()))
        if len(self._variables()) < count and not self.optimizer.built:
            self.optimizer.build(self.model.trainable_variables)
        on_torch.broadcast_now(None, self._variables()[:count], 0)
        super().sync()
        self._save_model()
