# SPDX-License-Identifier: Apache-2.0
"""Horovod's Python interface over Reigen's runtime: `import horovod.torch as hvd`."""

__version__ = '0.28.1+reigen'
