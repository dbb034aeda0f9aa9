# SPDX-License-Identifier: Apache-2.0
"""What the training functions of all frameworks are told, and do alike, on a rank."""
import json
import math
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from horovod.spark.common.preparing import Prepared
from horovod.spark.common.reading import Batch, Dataset, Reader


class Run(NamedTuple):
    """What an estimator has been told that no framework has to know of; it travels to the ranks."""
    features: List[str]
    labels: List[str]
    weight: Optional[str]
    label_shapes: Optional[List[List[int]]]
    data: Prepared
    store: Any
    run_id: str
    epochs: int
    batch_size: int
    val_batch_size: int
    steps: Optional[int]
    val_steps: Optional[int]
    seed: Optional[int]
    shuffle: bool
    block_rows: Optional[int]
    cache: bool
    ahead: bool
    val_ahead: bool
    transform: Optional[Callable]
    use_gpu: bool
    verbose: int

    def reader(self, data: Dataset, training: bool, hvd: Any, fill: bool = False) -> Reader:
        """This rank's share of these rows. fill: all ranks take equally many steps, as they always
        do in training."""
        return Reader(self.store.fs, data, hvd.rank(), hvd.size(),
                      self.batch_size if training else self.val_batch_size,
                      columns=[*self.features, *self.labels,
                               *([self.weight] if self.weight else [])],
                      fill=fill or training, shuffle=training and self.shuffle,
                      block_rows=self.block_rows, seed=self.seed or 0, cache=self.cache,
                      transform=self.transform, ahead=self.ahead if training else self.val_ahead)

    def check_numbers(self, batch: Batch) -> None:
        """TypeError that names a column of which no tensor can be made."""
        for name in [*self.features, *self.labels]:
            if batch[name].dtype == object and isinstance(batch[name].flat[0], (str, bytes)):
                raise TypeError(f'column {name!r} has text, or bytes that differ in length: make '
                                'numbers of them by transformation_fn')

    def labels_of(self, batch: Batch, kind: Any) -> List[np.ndarray]:
        """The labels in their shapes: whole numbers as int64, others as that kind."""
        arrays = [np.array(batch[name], np.int64 if batch[name].dtype.kind in 'iu' else kind)
                  for name in self.labels]
        return arrays if not self.label_shapes else \
            [array.reshape(tuple(shape)) for array, shape in zip(arrays, self.label_shapes)]

    def end(self, done: int, last: int) -> int:
        """The epoch before which a run ends that has done so many of last epochs: an interrupted
        one goes on to its end, and one that had ended trains as many again."""
        return last if done < last else done + self.epochs

    def other_model(self, path: str, error: Exception) -> ValueError:
        """What is wrong when the run's state in that file does not fit."""
        return ValueError(f'run_id {self.run_id!r} has the checkpoint {path} of another model or '
                          f'optimizer: take another run_id, or remove it ({error})')

    def write_history(self, epochs: Sequence[Dict[str, Any]]) -> None:
        """Into the run's logs, a line for each epoch."""
        self.store.write_text(f'{self.store.get_logs_path(self.run_id)}/history.jsonl',
                              ''.join(json.dumps(_plain(one)) + '\n' for one in epochs))


def _plain(value: Any) -> Any:
    """The same for JSON, which has no word for what is not a number or infinite: null."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def gpu(hvd: Any, count: int, uuids: Sequence[str] = ()) -> int:
    """Which of the count GPUs that this process sees a rank takes: what Spark has given it, or by
    its local rank, also where HOROVOD_SPARK_USE_LOCAL_RANK_GPU_INDEX is 1. uuids: of those that it
    sees, where the framework knows them. ValueError where that GPU is none of them."""
    from horovod.spark.task import get_available_devices
    given = get_available_devices()
    if not given or os.environ.get('HOROVOD_SPARK_USE_LOCAL_RANK_GPU_INDEX') == '1':
        return hvd.local_rank() % count
    visible = os.environ.get('CUDA_VISIBLE_DEVICES', '').replace(' ', '').split(',')
    for names in (visible[:count], uuids):
        if given[0] in names:
            return names.index(given[0])
    if given[0].isdecimal() and int(given[0]) < count:
        return int(given[0])
    raise ValueError(f'Spark has given rank {hvd.rank()} the GPU {given[0]!r}, and that is none of '
                     f'the {count} that its process sees: let the discovery script tell their '
                     'indices, or take them by local rank with '
                     'HOROVOD_SPARK_USE_LOCAL_RANK_GPU_INDEX=1')


def uuids(cuda: Any) -> List[str]:
    """Of the GPUs that PyTorch sees, as nvidia-smi names them; none where it does not tell."""
    found = [getattr(cuda.get_device_properties(i), 'uuid', None)
             for i in range(cuda.device_count())]
    return [f'GPU-{one}' for one in found if one is not None]
