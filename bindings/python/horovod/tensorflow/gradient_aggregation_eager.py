# SPDX-License-Identifier: Apache-2.0
"""backward_passes_per_step, executed eagerly and in a tf.function."""
from typing import Any, Callable, List, Sequence

import tensorflow as tf

from horovod._keras.optimizer import batch_counter
from horovod.tensorflow.gradient_aggregation import (Aggregation, apply_op_to_not_none_tensors,
                                                     get_not_none_from_list)
from horovod.tensorflow.util import native


class LocalGradientAggregationHelperEager(Aggregation):
    """For the optimizers of Keras, 2 and 3."""

    def prepare(self, grads: Sequence[Any], variables: Sequence[Any]) -> None:
        # Out of the function that is being traced: its variables are made before it runs.
        with tf.init_scope():
            super().prepare(grads, variables)

    def compute_gradients(self, grads: Sequence[Any], vars: Sequence[Any]) -> List[Any]:
        """Add the gradients up; what the ranks reduced in every n-th batch, else the sums."""
        if self.backward_passes_per_step == 1:
            return self.local.apart(grads, vars, self.allreduce_grads)
        grads = self.local.filled(self._dense(grads), vars)
        self.prepare(grads, vars)
        if tf.executing_eagerly():
            return self._eagerly(grads, vars)
        for total, grad in zip(self.sums, grads):
            if total is not None and grad is not None:
                total.assign_add(grad)
        count = self.counter.assign_add(1)
        full = tf.equal(count, self.backward_passes_per_step)
        found = tf.cond(full, lambda: self.reduce_sums(vars),
                        lambda: [tf.convert_to_tensor(s)
                                 for s in get_not_none_from_list(self.sums)])
        return self.spread(found if isinstance(found, (list, tuple)) else [found])

    def _eagerly(self, grads: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """A gradient may come in a later batch for the first time, and on other ranks only."""
        for total, grad in zip(self.sums, grads):
            if grad is not None:
                total.assign_add(grad)
        if self.counter.assign_add(1) < self.backward_passes_per_step:
            return apply_op_to_not_none_tensors(tf.convert_to_tensor, self.sums)
        found = self.reduced(variables)
        for total in [self.counter, *self.totals()]:
            total.assign(tf.zeros_like(total))
        return found

    def apply_gradients(self, apply_grads_closure: Callable, optimizer: Any, *args, **kwargs):
        """Call the closure where the gradients have been reduced; otherwise only count the step
        (`optimizer.iterations`)."""
        if self.backward_passes_per_step == 1:
            return apply_grads_closure()

        def count_only():
            counter = batch_counter(optimizer)
            if counter is not None:
                native(counter).assign_add(1)

        if tf.executing_eagerly():
            if int(self.counter) == 0:
                return apply_grads_closure()
            return count_only()

        def apply():
            apply_grads_closure()
            return tf.constant(True)

        def count():
            count_only()
            return tf.constant(False)

        return tf.cond(tf.equal(self.counter, 0), apply, count)
