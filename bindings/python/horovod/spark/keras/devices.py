# SPDX-License-Identifier: Apache-2.0
"""Where Keras computes. Spark calls several functions in one process, one after the other: what is
said here must not bind those that come later."""
import contextlib
from typing import Any, ContextManager, List

from horovod.spark.common import running


def _is_torch(keras: Any) -> bool:
    return getattr(keras.backend, 'backend', lambda: 'tensorflow')() == 'torch'


def _shared_gpus(tf: Any) -> List[Any]:
    """This host's GPUs, of whose memory TensorFlow shall take what it needs, not all."""
    gpus = tf.config.list_physical_devices('GPU')
    for one in gpus:
        with contextlib.suppress(RuntimeError):  # it computes already, as it was told then
            tf.config.experimental.set_memory_growth(one, True)
    return gpus


def cpu(keras: Any) -> ContextManager:
    """Models that are loaded and called within compute on the CPU."""
    if _is_torch(keras):
        return keras.device('cpu')
    import tensorflow as tf
    _shared_gpus(tf)
    return tf.device('CPU')


def of_rank(keras: Any, hvd: Any, use_gpu: bool) -> ContextManager:
    """Within, Keras computes on this rank's GPU; without any, or use_gpu, on the CPU."""
    if not use_gpu:
        return cpu(keras)
    if _is_torch(keras):
        import torch
        if torch.cuda.is_available():
            torch.cuda.set_device(running.gpu(hvd, torch.cuda.device_count(),
                                              running.uuids(torch.cuda)))
        return contextlib.nullcontext()
    import tensorflow as tf
    gpus = _shared_gpus(tf)
    if not gpus:
        return contextlib.nullcontext()
    mine = running.gpu(hvd, len(gpus))
    try:
        tf.config.set_visible_devices([gpus[mine]], 'GPU')
        return contextlib.nullcontext()
    except RuntimeError:  # this process has computed before: with that GPU alone, or with all
        found = tf.config.list_logical_devices('GPU')
        return tf.device(found[mine if mine < len(found) else 0].name)
