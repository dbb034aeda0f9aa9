# SPDX-License-Identifier: Apache-2.0
"""Callbacks that a rank's Trainer gets beside the user's, and hooks of Lightning 1 that version 2
has no more. They stand before Lightning's class of callbacks: made() puts them there."""
from typing import Any, Dict, List

import torch


def made(lightning: Any, kind: type, *args: Any) -> Any:
    """A callback of that package of Lightning (see flavour.py)."""
    base = getattr(kind, 'BASE', 'Callback')
    return type(kind.__name__, (kind, getattr(lightning.callbacks, base)), {})(*args)


class TerminateOnNan:
    """What Lightning 1 did with terminate_on_nan."""

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any,
                           batch_idx: int) -> None:
        loss = outputs.get('loss') if isinstance(outputs, dict) else outputs
        values = [*([('loss', loss)] if isinstance(loss, torch.Tensor) else []),
                  *module.named_parameters()]
        for name, value in values:
            if not torch.isfinite(value).all():
                raise ValueError(f'terminate_on_nan: {name} is not finite after step '
                                 f'{trainer.global_step}')


def _call(things: List[Any], name: str, *args: Any) -> None:
    for one in things:
        if callable(getattr(one, name, None)):
            getattr(one, name)(*args)


class OldHooks:
    """Calls on_init_start, on_init_end, on_epoch_start and on_epoch_end of callbacks, and a
    module's training_epoch_end and validation_epoch_end, at which version 2 refuses to begin."""

    def __init__(self, module: Any, callbacks: List[Any]):
        self._callbacks = callbacks
        self._ends: Dict[str, Any] = {}
        self._outputs: Dict[str, List[Any]] = {}
        for stage in ('training', 'validation'):
            name = f'{stage}_epoch_end'
            if callable(getattr(module, name, None)):
                self._ends[stage] = getattr(module, name)
                setattr(module, name, None)  # of this object: its class has it still

    def _begin(self, stage: str, trainer: Any, module: Any) -> None:
        self._outputs[stage] = []
        _call(self._callbacks, 'on_epoch_start', trainer, module)

    def _note(self, stage: str, outputs: Any) -> None:
        if stage in self._ends and outputs is not None:
            self._outputs[stage].append(outputs)

    def _end(self, stage: str, trainer: Any, module: Any) -> None:
        if stage in self._ends:
            self._ends[stage](self._outputs.pop(stage, []))
        _call(self._callbacks, 'on_epoch_end', trainer, module)

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        _call(self._callbacks, 'on_init_start', trainer)
        _call(self._callbacks, 'on_init_end', trainer)

    def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
        self._begin('training', trainer, module)

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any,
                           batch_idx: int) -> None:
        self._note('training', outputs)

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        self._end('training', trainer, module)

    def on_validation_epoch_start(self, trainer: Any, module: Any) -> None:
        self._begin('validation', trainer, module)

    def on_validation_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any,
                                batch_idx: int, dataloader_idx: int = 0) -> None:
        self._note('validation', outputs)

    def on_validation_epoch_end(self, trainer: Any, module: Any) -> None:
        self._end('validation', trainer, module)


class Keeper:
    """Keeps the history, and the run's checkpoint in the store.

    A checkpoint is of whole epochs: it is written when the next one begins, and at the end, since
    Lightning calls schedulers of learning rates behind on_train_epoch_end. What Lightning counts
    is set back by the epoch that has begun."""
    BASE = 'Checkpoint'

    def __init__(self, run: Any, history: List[Dict[str, Any]], last: int, ranks: int):
        #: Before the resumed run had so many ranks; history: of its epochs, which is appended to.
        self._run, self.history, self._last, self._ranks = run, history, last, ranks
        self._first, self._saving = len(history), False

    def on_train_start(self, trainer: Any, module: Any) -> None:
        size = self._run.hvd.size()
        if self._first and self._ranks != size:
            trainer.strategy.scale(size / self._ranks)

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        mine = {name: float(value) for name, value in trainer.callback_metrics.items()
                if torch.as_tensor(value).numel() == 1}
        told: Dict[str, List[float]] = {}
        for rank in self._run.hvd.allgather_object(mine):
            for name, value in rank.items():
                told.setdefault(name, []).append(value)
        self.history.append({'epoch': len(self.history), **{
            name: sum(values) / len(values) for name, values in told.items()}})
        self._run.tell(self.history[-1])

    def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
        if len(self.history) > self._first:
            self._save(trainer)

    def on_train_end(self, trainer: Any, module: Any) -> None:
        if len(self.history) < self._last:  # somebody has stopped it: it is at its end
            self._last = len(self.history)
        self._save(trainer)

    def _save(self, trainer: Any) -> None:
        self._saving = True
        self._run.save(trainer)
        self._saving = False

    def on_save_checkpoint(self, trainer: Any, module: Any, checkpoint: Dict[str, Any]) -> None:
        if self._saving:
            checkpoint['horovod'] = {'history': self.history, 'last': self._last,
                                     'size': self._run.hvd.size()}
            for part in checkpoint['loops']['fit_loop']['epoch_progress'].values():
                part.update(dict.fromkeys(('ready', 'started', 'processed'), part['completed']))
