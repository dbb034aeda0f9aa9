# SPDX-License-Identifier: Apache-2.0
"""A callback that says to the notebook how a training goes: also for Keras 3 on other backends."""
from typing import Any, Mapping, Optional

try:
    from tensorflow.keras.callbacks import Callback
except ImportError:
    from keras.callbacks import Callback

from sparkdl.horovod import log_to_driver


def _text(value: Any) -> str:
    try:
        return f'{float(value):.6g}'
    except (TypeError, ValueError):  # a metric has a number for each class
        return str(value)


def _numbers(logs: Optional[Mapping[str, Any]]) -> str:
    return ''.join(f', {name}: {_text(value)}' for name, value in (logs or {}).items())


class LogCallback(Callback):
    """Says the numbers of each epoch, and with per_batch_log those of each batch."""

    def __init__(self, per_batch_log: bool = False):
        super().__init__()
        self.per_batch_log = per_batch_log
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Optional[Mapping[str, Any]] = None) -> None:
        self._epoch = epoch
        log_to_driver(f'epoch {epoch} begins')

    def on_train_batch_end(self, batch: int, logs: Optional[Mapping[str, Any]] = None) -> None:
        if self.per_batch_log:
            log_to_driver(f'epoch {self._epoch}, batch {batch}{_numbers(logs)}')

    def on_epoch_end(self, epoch: int, logs: Optional[Mapping[str, Any]] = None) -> None:
        log_to_driver(f'epoch {epoch}{_numbers(logs)}')
