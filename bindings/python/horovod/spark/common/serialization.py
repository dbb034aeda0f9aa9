# SPDX-License-Identifier: Apache-2.0
"""Where Horovod has what writes and reads estimators and their models."""
from horovod.spark.common.estimator import HorovodParamsReader, HorovodParamsWriter

__all__ = ['HorovodParamsReader', 'HorovodParamsWriter']
