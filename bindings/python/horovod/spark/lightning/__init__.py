# SPDX-License-Identifier: Apache-2.0
"""An estimator of Spark's ML that trains a LightningModule: LightningEstimator, and its
LightningModel. Horovod calls both as it does those of PyTorch."""
import horovod.spark.common  # noqa: F401 (first: it says what is missing)
from horovod.spark.lightning.estimator import (LightningEstimator, LightningModel, TorchEstimator,
                                               TorchModel)

__all__ = ['LightningEstimator', 'LightningModel', 'TorchEstimator', 'TorchModel']
