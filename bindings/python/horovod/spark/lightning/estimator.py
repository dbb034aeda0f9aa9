# SPDX-License-Identifier: Apache-2.0
"""LightningEstimator, which trains a LightningModule on a DataFrame, and LightningModel, which
predicts. A plain module of PyTorch is taken, too, with an optimizer and losses."""
import inspect
from typing import Any

from pyspark import keyword_only

from horovod.spark.common import preparing
from horovod.spark.common.estimator import metadata
from horovod.spark.common.params import Known, parameters
from horovod.spark.lightning import flavour

if not flavour.there():
    raise ImportError('horovod.spark.lightning of Reigen needs Lightning, here and on the '
                      'executors: pip install lightning')

from horovod.spark import torch as plain  # noqa: E402
from horovod.spark.lightning import remote  # noqa: E402
from horovod.spark.torch.estimator import (TorchEstimatorParamsReadable,  # noqa: E402, F401
                                           TorchEstimatorParamsReader, TorchEstimatorParamsWritable,
                                           TorchEstimatorParamsWriter, copied)
from horovod.spark.torch.remote import load  # noqa: E402

#: Scripts compare Lightning's version with it.
MIN_PL_VERSION = '2.0.0'

#: What a LightningModule does itself, and where.
_WITHIN = {'optimizer': 'configure_optimizers', 'loss': 'training_step',
           'loss_constructors': 'training_step', 'loss_weights': 'training_step',
           'metrics': 'validation_step, by self.log()'}
#: Arguments of a Trainer that are not the user's here.
_RANKS = ('accelerator', 'devices', 'num_nodes', 'strategy')


@parameters(
    Known('num_gpus', 'NumGPUs', None, 'of a rank; it has one, unless told 0'),
    Known('logger', 'Logger', None, 'Lightning\'s, or several; TensorBoard\'s unless told, or that '
          'of CSV where there is none. Its files are in the run\'s logs'),
    Known('log_every_n_steps', 'LogEveryNSteps', 50, 'a logger is told'),
    Known('loader_num_epochs', 'LoaderNumEpochs', None, 'what a data module is told as '
          'num_reader_epochs'),
    Known('terminate_on_nan', 'TerminateOnNan', False, 'a loss or a parameter that is not finite '
          'is an error'),
    Known('profiler', 'Profiler', None, 'Lightning\'s, or its name'),
    Known('trainer_args', 'TrainerArgs', None, 'further arguments of the Trainer'),
    Known('debug_data_loader', 'DebugDataLoader', False, 'says what each rank reads'),
    Known('train_async_data_loader_queue_size', 'TrainAsyncDataLoaderQueueSize', None, '0: no '
          'thread reads ahead'),
    Known('val_async_data_loader_queue_size', 'ValAsyncDataLoaderQueueSize', None, '0: no thread '
          'reads ahead'))
class LightningEstimator(plain.TorchEstimator):
    """LightningEstimator(num_proc=2, store=store, model=module, feature_cols=['pixels'],
    label_cols=['digit'], validation=0.1).fit(df) -> LightningModel

    A batch is a dict of tensors by the columns' names: features as float32 in input_shapes, labels
    of whole numbers as int64, others as float32. data_module: a LightningDataModule, or its class,
    which is told where the rows are, instead. The learning rate is that of one rank, and is
    multiplied by their number.
    """
    _taken = frozenset({'data_module'})

    @keyword_only
    def __init__(self, *, num_proc=None, model=None, backend=None, store=None, optimizer=None,
                 loss=None, loss_constructors=None, metrics=None, loss_weights=None,
                 sample_weight_col=None, gradient_compression=None, feature_cols=None,
                 input_shapes=None, validation=None, label_cols=None, callbacks=None,
                 batch_size=None, val_batch_size=None, epochs=None, verbose=1, random_seed=None,
                 shuffle_buffer_size=None, shuffle=True, partitions_per_process=None, run_id=None,
                 train_minibatch_fn=None, train_steps_per_epoch=None,
                 validation_steps_per_epoch=None, transformation_fn=None,
                 transformation_edit_fields=None, transformation_removed_fields=None,
                 train_reader_num_workers=None, trainer_args=None, val_reader_num_workers=None,
                 reader_pool_type=None, label_shapes=None, inmemory_cache_all=False, num_gpus=None,
                 logger=None, log_every_n_steps=50, data_module=None, loader_num_epochs=None,
                 terminate_on_nan=False, profiler=None, debug_data_loader=False,
                 train_async_data_loader_queue_size=None, val_async_data_loader_queue_size=None,
                 use_gpu=True, mp_start_method=None):
        given = self._input_kwargs
        super().__init__()
        self._set(**given)

    # ------------------------------------------------------------------ what is refused

    def _lightning(self) -> Any:
        return flavour.of(model=self.getModel(), callbacks=self.getCallbacks(),
                          logger=self.getLogger(), data_module=self.getDataModule(),
                          profiler=self.getProfiler())

    def _legacy(self) -> bool:
        return not isinstance(self.getModel(), self._lightning().LightningModule)

    def _refuse(self) -> None:
        self._refuse_common()
        if self.getTrainMinibatchFn() is not None:
            raise ValueError('train_minibatch_fn: there is none here; a LightningModule does it in '
                             'training_step')
        if self.getNumGPUs() not in (None, 0, 1):
            raise ValueError(f'num_gpus is {self.getNumGPUs()}: a rank has one GPU, or none; take '
                             'more ranks by num_proc')
        if self.getLoaderNumEpochs() is not None and self.getDataModule() is None:
            raise ValueError('loader_num_epochs: rows are read again for each epoch; leave it out')
        if self._legacy():
            self._refuse_untrainable()
        else:
            for name, where in _WITHIN.items():
                if self.getOrDefault(name):
                    raise ValueError(f'{name}: a LightningModule does it in {where}')
            self._refuse_shapes()
        takes = inspect.signature(self._lightning().Trainer.__init__).parameters
        for name in self.getTrainerArgs() or {}:
            if name in _RANKS:
                raise ValueError(f'trainer_args: {name} is given by the ranks: see num_proc and '
                                 'use_gpu')
            if name not in takes:
                raise ValueError(f'trainer_args: this Lightning\'s Trainer has no {name}')

    # ------------------------------------------------------------------ fit

    def _job(self, data: preparing.Prepared, run_id: str, returned: str) -> remote.Job:
        job = super()._job(data, run_id, returned)
        return remote.Job(
            torch=job._replace(run=job.run._replace(
                use_gpu=job.run.use_gpu and self.getNumGPUs() != 0,
                ahead=job.run.ahead and self.getTrainAsyncDataLoaderQueueSize() != 0,
                val_ahead=job.run.val_ahead and self.getValAsyncDataLoaderQueueSize() != 0)),
            legacy=self._legacy(), callbacks=list(self.getCallbacks() or []),
            logger=self.getLogger(), log_every_n_steps=self.getLogEveryNSteps(),
            data_module=self.getDataModule(), passes=self.getLoaderNumEpochs(),
            terminate_on_nan=self.getTerminateOnNan(), profiler=self.getProfiler(),
            trainer_args=dict(self.getTrainerArgs() or {}), debug=self.getDebugDataLoader())

    def _train(self, data: preparing.Prepared, backend: Any, run_id: str) -> 'LightningModel':
        with self._handed_over() as returned:
            job = self._job(data, run_id, returned)
            done = backend.run(remote.train, args=(job,))[0]
            state = load(self.getStore(), returned)
        model, _ = copied(self.getModel())
        model.load_state_dict(state['model'])
        return self.get_model_class()(
            history=done['history'], model=model.eval(), run_id=run_id,
            feature_columns=self.getFeatureCols(), label_columns=self.getLabelCols(),
            input_shapes=self.getInputShapes(), loss=self.getLoss(),
            loss_constructors=self.getLossConstructors(),
            _metadata=metadata(data, self.getLabelCols(), done['sizes']))

    def get_model_class(self) -> type:
        return LightningModel


class LightningModel(plain.TorchModel):
    """transform() calls the module in Spark's tasks, on their CPUs, in evaluation mode. It has no
    optimizer: the module makes it."""


TorchEstimator, TorchModel = LightningEstimator, LightningModel
