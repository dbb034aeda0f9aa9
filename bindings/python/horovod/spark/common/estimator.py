# SPDX-License-Identifier: Apache-2.0
"""What estimators of all frameworks do: a DataFrame becomes Parquet in the store, the backend calls
a training function on the ranks, and its result becomes a model that transforms DataFrames."""
import contextlib
import json
import math
import os
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import numpy as np
from pyspark.ml import Estimator, Model
from pyspark.ml.util import (DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader,
                             MLWritable, MLWriter)

from horovod.spark.common import preparing, reading
from horovod.spark.common.backend import SparkBackend
from horovod.spark.common.params import EstimatorParams, ModelParams
from horovod.spark.common.running import Run

#: Rows that a model predicts at once.
_PREDICTED_ROWS = 1024
#: Of a file of those that save() writes, and how many of them Spark has in its memory at once.
_PART_NBYTES, _PARTS_AT_ONCE = 4 << 20, 16


class HorovodParamsWriter(MLWriter):
    """Writes what has been set, pickled together: a model and its optimizer stay a pair. Besides
    Spark's metadata there are parts of it, in Parquet, since a model may have any size."""

    def __init__(self, instance: Any):
        super().__init__()
        self.instance = instance

    def saveImpl(self, path: str) -> None:
        data = self.instance._dumps({param.name: value for param, value
                                     in self.instance._paramMap.items()})
        DefaultParamsWriter.saveMetadata(self.instance, path, self.sparkSession, paramMap={},
                                         extraMetadata={'pickled': len(data)})
        step = _PART_NBYTES * _PARTS_AT_ONCE
        for begin in range(0, len(data), step):
            parts = [(first, data[first:first + _PART_NBYTES]) for first in range(
                begin, min(begin + step, len(data)), _PART_NBYTES)]
            # Each part is a task, and a file: Spark limits what it sends at once.
            rows = self.sparkSession.sparkContext.parallelize(parts, len(parts))
            frame = self.sparkSession.createDataFrame(rows, 'first long, data binary')
            frame.write.mode('append').option('compression', 'uncompressed').parquet(
                f'{path}/pickled')


class HorovodParamsReader(MLReader):
    """Reads it. It must come from a friend: pickles are programs."""

    def __init__(self, cls: type):
        super().__init__()
        self.cls = cls

    @contextlib.contextmanager
    def _one_by_one(self) -> Iterator[None]:
        """Each file is a task: Spark would read several into its memory at once."""
        conf, name = self.sparkSession.conf, 'spark.sql.files.maxPartitionBytes'
        before = conf.get(name)
        conf.set(name, str(_PART_NBYTES + (1 << 20)))
        try:
            yield
        finally:
            conf.set(name, before)

    def load(self, path: str) -> Any:
        metadata = DefaultParamsReader.loadMetadata(path, self.sparkSession)
        data = bytearray(metadata['pickled'])
        found = 0
        with self._one_by_one():
            frame = self.sparkSession.read.parquet(f'{path}/pickled')
            for row in frame.rdd.toLocalIterator():
                data[row['first']:row['first'] + len(row['data'])] = row['data']
                found += len(row['data'])
        if found != len(data):
            raise ValueError(f'{path}/pickled has {found} bytes, not {len(data)}: save it again')
        instance = self.cls()
        instance._resetUid(metadata['uid'])
        instance._set(**instance._loads(data))
        return instance


class Writable(MLWritable):
    def _dumps(self, values: Dict[str, Any]) -> bytes:
        import cloudpickle
        return cloudpickle.dumps(values)

    def write(self) -> HorovodParamsWriter:
        return HorovodParamsWriter(self)


class Readable(MLReadable):
    @classmethod
    def _loads(cls, data: bytes) -> Any:
        import cloudpickle
        return cloudpickle.loads(data)

    @classmethod
    def read(cls) -> HorovodParamsReader:
        return HorovodParamsReader(cls)


class HorovodEstimator(Estimator, EstimatorParams, Writable, Readable):
    """fit() trains on a DataFrame, fit_on_parquet() on what the store has."""

    def fit_on_parquet(self, params: Optional[Dict[Any, Any]] = None,
                       dataset_idx: Any = None) -> Any:
        """Train on the Parquet that lies at the store's get_train_data_path(dataset_idx), and with
        validation at get_val_data_path(dataset_idx)."""
        mine = self.copy(params) if params else self
        mine._check()
        data = preparing.find(mine.getStore(), dataset_idx, mine._columns(),
                              bool(mine.getValidation()))
        return mine._fit_on(data, mine._get_backend())

    def _fit(self, df: Any) -> Any:
        self._check()
        backend = self._get_backend()
        data = preparing.prepare(
            df, self.getStore(), self._columns(), self.getValidation() or None,
            backend.num_processes() * self.getPartitionsPerProcess(), self.getRandomSeed() or 0,
            self.getTransformationFn() is not None)
        return self._fit_on(data, backend)

    def _columns(self) -> List[str]:
        weight = self.getSampleWeightCol()
        return list(dict.fromkeys([*self.getFeatureCols(), *self.getLabelCols(),
                                   *([weight] if weight else [])]))

    def _check(self) -> None:
        self._refuse()
        self.getStore().check_writable()

    def _get_backend(self) -> Any:
        backend, num_proc = self.getBackend(), self.getNumProc()
        if backend is not None and num_proc is not None:
            raise ValueError('backend and num_proc: tell one of them')
        return backend or SparkBackend(num_proc, verbose=self.getVerbose())

    def _fit_on(self, data: preparing.Prepared, backend: Any) -> Any:
        if self.getTransformationFn() is None:
            text = [one.name for one in data.train.columns if one.dtype == 'object' or
                    one.kind == 'bytes' and not one.shape]
            if text:
                raise TypeError(reading.TEXT.format(text[0]))
        run_id = self.getRunId() or f'run_{int(time.time())}_{os.urandom(3).hex()}'
        return self._train(data, backend, run_id)

    def _run(self, data: preparing.Prepared, run_id: str) -> Run:
        """What the ranks are told of it, whatever the framework."""
        return Run(
            features=self.getFeatureCols(), labels=self.getLabelCols(),
            weight=self.getSampleWeightCol(), label_shapes=self.getLabelShapes(), data=data,
            store=self.getStore(), run_id=run_id, epochs=self.getEpochs(),
            batch_size=self.getBatchSize(),
            val_batch_size=self.getValBatchSize() or self.getBatchSize(),
            steps=self.getTrainStepsPerEpoch(), val_steps=self.getValidationStepsPerEpoch(),
            seed=self.getRandomSeed(), shuffle=self.getShuffle(),
            block_rows=self.getShufflingBufferSize(), cache=self.getInMemoryCacheAll(),
            ahead=self.getTrainReaderNumWorker() > 0, val_ahead=self.getValReaderNumWorker() > 0,
            transform=self.getTransformationFn(), use_gpu=self.getUseGpu(),
            verbose=self.getVerbose())

    @contextlib.contextmanager
    def _handed_over(self) -> Iterator[str]:
        """A path in the store, at which rank 0 leaves what it has for this program: Spark limits
        what all tasks together may return (spark.driver.maxResultSize)."""
        store = self.getStore()
        folder = f'{store.get_runs_path()}/.returned-{os.urandom(6).hex()}'
        try:
            yield f'{folder}/state'
        finally:
            with contextlib.suppress(OSError):  # what went wrong before says more
                store.remove(folder)

    def _train(self, data: preparing.Prepared, backend: Any, run_id: str) -> Any:
        """The framework's part: its model."""
        raise NotImplementedError


def as_array(value: Any) -> np.ndarray:
    """A cell of Spark's."""
    if hasattr(value, 'toArray'):  # a vector of Spark's ML
        return value.toArray()
    return np.frombuffer(value, np.uint8) if isinstance(value, (bytes, bytearray)) else \
        np.asarray(value)


def _fields(output: np.ndarray, kind: str) -> List[Any]:
    """Spark's value of each row of an output; kind: see HorovodModel._kinds()."""
    from pyspark.ml.linalg import DenseVector
    flat = np.asarray(output, np.float64).reshape(len(output), -1)
    if kind == 'vector':
        return [DenseVector(row) for row in flat]
    numbers = flat[:, 0].tolist()
    return numbers if kind != 'long' else \
        [round(value) if math.isfinite(value) else None for value in numbers]


def _predicted(rows: Iterator[Any], kinds: Sequence[str],
               make: Callable[[], Callable]) -> Iterator[Any]:
    """Within a task: the rows, and behind them what the model says."""
    predict = make()

    def batch(held: List[Any]) -> Iterator[Any]:
        columns = [_fields(output, kind) for output, kind in zip(predict(held), kinds)]
        for row, *more in zip(held, *columns):
            yield (*row, *more)

    held: List[Any] = []
    for row in rows:
        held.append(row)
        if len(held) == _PREDICTED_ROWS:
            yield from batch(held)
            held = []
    if held:
        yield from batch(held)


class HorovodModel(Model, ModelParams, Writable, Readable):
    """transform() adds what the model predicts."""

    def getOutputCols(self) -> List[str]:
        """The columns that transform() adds: LABEL__output unless told."""
        return self.getOrDefault('outputCols') or \
            [f'{name}__output' for name in self.getLabelColumns()]

    def _predictor(self) -> Callable[[], Callable]:
        """A function that travels: it makes one of the features' arrays that returns a list of
        outputs' arrays."""
        raise NotImplementedError

    def _of_rows(self) -> Callable[[], Callable]:
        """The same, of a list of Spark's rows."""
        features, make = list(self.getFeatureColumns()), self._predictor()

        def make_of_rows() -> Callable:
            predict = make()
            return lambda rows: predict(
                [np.stack([as_array(row[name]) for row in rows]) for name in features])
        return make_of_rows

    def _about(self) -> Dict[str, Any]:
        """What metadata() has made."""
        return json.loads(self.getOrDefault('_metadata') or '{}')

    def _sizes(self) -> Optional[List[int]]:
        """Elements of each output for one row; None: a row is tried."""
        return self._about().get('sizes')

    def _kinds(self, df: Any) -> List[str]:
        """Of each output: 'vector', 'long' or 'double'. One number for a label of whole numbers is
        rounded, as Horovod does; null where it is NaN."""
        known, sizes = self._about(), self._sizes()
        if sizes is None:
            first = df.first()
            if first is None:
                return ['double'] * len(self.getLabelColumns())
            sizes = [int(np.prod(output.shape[1:])) for output in self._of_rows()()([first])]
        labels = known.get('labels') or [None] * len(sizes)
        return ['vector' if size != 1 or label == 'vector' else 'long' if label == 'long' else
                'double' for size, label in zip(sizes, labels)]

    def _transform(self, df: Any) -> Any:
        from pyspark.ml.linalg import VectorUDT
        from pyspark.sql import types
        preparing.check_columns(df, self.getFeatureColumns())
        kinds, names = self._kinds(df), self.getOutputCols()
        if len(kinds) != len(names):
            raise ValueError(f'the model has {len(kinds)} outputs, and {len(names)} columns are '
                             f'named: {", ".join(names)}')
        there = [name for name in names if name in df.columns]
        if there:
            raise ValueError(f'the DataFrame has a column {there[0]!r} already: drop it, or name '
                             'others by setOutputCols')
        made = {'vector': VectorUDT(), 'long': types.LongType(), 'double': types.DoubleType()}
        schema = types.StructType([*df.schema.fields, *[
            types.StructField(name, made[kind]) for name, kind in zip(names, kinds)]])
        make = self._of_rows()
        rows = df.rdd.mapPartitions(lambda part: _predicted(part, kinds, make))
        return df.sparkSession.createDataFrame(rows, schema, verifySchema=False)


def metadata(data: preparing.Prepared, labels: Sequence[str],
             sizes: Optional[Sequence[int]]) -> str:
    """What a model must know of its columns, for HorovodModel._kinds(). sizes: elements of each
    output for one row; None: transform() finds out."""
    kinds = []
    for name in labels:
        column = data.train.column(name)
        whole = column.kind == 'number' and np.dtype(column.dtype).kind in 'iu'
        kinds.append('vector' if column.kind == 'vector' else 'long' if whole else 'double')
    return json.dumps({'sizes': sizes and list(sizes), 'labels': kinds})
