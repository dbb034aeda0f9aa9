# SPDX-License-Identifier: Apache-2.0
"""What TorchEstimator does on each rank: train() is called there with a Job."""
import copy
import inspect
import io
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from horovod.spark.common import running
from horovod.spark.common.reading import Reader

_TOLD_STEPS = 100


class Job(NamedTuple):
    """All that an estimator has been told. The model and its optimizer travel together, so that
    they have the same parameters on a rank."""
    model: Any
    optimizer: Any
    losses: List[Any]          # one for each label
    constructed: bool          # they are functions that make them
    loss_weights: List[float]
    metrics: List[List[Any]]   # each has a function for each label
    input_shapes: Optional[List[List[int]]]
    step: Optional[Callable]
    passes: int
    compression: Any
    run: running.Run
    returned: str              # where the state goes that the checkpoint has not


def inputs_of(arrays: Sequence[np.ndarray], shapes: Optional[Sequence[Sequence[int]]],
              device: Any) -> List[torch.Tensor]:
    """Feature columns as what the model takes."""
    tensors = [torch.from_numpy(np.array(array, np.float32)).to(device) for array in arrays]
    return tensors if shapes is None else \
        [tensor.reshape(tuple(shape)) for tensor, shape in zip(tensors, shapes)]


def listed(outputs: Any) -> List[Any]:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def tensors_of(job: Job, batch: Dict[str, np.ndarray],
               device: Any) -> Tuple[List[Any], List[Any], Any]:
    """Inputs, labels and weights (None: there are none) of a batch."""
    run = job.run
    run.check_numbers(batch)
    inputs = inputs_of([batch[name] for name in run.features], job.input_shapes, device)
    labels = [torch.from_numpy(array).to(device) for array in run.labels_of(batch, np.float32)]
    weights = inputs_of([batch[run.weight]], None, device)[0] if run.weight else None
    return inputs, labels, weights


class Loss:
    """The weighted sum of the labels' losses; with sample weights, of each row's by its weight."""

    def __init__(self, job: Job, known: Dict[str, Any], device: Any):
        losses = [self._made(one, known) if job.constructed else one for one in job.losses]
        self._losses = [one.to(device) if isinstance(one, torch.nn.Module) else one
                        for one in losses]
        self._weights = job.loss_weights

    @staticmethod
    def _made(constructor: Callable, known: Dict[str, Any]) -> Any:
        try:
            takes = inspect.signature(constructor).parameters
        except (TypeError, ValueError):
            return constructor()
        if any(one.kind is one.VAR_KEYWORD for one in takes.values()):
            return constructor(**known)
        return constructor(**{name: known[name] for name in takes if name in known})

    def __call__(self, outputs: Sequence[Any], labels: Sequence[Any], weights: Any = None) -> Any:
        total = 0.0
        for loss, part, output, label in zip(self._losses, self._weights, outputs, labels):
            if weights is None:
                total = total + part * loss(output, label)
            else:
                each = self._each(loss, output, label)
                total = total + part * (each.reshape(len(weights), -1).mean(1) * weights).mean()
        return total

    @staticmethod
    def _each(loss: Any, output: Any, label: Any) -> Any:
        if isinstance(loss, torch.nn.Module) and hasattr(loss, 'reduction'):
            loss = copy.copy(loss)
            loss.reduction = 'none'
            return loss(output, label)
        try:
            return loss(output, label, reduction='none')
        except TypeError as error:
            raise TypeError('sample_weight_col needs a loss of each row: the loss must take '
                            f'reduction=\'none\' ({error})') from error


def load(store: Any, path: str, device: Any = 'cpu') -> Dict[str, Any]:
    """What a file of tensors in the store holds."""
    return torch.load(io.BytesIO(store.read(path)), map_location=device, weights_only=True)


def transform_outputs(outputs: Any, labels: List[Any]) -> Tuple[List[Any], List[Any]]:
    """Outputs as a list, and labels in their shapes where they have as many elements."""
    outputs = listed(outputs)
    if len(outputs) < len(labels):
        raise ValueError(f'the model has {len(outputs)} outputs for {len(labels)} label_cols: one '
                         'for each')
    return outputs, [label.reshape(output.shape) if output.numel() == label.numel() else label
                     for output, label in zip(outputs, labels)]


class _Sums:
    """Means over all rows of all ranks: of the loss and of the metrics."""

    def __init__(self, job: Job):
        self._job = job
        self._sums = np.zeros(2 + len(job.metrics) * len(job.run.labels))

    def add(self, rows: int, loss: Any, outputs: Sequence[Any], labels: Sequence[Any]) -> None:
        with torch.no_grad():
            values = [1.0, float(loss.detach() if isinstance(loss, torch.Tensor) else loss)]
            for group in self._job.metrics:
                values += [float(one(output, label))
                           for one, output, label in zip(group, outputs, labels)]
        self._sums += np.array(values) * rows

    def means(self, hvd: Any) -> Dict[str, Any]:
        """On all ranks together."""
        rows, *sums = hvd.allreduce(torch.from_numpy(self._sums), op=hvd.Sum).tolist()
        loss, *values = [value / max(rows, 1) for value in sums]
        named = iter(values)
        return {'loss': loss, 'all_metrics': [
            {f'{getattr(one, "__name__", type(one).__name__)}_{label}': next(named)
             for one, label in zip(group, self._job.run.labels)} for group in self._job.metrics]}


def _step(passes: int) -> Callable:
    count = 0

    def train_minibatch(model: Any, optimizer: Any, outputs_of: Callable, loss_fn: Callable,
                        inputs: Any, labels: Any, sample_weights: Any) -> Tuple[Any, Any]:
        nonlocal count
        if count % passes == 0:
            optimizer.zero_grad()
        outputs, labels = outputs_of(model(*inputs), labels)
        loss = loss_fn(outputs, labels, sample_weights)
        loss.backward()
        count += 1
        if count % passes == 0:
            optimizer.step()
        return outputs, loss
    return train_minibatch


def device_of(hvd: Any, use_gpu: bool) -> torch.device:
    if not use_gpu or not torch.cuda.is_available():
        return torch.device('cpu')
    index = running.gpu(hvd, torch.cuda.device_count(), running.uuids(torch.cuda))
    torch.cuda.set_device(index)
    return torch.device('cuda', index)


def _scale(optimizer: Any, factor: float) -> None:
    for group in optimizer.param_groups:
        group['lr'] = group['lr'] * factor


class _Trainer:
    def __init__(self, job: Job, hvd: Any):
        self.job, self.hvd = job, hvd
        self.run = job.run
        self.device = device_of(hvd, self.run.use_gpu)
        if self.run.seed is not None:
            torch.manual_seed(self.run.seed + hvd.rank())
        self.model = job.model.to(self.device)
        job.optimizer.load_state_dict(job.optimizer.state_dict())  # its state to the device
        self.first, self.last, self.history = self._begin(job.optimizer)
        _scale(job.optimizer, hvd.size())
        more = {} if job.compression is None else {'compression': job.compression}
        self.optimizer = hvd.DistributedOptimizer(
            job.optimizer, named_parameters=self.model.named_parameters(),
            backward_passes_per_step=job.passes, **more)
        known = {'model': self.model, 'optimizer': self.optimizer, 'hvd': hvd, 'torch': torch,
                 'feature_columns': self.run.features, 'label_columns': self.run.labels}
        self.loss = Loss(job, known, self.device)
        self.step = job.step or _step(job.passes)
        self.sizes: List[int] = []

    def _begin(self, optimizer: Any) -> Tuple[int, int, List[Any]]:
        """From the run's checkpoint, if there is one: the first epoch, the end, what was."""
        store, run_id = self.run.store, self.run.run_id
        path = store.get_checkpoint_path(run_id)
        first, last, history = 0, self.run.epochs, []
        if self.hvd.rank() == 0 and path and store.exists(path):
            state = load(store, path, self.device)
            try:
                self.model.load_state_dict(state['model'])
                optimizer.load_state_dict(state['optimizer'])
            except (RuntimeError, ValueError) as error:
                raise self.run.other_model(path, error) from error
            history = state['history']
            first = len(history)
            last = self.run.end(first, state['last'])
        first, last, history = self.hvd.broadcast_object((first, last, history), root_rank=0)
        self.hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)
        self.hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        return first, last, history

    def tensors(self, batch: Dict[str, np.ndarray]) -> Tuple[List[Any], List[Any], Any]:
        return tensors_of(self.job, batch, self.device)

    def train(self, number: int, batches: Any) -> Dict[str, Any]:
        self.model.train()
        sums = _Sums(self.job)
        for count, batch in enumerate(batches, 1):
            inputs, labels, weights = self.tensors(batch)
            outputs, loss = self.step(self.model, self.optimizer, transform_outputs, self.loss,
                                      inputs, labels, weights)
            sums.add(len(inputs[0]), loss, *transform_outputs(outputs, labels))
            if self.run.verbose and not self.hvd.rank() and count % _TOLD_STEPS == 0:
                print(f'epoch {number} step {count}: loss {float(loss):.4g}')
        return sums.means(self.hvd)

    def evaluate(self, batches: Any) -> Dict[str, Any]:
        self.model.eval()
        sums = _Sums(self.job)
        with torch.no_grad():
            for count, batch in enumerate(batches):
                if count == self.run.val_steps:
                    break
                inputs, labels, weights = self.tensors(batch)
                outputs, labels = transform_outputs(self.model(*inputs), labels)
                sums.add(len(inputs[0]), self.loss(outputs, labels, weights), outputs, labels)
        return sums.means(self.hvd)

    def output_sizes(self, reader: Reader) -> List[int]:
        """Elements of each output for one row."""
        inputs, _, _ = self.tensors(next(reader.epoch(0)))
        self.model.eval()
        with torch.no_grad():
            return [output[:1].numel() for output in listed(self.model(*inputs))]

    def state(self) -> io.BytesIO:
        """Saved, with the learning rate of one rank."""
        buffer = io.BytesIO()
        _scale(self.optimizer, 1 / self.hvd.size())
        torch.save({'model': self.model.state_dict(), 'optimizer': self.optimizer.state_dict(),
                    'history': self.history, 'last': self.last}, buffer)
        _scale(self.optimizer, self.hvd.size())
        return buffer

    def save(self) -> None:
        store, run_id = self.run.store, self.run.run_id
        if self.hvd.rank() == 0 and store.saving_runs():
            store.write(store.get_checkpoint_path(run_id), self.state().getvalue())
            self.run.write_history(self.history)

    def fit(self) -> None:
        run = self.run
        train = run.reader(run.data.train, True, self.hvd)
        val = run.reader(run.data.val, False, self.hvd) if run.data.val else None
        epochs = train.batches(run.steps, self.first)
        for number in range(self.first, self.last):
            told = {'epoch': number, 'train': self.train(number, next(epochs))}
            if val is not None:
                told['validation'] = self.evaluate(val.epoch(0))
            self.history.append(told)
            if run.verbose and not self.hvd.rank():
                print(told)
            self.save()
        self.sizes = self.output_sizes(train)


def train(job: Job) -> Optional[Dict[str, Any]]:
    """On a rank. Rank 0 returns the history; the store has the states of model and optimizer."""
    import horovod.torch as hvd
    hvd.init()
    trainer = _Trainer(job, hvd)
    trainer.fit()
    result = None
    if hvd.rank() == 0:
        result = {'history': trainer.history, 'sizes': trainer.sizes}
        if not job.run.store.saving_runs():
            job.run.store.write(job.returned, trainer.state().getvalue())
    hvd.shutdown()
    return result
