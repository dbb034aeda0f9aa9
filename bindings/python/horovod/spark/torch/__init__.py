# SPDX-License-Identifier: Apache-2.0
"""An estimator of Spark's ML that trains a PyTorch model: TorchEstimator, and its TorchModel."""
from horovod.spark.torch.estimator import TorchEstimator, TorchModel

__all__ = ['TorchEstimator', 'TorchModel']
