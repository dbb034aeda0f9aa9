# SPDX-License-Identifier: Apache-2.0
"""Broadcasts and gathers of more than one tensor: variables and Python objects.

Objects travel as pickled bytes, inside the job's own collectives only: every byte that is unpickled
came from another rank of this job.
"""
import pickle
from typing import Any, Callable, Iterable, List, Optional

import numpy as np
import tensorflow as tf

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow.mpi_ops import allgather, broadcast, broadcast_
from horovod.tensorflow.util import native
from reigen import _core


def broadcast_variables(variables: Iterable[Any], root_rank: int,
                        process_set: ProcessSet = global_process_set, inplace: bool = False):
    """Give every rank the variables' values on root_rank.

    Executed eagerly or in a tf.function it happens at once; in a graph of TensorFlow 1 an operation
    is returned that a session has to run. Keras 3's variables are taken as well. `inplace` lets
    the values be received where the variables lie.
    """
    variables = [native(v) for v in variables]
    if inplace:
        done = broadcast_(variables, root_rank, process_set=process_set) if variables else []
    else:
        # A list first: in a graph all are under way together.
        values = [broadcast(v, root_rank, process_set=process_set) for v in variables]
        done = [v.assign(value) for v, value in zip(variables, values)]
    return None if tf.executing_eagerly() else tf.group(*done)


def default_session() -> Any:
    """The session that the code around has opened, else that of Keras 2; None where neither is."""
    found = tf.compat.v1.get_default_session()
    if found is None:
        try:
            found = tf.compat.v1.keras.backend.get_session()
        except (AttributeError, ImportError):  # Keras 3 has no sessions.
            pass
    return found


def evaluate(fetch: Any, session=None, feed: Optional[dict] = None) -> Any:
    """What run() of the session gives: of the one given, the default one, or else a new one."""
    session = session or default_session()
    if session is not None:
        return session.run(fetch, feed)
    with tf.compat.v1.Session(graph=fetch.graph) as session:
        return session.run(fetch, feed)


def _value(tensor: tf.Tensor, session) -> np.ndarray:
    """The tensor's value: at once when executed eagerly, else from a session."""
    return tensor.numpy() if tf.executing_eagerly() else evaluate(tensor, session)


def _feed(array: np.ndarray):
    """The array as a tensor whose shape a graph does not fix."""
    if tf.executing_eagerly():
        return tf.convert_to_tensor(array)
    return tf.constant(array)


def broadcast_object_fn(root_rank: int = 0, session=None, name: str = None,
                        process_set: ProcessSet = global_process_set) -> Callable[[Any], Any]:
    """A function that does broadcast_object(). In a graph of TensorFlow 1 its operations are made
    once, however often it is called."""
    name = name or 'broadcast_object'
    if tf.executing_eagerly():
        def once(obj):
            data = _pickled(obj) if _sends(root_rank, process_set) else b''
            size = broadcast(tf.constant([len(data)], tf.int64), root_rank, f'{name}.size',
                             process_set=process_set)
            buffer = np.zeros(int(size[0]), np.uint8)
            buffer[:len(data)] = np.frombuffer(data, np.uint8)
            found = broadcast(tf.constant(buffer), root_rank, f'{name}.data',
                              process_set=process_set)
            return pickle.loads(found.numpy().tobytes())
        return once

    size_in = tf.compat.v1.placeholder(tf.int64, [1])
    data_in = tf.compat.v1.placeholder(tf.uint8, [None])
    size_out = broadcast(size_in, root_rank, f'{name}.size', process_set=process_set)
    data_out = broadcast(data_in, root_rank, f'{name}.data', process_set=process_set)

    def run(obj):
        data = _pickled(obj) if _sends(root_rank, process_set) else b''
        size = evaluate(size_out, session, {size_in: [len(data)]})
        buffer = np.zeros(int(size[0]), np.uint8)
        buffer[:len(data)] = np.frombuffer(data, np.uint8)
        return pickle.loads(evaluate(data_out, session, {data_in: buffer}).tobytes())

    return run


def _pickled(obj: Any) -> bytes:
    return pickle.dumps(obj, pickle.HIGHEST_PROTOCOL)


def _sends(root_rank: int, process_set: ProcessSet) -> bool:
    """Whether the broadcast is of this rank's data."""
    if process_set.process_set_id == 0 or not process_set.ranks:
        return _core.is_root(root_rank)
    return process_set.rank() == process_set.ranks.index(root_rank)


def broadcast_object(obj: Any, root_rank: int = 0, session=None, name: str = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """root_rank's object, on every rank. It must be one that pickle takes."""
    return broadcast_object_fn(root_rank, session, name, process_set)(obj)


def allgather_object(obj: Any, session=None, name: str = None,
                     process_set: ProcessSet = global_process_set) -> List[Any]:
    """The objects of all ranks of the set, in the order of ranks."""
    name = name or 'allgather_object'
    data = np.frombuffer(_pickled(obj), np.uint8)
    sizes = _value(allgather(_feed(np.array([len(data)], np.int64)), f'{name}.size',
                             process_set=process_set), session)
    everyones = _value(allgather(_feed(data), f'{name}.data', process_set=process_set), session)
    ends = np.cumsum(sizes)
    return [pickle.loads(everyones[end - size:end].tobytes()) for end, size in zip(ends, sizes)]
