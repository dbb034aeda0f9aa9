# SPDX-License-Identifier: Apache-2.0
"""Databricks' way to call a training function of Horovod's from a notebook, on horovod.spark.

    from sparkdl import HorovodRunner
    HorovodRunner(np=4).run(train, epochs=3)
"""
from sparkdl.runner import HorovodRunner

__all__ = ['HorovodRunner']
