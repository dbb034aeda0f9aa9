# SPDX-License-Identifier: Apache-2.0
"""Parameters of estimators and their models, as Spark's: attributes, setX() and getX()."""
import copy
from typing import Any, Callable, Dict, FrozenSet, NamedTuple, Optional

from pyspark.ml.param import Param, Params, TypeConverters


class Known(NamedTuple):
    """A parameter. suffix: of its setter and getter, in Horovod's spelling."""
    name: str
    suffix: str
    default: Any
    doc: str
    converter: Optional[Callable[[Any], Any]] = None


def parameters(*known: Known) -> Callable[[type], type]:
    """Gives a class of Params those parameters."""
    def add(cls: type) -> type:
        for one in known:
            setattr(cls, one.name, Param(Params._dummy(), one.name, one.doc, one.converter))
            setattr(cls, f'set{one.suffix}', _setter(one.name))
            setattr(cls, f'get{one.suffix}', _getter(one.name))
        cls._known = {**getattr(cls, '_known', {}), **{one.name: one.default for one in known}}
        return cls
    return add


def _setter(name: str) -> Callable:
    def setter(self: Any, value: Any) -> Any:
        if value is None:
            self.clear(self.getParam(name))
            return self
        return self._set(**{name: value})
    setter.__doc__ = f'Set {name}; None: as at first. Returns this object.'
    return setter


def _getter(name: str) -> Callable:
    def getter(self: Any) -> Any:
        return self.getOrDefault(name)
    getter.__doc__ = f'{name}, or its default.'
    return getter


class Holder(Params):
    """Params that were made by parameters()."""
    _known: Dict[str, Any] = {}

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(**{name: copy.copy(value) if isinstance(value, (list, dict)) else value
                            for name, value in self._known.items()})

    def _set(self, **kwargs: Any) -> Any:
        """None leaves a parameter as it is."""
        return super()._set(**{name: value for name, value in kwargs.items() if value is not None})

    def setParams(self, **kwargs: Any) -> Any:
        """Several at once."""
        unknown = sorted(set(kwargs) - set(self._known))
        if unknown:
            raise TypeError(f'{type(self).__name__} has no parameter {unknown[0]!r}')
        return self._set(**kwargs)


_int, _text = TypeConverters.toInt, TypeConverters.toString
_bool, _texts = TypeConverters.toBoolean, TypeConverters.toListString


@parameters(
    Known('num_proc', 'NumProc', None, 'ranks; instead of backend', _int),
    Known('backend', 'Backend', None, 'what calls the training function on the ranks'),
    Known('store', 'Store', None, 'where data, checkpoints and logs are kept'),
    Known('model', 'Model', None, 'the model to train'),
    Known('optimizer', 'Optimizer', None, 'its optimizer'),
    Known('loss', 'Loss', None, 'a loss function, or one for each label'),
    Known('loss_weights', 'LossWeights', None, 'of the labels\' losses; equal unless told',
          TypeConverters.toListFloat),
    Known('metrics', 'Metrics', [], 'functions of outputs and labels'),
    Known('sample_weight_col', 'SampleWeightCol', None, 'column of the rows\' weights', _text),
    Known('feature_cols', 'FeatureCols', None, 'columns that the model takes', _texts),
    Known('label_cols', 'LabelCols', None, 'columns that it is to predict', _texts),
    Known('continuous_cols', 'ContinuousCols', None, 'refused', _texts),
    Known('categorical_cols', 'CategoricalCols', None, 'refused', _texts),
    Known('data_module', 'DataModule', None, 'refused'),
    Known('validation', 'Validation', None, 'the part of the rows, from 0 to 1, to validate with, '
          'or the column that is true in them'),
    Known('gradient_compression', 'GradientCompression', None, 'hvd.Compression.fp16, ...'),
    Known('compress_sparse_cols', 'CompressSparseCols', False, 'sparse vectors are stored so '
          'always', _bool),
    Known('batch_size', 'BatchSize', 32, 'rows of a step on each rank', _int),
    Known('val_batch_size', 'ValBatchSize', None, 'of validation; batch_size unless told', _int),
    Known('epochs', 'Epochs', 1, 'passes over the rows', _int),
    Known('train_steps_per_epoch', 'TrainStepsPerEpoch', None, 'on each rank; all rows unless told',
          _int),
    Known('validation_steps_per_epoch', 'ValidationStepsPerEpoch', None, 'the most on each rank; '
          'all rows unless told', _int),
    Known('callbacks', 'Callbacks', [], 'of the framework'),
    Known('verbose', 'Verbose', 1, '0: nothing is printed', _int),
    Known('random_seed', 'RandomSeed', None, 'of the framework, the split and the order', _int),
    Known('shuffle', 'Shuffle', True, 'rows are in another order in each epoch', _bool),
    Known('shuffle_buffer_size', 'ShufflingBufferSize', None, 'rows that are mixed in memory; '
          'as fit in 64 MB unless told; 0: no shuffling', _int),
    Known('partitions_per_process', 'PartitionsPerProcess', 10, 'Parquet files for each rank',
          _int),
    Known('run_id', 'RunId', None, 'of checkpoints and logs; a run that has some is resumed',
          _text),
    Known('transformation_fn', 'TransformationFn', None, 'makes of a pandas.DataFrame of rows '
          'another one'),
    Known('transformation_edit_fields', 'TransformationEditFields', None, 'not needed'),
    Known('transformation_removed_fields', 'TransformationRemovedFields', None, 'not needed'),
    Known('train_reader_num_workers', 'TrainReaderNumWorker', 2, '0: no thread reads ahead', _int),
    Known('val_reader_num_workers', 'ValReaderNumWorker', 2, '0: no thread reads ahead', _int),
    Known('reader_pool_type', 'ReaderPoolType', 'thread', 'threads read', _text),
    Known('label_shapes', 'LabelShapes', None, 'shapes of the labels\' batches'),
    Known('inmemory_cache_all', 'InMemoryCacheAll', False, 'each rank keeps its rows', _bool),
    Known('use_gpu', 'UseGpu', True, 'False: not, though there is one', _bool),
    Known('mp_start_method', 'MpStartMethod', None, 'refused', _text))
class EstimatorParams(Holder):
    """Of all estimators."""
    #: Of what most refuse, that which this one has.
    _taken: FrozenSet[str] = frozenset()

    def _refuse(self) -> None:
        """ValueError for what there is not, with what to use instead."""
        for name, instead in [
                ('data_module', 'Parquet is read by pyarrow: name columns by feature_cols, and '
                 'prepare rows by transformation_fn'),
                ('continuous_cols', 'name all columns by feature_cols'),
                ('categorical_cols', 'name all columns by feature_cols'),
                ('mp_start_method', 'threads read the rows, and no process is started')]:
            if name not in self._taken and self.getOrDefault(name) is not None:
                raise ValueError(f'{name}: there is none here; {instead}')
        if self.getReaderPoolType() not in (None, 'thread', 'dummy'):
            raise ValueError(f'reader_pool_type={self.getReaderPoolType()!r}: threads read the '
                             'rows; leave it out')
        for name in ('model', 'store', 'feature_cols', 'label_cols'):
            if not self.getOrDefault(name):
                raise ValueError(f'{name} is needed: {getattr(type(self), name).doc}')
        for name in ('batch_size', 'val_batch_size', 'epochs', 'partitions_per_process',
                     'train_steps_per_epoch', 'validation_steps_per_epoch'):
            value = self.getOrDefault(name)
            if value is not None and value < 1:
                raise ValueError(f'{name} is {value}: it is 1 or more')
        if (self.getShufflingBufferSize() or 0) < 0:
            raise ValueError(f'shuffle_buffer_size is {self.getShufflingBufferSize()}: it is a '
                             'number of rows, or 0 for no shuffling')
        for name in ('loss_weights', 'label_shapes'):
            each, labels = self.getOrDefault(name), self.getLabelCols()
            if each is not None and len(each) != len(labels):
                raise ValueError(f'{name}: {len(each)} for {len(labels)} label_cols: one for each')
        part = self.getValidation()
        if part is not None and not isinstance(part, str) and not 0 <= part < 1:
            raise ValueError(f'validation is {part}: it is the part of the rows, from 0 to less '
                             'than 1, or the name of a column')


@parameters(
    Known('history', 'History', None, 'what each epoch brought'),
    Known('model', 'Model', None, 'the trained model'),
    Known('feature_columns', 'FeatureColumns', None, 'columns that it takes', _texts),
    Known('label_columns', 'LabelColumns', None, 'columns that it predicts', _texts),
    Known('outputCols', 'OutputCols', None, 'the columns that transform() adds; LABEL__output '
          'unless told', _texts),
    Known('run_id', 'RunId', None, 'of the run that made it', _text),
    Known('_metadata', 'Metadata', None, 'of the columns'))
class ModelParams(Holder):
    """Of all trained models."""

    def setLabelColoumns(self, value: Any) -> Any:
        """setLabelColumns(), as Horovod spells it."""
        return self._set(label_columns=value)
