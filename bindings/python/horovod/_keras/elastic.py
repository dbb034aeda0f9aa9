# SPDX-License-Identifier: Apache-2.0
"""The elastic callbacks of Keras, without Keras's base class."""
from typing import Any


class CommitStateCallbackImpl:
    """Commits the state every batches_per_commit batches, and after each epoch."""

    def __init__(self, backend: Any, state: Any, batches_per_commit: int, *args):
        super().__init__(*args)
        self.backend = backend
        self.state = state
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs=None):
        # Whatever was counted before a reset is void.
        self.batches_remaining = self.batches_per_commit

    def on_batch_end(self, batch, logs=None):
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self.commit()
            self.batches_remaining = self.batches_per_commit

    def on_epoch_end(self, epoch, logs=None):
        self.commit()

    def commit(self):
        self.state.commit()


class UpdateBatchStateCallbackImpl:
    """Keeps state.batch; an epoch that was interrupted goes on with the batches that it lacks."""

    def __init__(self, backend: Any, state: Any, *args):
        super().__init__(*args)
        self.backend = backend
        self.state = state
        self.steps_per_epoch = None

    def on_train_begin(self, logs=None):
        self.steps_per_epoch = None

    def on_epoch_begin(self, epoch, logs=None):
        if self.params.get('steps'):
            if self.steps_per_epoch is None:
                self.steps_per_epoch = self.params['steps']
            self.params['steps'] = self.steps_per_epoch - self.state.batch

    def on_batch_end(self, batch, logs=None):
        self.state.batch = batch

    def on_epoch_end(self, epoch, logs=None):
        self.state.batch = 0


class UpdateEpochStateCallbackImpl:
    """Keeps state.epoch: the number of epochs done, over all calls of fit()."""

    def __init__(self, backend: Any, state: Any, *args):
        super().__init__(*args)
        self.backend = backend
        self.state = state
        self.initial_epoch = self.state.epoch

    def on_train_begin(self, logs=None):
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch, logs=None):
        self.state.epoch = self.initial_epoch + epoch + 1
