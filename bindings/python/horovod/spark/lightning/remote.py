# SPDX-License-Identifier: Apache-2.0
"""What LightningEstimator does on each rank: train() is called there with a Job, and makes a
Trainer."""
import contextlib
import inspect
import io
import os
import tempfile
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

import torch

from horovod.spark.common.reading import Reader
from horovod.spark.lightning import flavour, hooks
from horovod.spark.lightning.strategy import strategy
from horovod.spark.torch import remote as plain


class Job(NamedTuple):
    """All that an estimator has been told; see torch's, too. legacy: the model is a plain module of
    PyTorch, with an optimizer and losses."""
    torch: plain.Job
    legacy: bool
    callbacks: List[Any]
    logger: Any
    log_every_n_steps: int
    data_module: Any
    passes: Optional[int]      # over the rows, which the data module is told
    terminate_on_nan: bool
    profiler: Any
    trainer_args: Dict[str, Any]
    debug: bool


def checkpoint_path(store: Any, run_id: str) -> str:
    """Lightning's files of a run are named like that: store.get_checkpoints() finds them."""
    return f'{store.get_run_path(run_id)}/{store.get_checkpoint_filename()}.ckpt'


class _Batches:
    """A rank's batches for Lightning, as dicts of tensors by their columns: each iteration is over
    one epoch. steps: so many, unless it is None."""

    def __init__(self, job: plain.Job, reader: Reader, epoch: Callable[[], int],
                 steps: Optional[int]):
        self._job, self._reader, self._epoch, self._steps = job, reader, epoch, steps
        self._epochs: Optional[Iterator[Any]] = None

    def __len__(self) -> int:
        return self._steps or self._reader.steps

    def _batches(self) -> Iterator[Any]:
        if self._steps is None:
            return self._reader.epoch(self._epoch())
        self._epochs = self._epochs or self._reader.batches(self._steps, self._epoch())
        return next(self._epochs)

    def __iter__(self) -> Iterator[Dict[str, torch.Tensor]]:
        job = self._job
        for batch in self._batches():
            inputs, labels, weights = plain.tensors_of(job, batch, 'cpu')
            yield {**dict(zip(job.run.features, inputs)), **dict(zip(job.run.labels, labels)),
                   **({job.run.weight: weights} if job.run.weight else {})}


def _legacy(lightning: Any, job: plain.Job, hvd: Any, device: Any) -> Any:
    """A LightningModule of a plain module of PyTorch, its optimizer, losses and metrics."""
    known = {'model': job.model, 'optimizer': job.optimizer, 'hvd': hvd, 'torch': torch,
             'feature_columns': job.run.features, 'label_columns': job.run.labels}
    loss_of = plain.Loss(job, known, device)

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = job.model

        def forward(self, *inputs: Any) -> Any:
            return self.model(*inputs)

        def configure_optimizers(self) -> Any:
            return job.optimizer

        def _step(self, batch: Any, name: str) -> Any:
            outputs, labels = plain.transform_outputs(
                self(*[batch[one] for one in job.run.features]),
                [batch[one] for one in job.run.labels])
            loss = loss_of(outputs, labels, batch[job.run.weight] if job.run.weight else None)
            rows = len(batch[job.run.labels[0]])
            told = {f'{name}_loss': loss}
            for group in job.metrics:
                told.update({
                    f'{name}_{getattr(one, "__name__", type(one).__name__)}_{label}':
                    float(one(output, value))
                    for one, label, output, value in zip(group, job.run.labels, outputs, labels)})
            self.log_dict(told, on_step=False, on_epoch=True, batch_size=rows)
            return loss

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self._step(batch, 'train')

        def validation_step(self, batch: Any, batch_idx: int) -> Any:
            return self._step(batch, 'val')
    return Module()


def _known(function: Callable, values: Dict[str, Any]) -> Dict[str, Any]:
    """Of these arguments those that it takes."""
    takes = inspect.signature(
        function.__init__ if isinstance(function, type) else function).parameters
    if any(one.kind is one.VAR_KEYWORD for one in takes.values()):
        return values
    return {name: value for name, value in values.items() if name in takes}


class _Run:
    """One fit() on this rank. folder: of the run's files, on this host."""

    def __init__(self, told: Job, hvd: Any, folder: str):
        self.told, self.job, self.hvd, self.folder = told, told.torch, hvd, folder
        job = self.job
        self.lightning = flavour.of(model=job.model, callbacks=told.callbacks, logger=told.logger,
                                    data_module=told.data_module, profiler=told.profiler)
        self.logs = os.path.join(folder, job.run.store.get_logs_subdir())
        self._sync = job.run.store.sync_fn(job.run.run_id)
        self.device = plain.device_of(hvd, job.run.use_gpu)
        if job.run.seed is not None:
            torch.manual_seed(job.run.seed + hvd.rank())
        self.module = _legacy(self.lightning, job, hvd, self.device) if told.legacy else job.model
        self.args = dict(told.trainer_args)
        self.epochs = self.args.pop('max_epochs', job.run.epochs)
        self.keeper: Any = None
        data = job.run.data
        self.train = job.run.reader(data.train, True, hvd)
        # Equal steps, since what a step logs may be reduced over all ranks.
        self.val = job.run.reader(data.val, False, hvd, fill=True) if data.val else None

    # ------------------------------------------------------------------ the run's state

    def _begin(self) -> Dict[str, Any]:
        """What the run's checkpoint says: its history, its last epoch, its ranks. A run that was
        interrupted goes on to its end; one that had ended trains as many epochs again."""
        found: Dict[str, Any] = {'history': [], 'last': self.epochs, 'size': self.hvd.size()}
        run = self.job.run
        path = checkpoint_path(run.store, run.run_id)
        if self.hvd.rank() == 0 and run.store.saving_runs() and run.store.exists(path):
            state = torch.load(io.BytesIO(run.store.read(path)), map_location='cpu',
                               weights_only=False)
            ours, mine = state.get('state_dict', {}), self.module.state_dict()
            if 'horovod' not in state or {name: value.shape for name, value in ours.items()} != \
                    {name: value.shape for name, value in mine.items()}:
                raise run.other_model(path, ValueError('it has other tensors'))
            found = state['horovod']
            done = len(found['history'])
            found['last'] = found['last'] if done < found['last'] else done + self.epochs
        return self.hvd.broadcast_object(found, root_rank=0)

    def save(self, trainer: Any) -> None:
        """Called on all ranks; the store gets it from the first."""
        job = self.job
        if not job.run.store.saving_runs():
            return
        with tempfile.TemporaryDirectory(prefix='reigen-run-') as folder:
            path = os.path.join(folder, 'checkpoint')
            trainer.save_checkpoint(path, weights_only=False)
            if self.hvd.rank() == 0:
                with open(path, 'rb') as stream:
                    job.run.store.write(checkpoint_path(job.run.store, job.run.run_id),
                                        stream.read())
        if self.hvd.rank() == 0:
            job.run.write_history(self.keeper.history)
            self._sync(self.folder)

    def tell(self, epoch: Dict[str, Any]) -> None:
        if self.job.run.verbose and self.hvd.rank() == 0:
            print(epoch)

    def state(self) -> Dict[str, Any]:
        """The model's: the best one's if the user's callbacks keep that, else the last one's."""
        state = self.module.state_dict()
        for one in self.told.callbacks:
            best = getattr(one, 'best_model_path', '')
            if best and os.path.exists(best):
                state = torch.load(best, map_location='cpu', weights_only=False)['state_dict']
                break
        prefix = 'model.' if self.told.legacy else ''
        return {name[len(prefix):]: value for name, value in state.items()}

    # ------------------------------------------------------------------ what the Trainer is told

    def _loggers(self) -> Any:
        loggers, given = self.lightning.loggers, self.told.logger
        if given is None:
            try:
                return loggers.TensorBoardLogger(self.logs)
            except ImportError:  # it needs a package
                return loggers.CSVLogger(self.logs)
        for one in given if isinstance(given, (list, tuple)) else [given]:
            for name in ('_root_dir', '_save_dir'):
                if hasattr(one, name):
                    setattr(one, name, self.logs)
        return given

    def _callbacks(self) -> List[Any]:
        more = self.args.pop('callbacks', None) or []
        given = [*self.told.callbacks, *(more if isinstance(more, (list, tuple)) else [more])]
        for one in given:
            if isinstance(one, self.lightning.callbacks.ModelCheckpoint) and one.dirpath is None:
                one.dirpath = self.folder
        nan = [hooks.made(self.lightning, hooks.TerminateOnNan)] if self.told.terminate_on_nan \
            else []
        old = hooks.made(self.lightning, hooks.OldHooks, self.module, given)
        return [old, *given, *nan, self.keeper]

    def _trainer(self, last: int) -> Any:
        job, told = self.job, self.told
        self.args.pop('enable_checkpointing', None)  # the keeper is one of them
        options = {
            'accelerator': 'gpu' if self.device.type == 'cuda' else 'cpu',
            'devices': [self.device.index] if self.device.type == 'cuda' else 1,
            'strategy': strategy(self.lightning, self.hvd, self.device, job.compression),
            'callbacks': self._callbacks(), 'max_epochs': last, 'logger': self._loggers(),
            'log_every_n_steps': told.log_every_n_steps, 'num_sanity_val_steps': 0,
            'profiler': told.profiler, 'enable_progress_bar': False,
            'enable_model_summary': bool(job.run.verbose), 'default_root_dir': self.folder,
            **({'limit_val_batches': job.run.val_steps} if job.run.val_steps else {}),
            # A data module that is made here is told its share of the rows.
            'use_distributed_sampler': isinstance(told.data_module,
                                                  self.lightning.LightningDataModule),
            **self.args}
        trainer = self.lightning.Trainer(**options)
        if told.profiler is not None and told.profiler != 'simple':
            trainer.profiler.dirpath, trainer.profiler.filename = self.logs, 'profile'
        return trainer

    def _data(self, trainer: Any) -> Dict[str, Any]:
        given, job = self.told.data_module, self.job
        if isinstance(given, self.lightning.LightningDataModule):
            return {'datamodule': given}
        if given is not None:
            values = self._module_args()
            if self.told.debug and self.hvd.rank() == 0:
                shown = {**values, 'storage_options': '(not shown)'}  # they may have keys
                print(f'The data module is told: {shown}')
            return {'datamodule': given(**_known(given, values))}

        def epoch() -> int:
            return trainer.current_epoch
        if self.told.debug:
            print(f'rank {self.hvd.rank()} trains with {self.train.rows} rows in '
                  f'{job.run.steps or self.train.steps} steps, and validates with '
                  f'{self.val.rows if self.val else 0}')
        return {'train_dataloaders': _Batches(job, self.train, epoch, job.run.steps),
                'val_dataloaders': self.val and _Batches(job, self.val, lambda: 0, None)}

    def _module_args(self) -> Dict[str, Any]:
        """By the names that Horovod has for them."""
        job, told = self.job, self.told
        return {
            'train_dir': job.run.data.train.path,
            'val_dir': job.run.data.val.path if job.run.data.val else '',
            'num_train_epochs': self.epochs, 'has_val': self.val is not None,
            'train_batch_size': job.run.batch_size, 'val_batch_size': job.run.val_batch_size,
            'shuffle': job.run.shuffle, 'shuffle_size': job.run.block_rows,
            'num_reader_epochs': told.passes, 'reader_pool_type': 'thread',
            'reader_worker_count': 2, 'transformation': job.run.transform,
            'transformation_edit_fields': None, 'transformation_removed_fields': None,
            'inmemory_cache_all': job.run.cache, 'cur_shard': self.hvd.rank(),
            'shard_count': self.hvd.size(), 'schema_fields': [
                *job.run.features, *job.run.labels, *([job.run.weight] if job.run.weight else [])],
            'storage_options': getattr(job.run.store, 'storage_options', None),
            'steps_per_epoch_train': job.run.steps or self.train.steps,
            'steps_per_epoch_val': job.run.val_steps or (self.val.steps if self.val else 0),
            'verbose': bool(job.run.verbose), 'debug_data_loader': told.debug,
            'train_async_data_loader_queue_size': None, 'val_async_data_loader_queue_size': None,
            'seed': job.run.seed}

    # ------------------------------------------------------------------ fit

    def fit(self) -> None:
        begun = self._begin()
        self.keeper = hooks.made(self.lightning, hooks.Keeper, self, begun['history'],
                                 begun['last'], begun['size'])
        if self.hvd.rank() == 0:
            os.makedirs(self.logs, exist_ok=True)
        trainer = self._trainer(begun['last'])
        with tempfile.TemporaryDirectory(prefix='reigen-run-') as folder:
            path = None
            if begun['history']:
                path = os.path.join(folder, 'checkpoint')
                with open(path, 'wb') as stream:
                    stream.write(self.job.run.store.read(
                        checkpoint_path(self.job.run.store, self.job.run.run_id)))
            trainer.fit(self.module, ckpt_path=path, **self._data(trainer))
        if self.hvd.rank() == 0 and self.job.run.store.saving_runs():
            self._sync(self.folder)  # what a profiler has written, and loggers at the end

    def output_sizes(self) -> Optional[List[int]]:
        """Elements of each output for one row; None: the model does not take the features so."""
        try:
            inputs, _, _ = plain.tensors_of(self.job, next(self.train.epoch(0)), 'cpu')
            self.module.eval()
            with torch.no_grad():
                return [output[:1].numel() for output in plain.listed(self.module(*inputs))]
        except Exception:
            return None


@contextlib.contextmanager
def _output(job: plain.Job) -> Iterator[str]:
    """A folder of this host for a run's files."""
    if job.run.store.saving_runs():
        with job.run.store.get_local_output_dir_fn(job.run.run_id)() as folder:
            yield folder
    else:
        with tempfile.TemporaryDirectory(prefix='reigen-run-') as folder:
            yield folder


def train(told: Job) -> Optional[Dict[str, Any]]:
    """On a rank. Rank 0 returns the history; the store has the model's state."""
    import horovod.torch as hvd
    hvd.init()
    result = None
    with _output(told.torch) as folder:
        run = _Run(told, hvd, folder)
        run.fit()
        if hvd.rank() == 0:
            result = {'history': run.keeper.history, 'sizes': run.output_sizes()}
            buffer = io.BytesIO()
            torch.save({'model': run.state()}, buffer)
            told.torch.run.store.write(told.torch.returned, buffer.getvalue())
    hvd.shutdown()
    return result
