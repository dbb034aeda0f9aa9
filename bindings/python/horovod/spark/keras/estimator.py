# SPDX-License-Identifier: Apache-2.0
"""KerasEstimator, which trains a Keras model on a DataFrame, and KerasModel, which predicts."""
import importlib
import os
from typing import Any, Callable, Dict, List, Mapping

import numpy as np
from pyspark import TaskContext, keyword_only

from horovod.spark.common import preparing
from horovod.spark.common.estimator import (HorovodEstimator, HorovodModel, HorovodParamsReader,
                                            HorovodParamsWriter, Readable, Writable, metadata)
from horovod.spark.common.params import Known, parameters
from horovod.spark.keras import devices, packing, remote


class _Packed:
    """Of estimators and models: how what they hold is written."""

    def _dumps(self, values: Dict[str, Any]) -> bytes:
        package = packing.package_of(self.getModel())
        if not package:
            return super()._dumps(values)
        return packing.dumps(package, self.getCustomObjects(), values)

    @classmethod
    def _loads(cls, data: bytes) -> Dict[str, Any]:
        found = super()._loads(data)
        return found if isinstance(found, dict) else packing.loads(data)


def _resolved(value: Any, known: Mapping[str, Any]) -> Any:
    """Losses or metrics, with those that are called by a custom object's name: on ranks Keras looks
    names up when these have been forgotten."""
    if isinstance(value, str) and value in known:
        found = known[value]
        return found() if isinstance(found, type) else found
    if isinstance(value, dict):
        return {name: _resolved(one, known) for name, one in value.items()}
    return [_resolved(one, known) for one in value] if type(value) in (list, tuple) else value


def _named(value: Any) -> str:
    return f'{type(value).__module__}.{type(value).__name__}'


@parameters(
    Known('custom_objects', 'CustomObjects', {}, 'classes and functions of the model that Keras '
          'does not know, by name'),
    Known('checkpoint_callback', 'CheckpointCallback', None, 'a ModelCheckpoint: fit() returns '
          'the model that it has written'),
    Known('backend_env', 'BackendEnv', {}, 'variables of the ranks'),
    Known('tensorflow_dataset_prefetch_buffer_size', 'TensorflowDatasetPrefetchBufferSize', 0,
          'not needed'))
class KerasEstimator(_Packed, HorovodEstimator):
    """KerasEstimator(num_proc=2, store=store, model=model, optimizer=keras.optimizers.SGD(0.01),
    loss='mse', feature_cols=['pixels'], label_cols=['digit']).fit(df) -> KerasModel

    The learning rate is that of one rank, and is multiplied by their number; a schedule is taken as
    it is. Features and labels come in the shapes of the model's inputs and outputs.
    """

    @keyword_only
    def __init__(self, *, num_proc=None, data_module=None, model=None, backend=None, store=None,
                 custom_objects=None, optimizer=None, loss=None, loss_weights=None,
                 sample_weight_col=None, gradient_compression=None, metrics=None,
                 feature_cols=None, label_cols=None, continuous_cols=None, categorical_cols=None,
                 validation=None, callbacks=None, batch_size=None, val_batch_size=None, epochs=None,
                 verbose=None, random_seed=None, shuffle_buffer_size=None, shuffle=True,
                 partitions_per_process=None, run_id=None, train_steps_per_epoch=None,
                 validation_steps_per_epoch=None, transformation_fn=None,
                 train_reader_num_workers=None, val_reader_num_workers=None,
                 reader_pool_type='thread', label_shapes=None, checkpoint_callback=None,
                 inmemory_cache_all=False, backend_env=None, use_gpu=True, mp_start_method=None,
                 tensorflow_dataset_prefetch_buffer_size=0):
        given = self._input_kwargs
        super().__init__()
        self._set(**given)

    def _refuse(self) -> None:
        super()._refuse()
        model, labels = self.getModel(), self.getLabelCols()
        package = packing.package_of(model)
        keras = importlib.import_module(package) if package else None
        if keras is None or not isinstance(model, keras.Model):
            raise ValueError(f'model is a {_named(model)}: it is a keras.Model')
        packing.environment(package)
        for name, there in [('feature_cols', getattr(model, 'inputs', None)),
                            ('label_cols', getattr(model, 'outputs', None))]:
            if there and len(there) != len(self.getOrDefault(name)):
                raise ValueError(f'{name}: {len(self.getOrDefault(name))} for the model\'s '
                                 f'{len(there)} {"in" if name[0] == "f" else "out"}puts: one for '
                                 'each')
        if not self.getLoss():
            raise ValueError('loss is needed, such as \'mse\'')
        optimizer = self._optimizer()
        if not isinstance(optimizer, str) and not packing.is_optimizer(keras, optimizer):
            raise ValueError(f'optimizer is a {_named(optimizer)}: it is an optimizer of the '
                             f'model\'s package {package}, or its name')
        losses = self.getLoss()
        if isinstance(losses, (list, tuple)) and len(losses) not in (1, len(labels)):
            raise ValueError(f'{len(losses)} losses for {len(labels)} label_cols: tell one for '
                             'each')

    def _optimizer(self) -> Any:
        found = self.getOptimizer() or getattr(self.getModel(), 'optimizer', None)
        if found is None:
            raise ValueError('optimizer is needed, such as keras.optimizers.SGD(0.01), unless the '
                             'model is compiled')
        return found

    def _job(self, data: preparing.Prepared, run_id: str, returned: str) -> remote.Job:
        package = packing.package_of(self.getModel())
        keras = importlib.import_module(package)
        losses, labels = self.getLoss(), self.getLabelCols()
        if isinstance(losses, (list, tuple)):
            losses = losses[0] if len(labels) == 1 else \
                list(losses) * (len(labels) if len(losses) == 1 else 1)
        optimizer = self._optimizer()
        known = packing.known(package, self.getCustomObjects())
        parts = remote.Parts(
            model=self.getModel(), optimizer=optimizer, loss=_resolved(losses, known),
            loss_weights=self.getLossWeights(),
            metrics=_resolved(self.getMetrics(), known) or None,
            compression=self.getGradientCompression(), callbacks=list(self.getCallbacks()),
            checkpoint=self.getCheckpointCallback(), slots=remote.slots_of(optimizer))
        return remote.Job(run=self._run(data, run_id), package=package,
                          floatx=keras.backend.floatx(), returned=returned,
                          parts=packing.dumps(package, self.getCustomObjects(), parts))

    def _train(self, data: preparing.Prepared, backend: Any, run_id: str) -> 'KerasModel':
        store = self.getStore()
        with self._handed_over() as returned:
            job = self._job(data, run_id, returned)
            done = backend.run(remote.train, args=(job,),
                               env={**packing.environment(job.package), **self.getBackendEnv()})[0]
            state = remote.State.loads(store.read(
                remote.state_path(store, run_id) if store.saving_runs() else returned))
        return self.get_model_class()(
            history=state.history, model=self._trained(job, state, done), run_id=run_id,
            feature_columns=self.getFeatureCols(), label_columns=self.getLabelCols(),
            custom_objects=self.getCustomObjects(), _floatx=job.floatx,
            _metadata=metadata(data, self.getLabelCols(), done['sizes']))

    @staticmethod
    def _trained(job: remote.Job, state: remote.State, done: Dict[str, Any]) -> Any:
        """A new model, compiled, with the optimizer of one rank."""
        keras = importlib.import_module(job.package)
        parts: remote.Parts = packing.loads(job.parts)
        model = parts.model
        if not model.built:
            arrays = [np.zeros((1, *shape), job.floatx) for shape in done['inputs']]
            model(tuple(arrays) if len(arrays) > 1 else arrays[0])
        model.compile(optimizer=keras.optimizers.get(parts.optimizer), loss=parts.loss,
                      loss_weights=parts.loss_weights, metrics=parts.metrics)
        model.set_weights(state.returned or state.weights)
        if state.slots:
            remote.set_slots(model, state.slots)
        if state.rate is not None:
            remote.set_rate(model.optimizer, state.rate)
        return model

    def get_model_shapes(self) -> Any:
        """The shapes of the model's inputs, and of its outputs; -1 where any size will do."""
        model = self.getModel()
        return tuple([[-1 if size is None else size for size in one.shape] for one in several]
                     for several in (model.inputs, model.outputs))

    def get_model_class(self) -> type:
        return KerasModel


@parameters(
    Known('custom_objects', 'CustomObjects', {}, 'classes and functions of the model that Keras '
          'does not know, by name'),
    Known('_floatx', 'Floatx', None, 'Keras\'s type of floats in training'))
class KerasModel(_Packed, HorovodModel):
    """transform() calls the model in Spark's tasks, on their CPUs."""

    @keyword_only
    def __init__(self, *, history=None, model=None, feature_columns=None, label_columns=None,
                 custom_objects=None, run_id=None, _metadata=None, _floatx=None):
        given = self._input_kwargs
        super().__init__()
        self._set(**given)

    def _predictor(self) -> Callable[[], Callable]:
        package = packing.package_of(self.getModel())
        data = packing.dumps(package, self.getCustomObjects(), self.getModel())
        environment, names = packing.environment(package), list(self.getFeatureColumns())
        floatx = self.getFloatx()

        def make() -> Callable:
            if TaskContext.get() is not None:  # not in the driver's process
                os.environ.update(environment)
            keras = importlib.import_module(package)
            used = floatx or keras.backend.floatx()
            keras.backend.set_floatx(used)
            with devices.cpu(keras):
                model = packing.loads(data)

            def predict(arrays: List[Any]) -> List[Any]:
                inputs = remote.inputs_of(model, arrays, names, used)
                with devices.cpu(keras):
                    return remote.outputs_of(model.predict_on_batch(inputs))
            return predict
        return make


# Horovod has these for each framework.
KerasEstimatorParamsWriter, KerasEstimatorParamsWritable = HorovodParamsWriter, Writable
KerasEstimatorParamsReader, KerasEstimatorParamsReadable = HorovodParamsReader, Readable
