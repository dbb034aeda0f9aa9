# SPDX-License-Identifier: Apache-2.0
"""An estimator of Spark's ML that trains a PyTorch model: TorchEstimator, and its TorchModel."""
import horovod.spark.common  # noqa: F401 (first: it says what is missing)
from horovod.spark.torch.estimator import TorchEstimator, TorchModel

__all__ = ['TorchEstimator', 'TorchModel']
