# SPDX-License-Identifier: Apache-2.0
"""An estimator of Spark's ML that trains a Keras model: KerasEstimator, and its KerasModel."""
import horovod.spark.common  # noqa: F401 (first: it says what is missing)
from horovod.spark.keras.estimator import KerasEstimator, KerasModel

__all__ = ['KerasEstimator', 'KerasModel']
