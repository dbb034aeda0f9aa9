# SPDX-License-Identifier: Apache-2.0
"""Broadcasting the variables of a graph of TensorFlow 1."""
from typing import Any

import tensorflow as tf

from horovod.tensorflow.functions import broadcast_variables

_EAGER = ('hvd.broadcast_global_variables() does not support eager execution. Please use '
          '`hvd.broadcast_variables(<model/optimizer variables>)` instead.')


def broadcast_global_variables(root_rank: int):
    """An operation that gives all global variables of the graph the values of root_rank."""
    if tf.executing_eagerly():
        raise RuntimeError(_EAGER)
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """For MonitoredTrainingSession: all ranks start from the values of root_rank, whether they were
    initialised or restored from its checkpoint."""

    def __init__(self, root_rank: int, device: str = ''):
        self.root_rank = root_rank
        self.device = device
        self.bcast_op: Any = None

    def begin(self):
        if self.bcast_op is None or self.bcast_op.graph is not tf.compat.v1.get_default_graph():
            with tf.device(self.device or None):
                self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session, coord):
        session.run(self.bcast_op)
