# SPDX-License-Identifier: Apache-2.0
"""An estimator of Spark's ML that trains a Keras model: KerasEstimator, and its KerasModel."""
from horovod.spark.keras.estimator import KerasEstimator, KerasModel

__all__ = ['KerasEstimator', 'KerasModel']
