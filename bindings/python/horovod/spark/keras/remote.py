# SPDX-License-Identifier: Apache-2.0
"""What KerasEstimator does on each rank: train() is called there with a Job.

    PREFIX/runs/RUN_ID/state.npz      weights and optimizer after the last epoch, and the history
    PREFIX/runs/RUN_ID/checkpoint.h5  the model, as Keras writes it: by checkpoint_callback, or at
                                      the end
"""
import contextlib
import importlib
import io
import json
import logging
import os
import tempfile
import warnings
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from horovod._keras.callbacks import LearningRateScheduleCallbackImpl, optimizer_variables
from horovod.spark.common import running
from horovod.spark.common.reading import Batch, Reader
from horovod.spark.keras import devices, packing


class Parts(NamedTuple):
    """What an estimator has been told that only Keras understands."""
    model: Any
    optimizer: Any
    loss: Any
    loss_weights: Optional[List[float]]
    metrics: Any
    compression: Any
    callbacks: List[Any]
    checkpoint: Any  # the callback
    slots: List[np.ndarray]  # the optimizer's variables, if it has any yet


class Job(NamedTuple):
    """All that an estimator has been told."""
    run: running.Run
    package: str  # see packing
    floatx: str
    parts: bytes  # packed
    returned: str  # the path of the state for this program, where the store keeps no runs


class State(NamedTuple):
    """Of a run after an epoch. returned: the weights of fit()'s model, where a checkpoint callback
    has taken others than the last ones. rate: see rate_of(); Keras 2 has it beside the slots."""
    weights: List[np.ndarray]
    slots: List[np.ndarray]
    returned: List[np.ndarray]
    history: Dict[str, List[Any]]  # a number of each epoch, or a list of them
    done: int
    last: int
    rate: Optional[float] = None

    def dumps(self) -> bytes:
        """Without pickle: it may come from anywhere."""
        buffer = io.BytesIO()
        arrays = {f'{name}{number}': array for name in ('weights', 'slots', 'returned')
                  for number, array in enumerate(getattr(self, name))}
        about = json.dumps([self.history, self.done, self.last, self.rate])
        np.savez(buffer, about=np.frombuffer(about.encode(), np.uint8), **arrays)
        return buffer.getvalue()

    @classmethod
    def loads(cls, data: bytes) -> 'State':
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            def listed(name: str) -> List[np.ndarray]:
                count = sum(one.startswith(name) for one in file.files)
                return [file[f'{name}{number}'] for number in range(count)]
            return cls(listed('weights'), listed('slots'), listed('returned'),
                       *json.loads(file['about'].tobytes()))


def state_path(store: Any, run_id: str) -> str:
    return f'{store.get_run_path(run_id)}/state.npz'


def _array(variable: Any) -> np.ndarray:
    found = np.asarray(variable.numpy())
    # numpy's files do not know the short floats of accelerators.
    return found.astype(np.float32) if found.dtype.kind == 'V' or found.dtype.name == 'bfloat16' \
        else found


def _is_built(optimizer: Any) -> bool:
    """Whether an optimizer has variables for those of a model."""
    for name in ('built', '_built'):  # of Keras 3, and 2
        if hasattr(optimizer, name):
            return bool(getattr(optimizer, name))
    return len(optimizer_variables(optimizer)) > 1  # an old one, which counts its steps anyway


def slots_of(optimizer: Any) -> List[np.ndarray]:
    """The values of an optimizer's variables; [] before it has any."""
    if isinstance(optimizer, str) or not _is_built(optimizer):
        return []
    return [_array(one) for one in optimizer_variables(optimizer)]


def set_slots(model: Any, slots: Sequence[np.ndarray]) -> None:
    """Give the optimizer of a compiled model its variables. ValueError when they are others'."""
    optimizer = model.optimizer
    if not _is_built(optimizer):
        make = getattr(optimizer, 'build', None) or optimizer._create_all_weights
        make(model.trainable_variables)
    variables = optimizer_variables(optimizer)
    if [tuple(one.shape) for one in variables] != [one.shape for one in slots]:
        raise ValueError(f'the optimizer has {len(variables)} variables, not {len(slots)} of the '
                         'same shapes')
    for variable, slot in zip(variables, slots):
        variable.assign(slot)


def rate_of(keras: Any, optimizer: Any) -> Optional[float]:
    """The learning rate; None of a schedule, which only a new optimizer can change."""
    optimizer = getattr(optimizer, 'inner_optimizer', optimizer)
    rate = optimizer.learning_rate  # of old optimizers a schedule, of others its present value
    if any(isinstance(one, keras.optimizers.schedules.LearningRateSchedule)
           for one in (rate, getattr(optimizer, '_learning_rate', None))):
        return None
    return float(rate.numpy() if hasattr(rate, 'numpy') else rate)


def set_rate(optimizer: Any, rate: float) -> None:
    getattr(optimizer, 'inner_optimizer', optimizer).learning_rate = rate


def _fitting(array: np.ndarray, shape: Sequence[Optional[int]], what: str) -> np.ndarray:
    """A column in the shape that a model takes, whose first dimension is the batch's."""
    rows = len(array)
    wanted = [rows, *(-1 if one is None else one for one in shape[1:])]
    if wanted.count(-1) > 1:
        return array
    try:
        return array.reshape(wanted)
    except ValueError as error:
        raise ValueError(f'{what} has {array.size // rows} numbers in each row, and the model '
                         f'takes {tuple(shape[1:])}') from error


def _plain(value: Any) -> Any:
    """What a metric says, for a history: a number, or a list where it has one for each class."""
    return np.asarray(value, np.float64).tolist()


def _in_columns(array: np.ndarray) -> np.ndarray:
    return array[:, None] if array.ndim == 1 else array


def inputs_of(model: Any, arrays: Sequence[np.ndarray], names: Sequence[str], floatx: str) -> Any:
    """Feature columns as what the model takes: an array, or a tuple of them."""
    taken = getattr(model, 'inputs', None) or [None] * len(arrays)
    found = []
    for one, array, name in zip(taken, arrays, names):
        kind = floatx if one is None else getattr(one.dtype, 'name', one.dtype)
        array = _in_columns(np.array(array, kind))
        found.append(array if one is None else _fitting(array, one.shape, f'column {name!r}'))
    return tuple(found) if len(found) > 1 else found[0]


def outputs_of(outputs: Any) -> List[np.ndarray]:
    """What predict_on_batch() returns, as a list."""
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    return [np.asarray(one) for one in outputs] if isinstance(outputs, (list, tuple)) \
        else [np.asarray(outputs)]


@contextlib.contextmanager
def _folder(run: running.Run) -> Iterator[str]:
    """A folder of this host for what Keras writes during a run."""
    with run.store.get_local_output_dir_fn(run.run_id)() if run.store.saving_runs() else \
            tempfile.TemporaryDirectory(prefix='reigen-run-') as folder:
        yield folder


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without Keras's advice to take another format than HDF5."""
    logger = logging.getLogger('absl')
    before, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            yield
    finally:
        logger.disabled = before


def _better(callback: Any) -> Optional[Callable[[Sequence[float]], float]]:
    """max or min, by what a ModelCheckpoint takes for the best; None: Keras finds it out later."""
    operator = getattr(callback, 'monitor_op', None)  # all that Keras 2 has
    mode = getattr(callback, 'mode', 'auto')
    if operator is not None:
        return max if operator(1.0, 0.0) else min
    if mode == 'max' or 'acc' in callback.monitor:
        return max
    return min if mode == 'min' or callback.monitor.endswith('loss') else None


def _ending(keras: Any, hvd: Any, others: Sequence[Any]) -> Any:
    """The last callback: when one rank's wants to end the training, all ranks do so after the same
    epoch. By itself it would leave the others in a step that needs all ranks."""
    class Ending(keras.callbacks.Callback):
        wanted = False

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if self.model.stop_training:
                self.wanted, self.model.stop_training = True, False
                for one in others:
                    if isinstance(one, keras.callbacks.TerminateOnNaN):  # it has said so
                        one.on_train_batch_end = lambda batch, logs=None: None

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            told = hvd.allgather_object(self.wanted or bool(self.model.stop_training))
            self.model.stop_training = any(told)
            if self.model.stop_training and hvd.rank() == 0:
                print(f'ended after epoch {epoch + 1}, as a callback wanted on rank '
                      f'{", ".join(str(rank) for rank, one in enumerate(told) if one)}', flush=True)
    return Ending()


class _Trainer:
    def __init__(self, job: Job, keras: Any, hvd: Any):
        self.job, self.run, self.keras, self.hvd = job, job.run, keras, hvd
        self.first_rank = hvd.rank() == 0
        keras.backend.set_floatx(job.floatx)
        if self.run.seed is not None:
            keras.utils.set_random_seed(self.run.seed + hvd.rank())
        self.parts: Parts = packing.loads(job.parts)
        self.model = self.parts.model
        self.train = self.run.reader(self.run.data.train, True, hvd)
        if not self.model.built:
            self.model(self._inputs(next(self.train.epoch(0))))
        rate = self._compile()
        self.history: Dict[str, List[Any]] = {}
        self.first, self.last = self._begin(rate)

    def _compile(self) -> Optional[float]:
        """With an optimizer that reduces. Returns the learning rate of one rank."""
        parts = self.parts
        optimizer = self.keras.optimizers.get(parts.optimizer)
        rate = rate_of(self.keras, optimizer)
        more = {} if parts.compression is None else {'compression': parts.compression}
        self.model.compile(optimizer=self.hvd.DistributedOptimizer(optimizer, **more),
                           loss=parts.loss, loss_weights=parts.loss_weights,
                           metrics=parts.metrics)
        return rate

    def _begin(self, rate: Optional[float]) -> Tuple[int, int]:
        """From the run's state, if there is one: the first epoch, and the end."""
        store, run_id = self.run.store, self.run.run_id
        path = state_path(store, run_id)
        data = None
        if self.first_rank and store.saving_runs() and store.exists(path):
            data = store.read(path)
        data = self.hvd.broadcast_object(data, root_rank=0)
        first, last, slots = 0, self.run.epochs, self.parts.slots
        if data is not None:
            state = State.loads(data)
            slots, self.history, first = state.slots, state.history, state.done
            last = self.run.end(first, state.last)
        try:
            if data is not None:
                self.model.set_weights(state.weights)
            if slots:
                set_slots(self.model, slots)
        except ValueError as error:
            raise self.run.other_model(path, error) from error
        for one in self.parts.callbacks:
            if isinstance(one, LearningRateScheduleCallbackImpl) and rate is not None:
                one.initial_lr = rate * self.hvd.size()
        if rate is not None:
            was = None if data is None else state.rate
            set_rate(self.model.optimizer, self.hvd.size() * (
                rate_of(self.keras, self.model.optimizer) if was is None else was))
        return first, last

    # ------------------------------------------------------------------ rows

    def _inputs(self, batch: Batch) -> Any:
        self.run.check_numbers(batch)
        names = self.run.features
        return inputs_of(self.model, [batch[name] for name in names], names, self.job.floatx)

    def _sample(self, batch: Batch) -> Tuple[Any, ...]:
        """What Keras takes of a batch: inputs, labels and the rows' weights."""
        run, inputs = self.run, self._inputs(batch)
        labels = [_in_columns(one) for one in run.labels_of(batch, self.job.floatx)]
        if not run.label_shapes:
            outputs = getattr(self.model, 'outputs', None) or ()
            labels = [self._label(one, label) for one, label in zip(outputs, labels)] or labels
        packed = tuple(labels) if len(labels) > 1 else labels[0]
        if not run.weight:
            return inputs, packed
        weights = np.array(batch[run.weight], self.job.floatx).reshape(-1)
        return inputs, packed, (weights,) * len(labels) if len(labels) > 1 else weights

    @staticmethod
    def _label(output: Any, label: np.ndarray) -> np.ndarray:
        """In the output's shape where it has as many numbers."""
        shape = tuple(output.shape)[1:]
        same = None not in shape and int(np.prod(shape)) * len(label) == label.size
        return label.reshape(len(label), *shape) if same else label

    def _samples(self, epochs: Iterator[Any]) -> Iterator[Tuple[Any, ...]]:
        for batches in epochs:
            for batch in batches:
                yield self._sample(batch)

    # ------------------------------------------------------------------ at an epoch's end

    def _validate(self, reader: Reader, logs: Dict[str, Any]) -> None:
        """Adds means over all ranks, by the rows that each has."""
        steps = reader.steps if self.run.val_steps is None else \
            min(reader.steps, self.run.val_steps)
        rows = min(reader.rows, steps * self.run.val_batch_size)
        found: Dict[str, Any] = {}
        if rows:
            found = self.model.evaluate(self._samples(iter([reader.epoch(0)])), steps=steps,
                                        verbose=0, return_dict=True)
        told = self.hvd.allgather_object((rows, {
            name: np.asarray(value, np.float64) for name, value in found.items()}))
        total = sum(count for count, _ in told) or 1
        for name in dict.fromkeys(name for _, values in told for name in values):
            logs[f'val_{name}'] = _plain(sum(count * values[name]
                                             for count, values in told if count) / total)

    def _note(self, epoch: int, logs: Dict[str, Any]) -> None:
        for name, value in logs.items():
            self.history.setdefault(name, []).append(_plain(value))
        self.first = epoch + 1
        if self.run.verbose and self.first_rank:
            told = ', '.join(f'{name} {values[-1]:.4g}' for name, values in self.history.items()
                             if isinstance(values[-1], float))
            print(f'epoch {epoch + 1} of {self.last}: {told}', flush=True)
        self._save([])

    def _state(self, returned: List[np.ndarray]) -> State:
        """With the learning rate of one rank."""
        optimizer = self.model.optimizer
        rate = rate_of(self.keras, optimizer)
        own = None if rate is None else rate / self.hvd.size()
        if rate is not None:
            set_rate(optimizer, own)
        state = State([_array(one) for one in self.model.weights], slots_of(optimizer), returned,
                      self.history, self.first, self.last, own)
        if rate is not None:
            set_rate(optimizer, rate)
        return state

    def _save(self, returned: List[np.ndarray]) -> None:
        run = self.run
        if self.first_rank and run.store.saving_runs():
            run.store.write(state_path(run.store, run.run_id), self._state(returned).dumps())
            run.write_history([{'epoch': number, **{
                name: values[number] for name, values in self.history.items()
                if len(values) == self.first}} for number in range(self.first)])

    # ------------------------------------------------------------------ the run

    def _callbacks(self, folder: Optional[str]) -> Tuple[List[Any], str]:
        """In the order in which they act, and where the checkpoint callback writes, or ''."""
        keras, hvd, run = self.keras, self.hvd, self.run
        found = [hvd.callbacks.BroadcastGlobalVariablesCallback(0),
                 hvd.callbacks.MetricAverageCallback()]

        def ended(function: Any) -> Any:
            return keras.callbacks.LambdaCallback(on_epoch_end=function)
        if run.data.val:
            reader = run.reader(run.data.val, False, hvd)
            found.append(ended(lambda epoch, logs: self._validate(reader, logs)))
        for one in self.parts.callbacks:
            if isinstance(one, keras.callbacks.TensorBoard):
                if folder is None:
                    continue  # rank 0 has the means
                one.log_dir = os.path.join(folder, run.store.get_logs_subdir())
            found.append(one)
        path = ''
        if self.parts.checkpoint is not None and folder is not None:
            path = self._aim(self.parts.checkpoint, folder)
            found.append(self.parts.checkpoint)
        found.append(ended(self._note))
        if folder is not None and run.store.saving_runs():
            sync = run.store.sync_fn(run.run_id)
            found.append(ended(lambda epoch, logs: sync(folder)))
        return [*found, _ending(keras, hvd, found)], path

    def _aim(self, callback: Any, folder: str) -> str:
        """Lets it write into the run's folder, and know the best of what was before."""
        run = self.run
        name = run.store.get_checkpoint_filename()
        if callback.save_weights_only:
            name = f'{os.path.splitext(name)[0]}.weights.h5'
        elif not name.endswith(('.h5', '.keras')):
            name += '.keras'
        callback.filepath = path = os.path.join(folder, name)
        before = self.history.get(callback.monitor, [])
        kept = f'{run.store.get_run_path(run.run_id)}/{name}'
        if before and callback.save_best_only and run.store.exists(kept):
            if not os.path.exists(path):  # in a file system of another host
                with open(path, 'wb') as stream:
                    stream.write(run.store.read(kept))
            better = _better(callback)
            if better:
                callback.best = better(before)
        return path

    def _finish(self, folder: str, path: str) -> List[np.ndarray]:
        """The weights of the model that fit() returns, where they are not the last ones."""
        if path and os.path.exists(path):
            last = self.model.get_weights()
            self.model.load_weights(path)
            best = [_array(one) for one in self.model.weights]
            self.model.set_weights(last)
            return best
        name = self.run.store.get_checkpoint_filename()
        if self.run.store.saving_runs() and name.endswith(('.h5', '.keras')):
            more = {'include_optimizer': False} if name.endswith('.h5') else {}
            try:
                with _quiet():
                    self.model.save(os.path.join(folder, name), **more)
            except NotImplementedError as error:  # HDF5 takes no model of a class of one's own
                print(f'{name} is not written: {error}')
        return []

    def fit(self) -> Dict[str, Any]:
        """What rank 0 returns."""
        with _folder(self.run) if self.first_rank else contextlib.nullcontext() as folder:
            callbacks, path = self._callbacks(folder)
            steps = self.train.steps if self.run.steps is None else self.run.steps
            epochs = self.train.batches(self.run.steps, self.first)
            verbose = self.run.verbose if self.first_rank and self.run.verbose > 1 else 0
            self.model.fit(self._samples(epochs), epochs=self.last, initial_epoch=self.first,
                           steps_per_epoch=steps, callbacks=callbacks, verbose=verbose,
                           shuffle=False)  # the rows have been
            if folder is None:
                return {}
            self.last = self.first  # a callback may have ended it early
            returned = self._finish(folder, path)
            if self.run.store.saving_runs():
                self.run.store.sync_fn(self.run.run_id)(folder)
            self._save(returned)
            if not self.run.store.saving_runs():
                self.run.store.write(self.job.returned, self._state(returned).dumps())
            return self._shapes()

    def _shapes(self) -> Dict[str, Any]:
        """Of what the model takes for one row, and how many numbers each output has."""
        inputs = self._inputs(next(self.train.epoch(0)))
        return {'inputs': [one.shape[1:] for one in
                           (inputs if isinstance(inputs, tuple) else [inputs])],
                'sizes': [one[:1].size for one in
                          outputs_of(self.model.predict_on_batch(inputs))]}


def frameworks(package: str) -> Tuple[Any, Any]:
    """Keras, and Horovod for it."""
    name = 'horovod.keras' if package == 'keras' else 'horovod.tensorflow.keras'
    return importlib.import_module(package), importlib.import_module(name)


def train(job: Job) -> Dict[str, Any]:
    """On a rank. Rank 0 returns the shapes; the store has the state."""
    keras, hvd = frameworks(job.package)
    hvd.init()
    with devices.of_rank(keras, hvd, job.run.use_gpu):
        result = _Trainer(job, keras, hvd).fit()
    hvd.shutdown()
    return result
