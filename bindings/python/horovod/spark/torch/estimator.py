# SPDX-License-Identifier: Apache-2.0
"""TorchEstimator, which trains a PyTorch model on a DataFrame, and TorchModel, which predicts."""
from typing import Any, Callable, List, Optional

import numpy as np
from pyspark import keyword_only

try:
    import torch
except ImportError as error:
    raise ImportError('horovod.spark.torch of Reigen needs PyTorch, here and on the executors: '
                      'pip install torch') from error

from horovod.spark.common import preparing
from horovod.spark.common.estimator import (HorovodEstimator, HorovodModel, HorovodParamsReader,
                                            HorovodParamsWriter, Readable, Writable, as_array,
                                            metadata)
from horovod.spark.common.params import Known, parameters
from horovod.spark.torch import remote


def copied(model: Any, optimizer: Any = None) -> Any:
    """Copies on the CPU, for executors without this computer's devices. They are made together, so
    that the optimizer has the copied model's parameters."""
    import cloudpickle
    model, optimizer = cloudpickle.loads(cloudpickle.dumps((model, optimizer)))
    model = model.cpu()
    if optimizer is not None:
        optimizer.load_state_dict(optimizer.state_dict())  # its state to the parameters' device
    return model, optimizer


def _list(value: Any) -> List[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


@parameters(
    Known('loss_constructors', 'LossConstructors', None, 'functions that make the losses on the '
          'ranks; instead of loss'),
    Known('input_shapes', 'InputShapes', None, 'of each feature column\'s batch, such as '
          '[-1, 1, 28, 28]'),
    Known('train_minibatch_fn', 'TrainMinibatchFn', None, 'a step: fn(model, optimizer, '
          'transform_outputs, loss_fn, inputs, labels, sample_weights) -> outputs, loss'),
    Known('backward_passes_per_step', 'BackwardPassesPerStep', 1, 'batches of an optimizer\'s '
          'step'))
class TorchEstimator(HorovodEstimator):
    """TorchEstimator(num_proc=2, store=store, model=model, optimizer=optimizer, loss=loss,
    input_shapes=[[-1, 784]], feature_cols=['pixels'], label_cols=['digit']).fit(df) -> TorchModel

    The learning rate is that of one rank, and is multiplied by their number. Features come as
    float32 in input_shapes; labels of whole numbers as int64, others as float32.
    """

    @keyword_only
    def __init__(self, *, num_proc=None, data_module=None, model=None, backend=None, store=None,
                 optimizer=None, loss=None, loss_constructors=None, metrics=None, loss_weights=None,
                 sample_weight_col=None, gradient_compression=None, feature_cols=None,
                 continuous_cols=None, categorical_cols=None, input_shapes=None, validation=None,
                 label_cols=None, callbacks=None, batch_size=None, val_batch_size=None, epochs=None,
                 verbose=1, random_seed=None, shuffle_buffer_size=None, shuffle=True,
                 partitions_per_process=None, run_id=None, train_minibatch_fn=None,
                 train_steps_per_epoch=None, validation_steps_per_epoch=None,
                 transformation_fn=None, train_reader_num_workers=None,
                 val_reader_num_workers=None, reader_pool_type='thread', label_shapes=None,
                 inmemory_cache_all=False, use_gpu=True, mp_start_method=None,
                 backward_passes_per_step=1):
        given = self._input_kwargs
        super().__init__()
        self._set(**given)

    def _refuse(self) -> None:
        self._refuse_common()
        if self.getCallbacks():
            raise ValueError('callbacks: PyTorch has none; do it in train_minibatch_fn')
        self._refuse_untrainable()

    def _refuse_common(self) -> None:
        """What no estimator has."""
        super()._refuse()

    def _refuse_untrainable(self) -> None:
        """Of a module that its estimator trains by an optimizer and losses."""
        if self.getOptimizer() is None:
            raise ValueError('optimizer is needed, such as torch.optim.SGD(model.parameters(), '
                             'lr=0.01)')
        losses = _list(self.getLoss()) or _list(self.getLossConstructors())
        if self.getLoss() is not None and self.getLossConstructors() is not None:
            raise ValueError('loss and loss_constructors: tell one of them')
        labels = self.getLabelCols()
        if len(losses) not in (1, len(labels)):
            raise ValueError(f'{len(losses)} losses for {len(labels)} label_cols: tell one by '
                             'loss or loss_constructors, or one for each')
        for each in self.getMetrics():
            if isinstance(each, (list, tuple)) and len(each) != len(labels):
                raise ValueError(f'metrics: {len(each)} for {len(labels)} label_cols: one for each')
        if self.getBackwardPassesPerStep() < 1:
            raise ValueError(f'backward_passes_per_step is {self.getBackwardPassesPerStep()}: it '
                             'is 1 or more')
        self._refuse_shapes()

    def _refuse_shapes(self) -> None:
        shapes = self.getInputShapes()
        if shapes is not None and len(shapes) != len(self.getFeatureCols()):
            raise ValueError(f'{len(shapes)} input_shapes for {len(self.getFeatureCols())} '
                             'feature_cols: one for each')

    def _job(self, data: preparing.Prepared, run_id: str, returned: str) -> remote.Job:
        labels = self.getLabelCols()
        losses = _list(self.getLoss()) or _list(self.getLossConstructors())
        model, optimizer = copied(self.getModel(), self.getOptimizer())
        return remote.Job(
            model=model, optimizer=optimizer,
            losses=losses * (len(labels) if len(losses) == 1 else 1),
            constructed=self.getLoss() is None,
            loss_weights=self.getLossWeights() or [1 / len(labels)] * len(labels),
            metrics=[_list(one) * (1 if isinstance(one, (list, tuple)) else len(labels))
                     for one in _list(self.getMetrics())],
            input_shapes=self.getInputShapes(), step=self.getTrainMinibatchFn(),
            passes=self.getBackwardPassesPerStep(), compression=self.getGradientCompression(),
            run=self._run(data, run_id), returned=returned)

    def _train(self, data: preparing.Prepared, backend: Any, run_id: str) -> 'TorchModel':
        store = self.getStore()
        with self._handed_over() as returned:
            job = self._job(data, run_id, returned)
            done = backend.run(remote.train, args=(job,))[0]
            state = remote.load(store, store.get_checkpoint_path(run_id) or returned)
        model, optimizer = copied(self.getModel(), self.getOptimizer())
        model.load_state_dict(state['model'])
        optimizer.load_state_dict(state['optimizer'])
        return self.get_model_class()(
            history=done['history'], model=model, optimizer=optimizer, run_id=run_id,
            feature_columns=self.getFeatureCols(), label_columns=self.getLabelCols(),
            input_shapes=self.getInputShapes(), loss=self.getLoss(),
            loss_constructors=self.getLossConstructors(),
            _metadata=metadata(data, self.getLabelCols(), done['sizes']))

    def get_model_class(self) -> type:
        return TorchModel


@parameters(
    Known('optimizer', 'Optimizer', None, 'as it was after training'),
    Known('loss', 'Loss', None, 'the loss functions'),
    Known('loss_constructors', 'LossConstructors', None, 'what made them'),
    Known('input_shapes', 'InputShapes', None, 'of each feature column\'s batch'))
class TorchModel(HorovodModel):
    """transform() calls the model in Spark's tasks, on their CPUs, in evaluation mode."""

    @keyword_only
    def __init__(self, *, history=None, model=None, feature_columns=None, input_shapes=None,
                 label_columns=None, optimizer=None, run_id=None, _metadata=None, loss=None,
                 loss_constructors=None):
        given = self._input_kwargs
        super().__init__()
        self._set(**given)

    def _predictor(self) -> Callable[[], Callable]:
        import cloudpickle
        data = cloudpickle.dumps(copied(self.getModel())[0])
        shapes = self.getInputShapes()

        def make() -> Callable:
            model = cloudpickle.loads(data).eval()

            def predict(arrays: List[Any]) -> List[Any]:
                with torch.no_grad():
                    outputs = model(*remote.inputs_of(arrays, shapes, 'cpu'))
                return [output.float().numpy() for output in _list(outputs)]
            return predict
        return make

    def get_prediction_fn(self) -> Callable[[Any, Any], Any]:
        """What says of (model, row) what the model predicts, with gradients off; row: one of
        Spark's. A class of your own may have another one: transform() calls it, row by row."""
        features, shapes = list(self.getFeatureColumns()), self.getInputShapes()

        def predict(model: Any, row: Any) -> Any:
            arrays = [as_array(row[name])[None] for name in features]
            with torch.no_grad():
                return model(*remote.inputs_of(arrays, shapes, 'cpu'))
        return predict

    def _has_own(self) -> bool:
        return type(self).get_prediction_fn is not TorchModel.get_prediction_fn

    def _sizes(self) -> Optional[List[int]]:
        return None if self._has_own() else super()._sizes()

    def _of_rows(self) -> Callable[[], Callable]:
        if not self._has_own():
            return super()._of_rows()
        import cloudpickle
        data = cloudpickle.dumps((copied(self.getModel())[0], self.get_prediction_fn()))

        def make() -> Callable:
            model, function = cloudpickle.loads(data)
            model.eval()

            def predict(rows: List[Any]) -> List[Any]:
                with torch.no_grad():
                    found = [_list(function(model, row)) for row in rows]
                return [np.stack([torch.as_tensor(output).float().numpy().reshape(-1)
                                  for output in outputs]) for outputs in zip(*found)]
            return predict
        return make


# Horovod has these for each framework.
TorchEstimatorParamsWriter, TorchEstimatorParamsWritable = HorovodParamsWriter, Writable
TorchEstimatorParamsReader, TorchEstimatorParamsReadable = HorovodParamsReader, Readable
