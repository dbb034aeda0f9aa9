# SPDX-License-Identifier: Apache-2.0
"""Loading data beside the training."""
from horovod.data.data_loader_base import AsyncDataLoaderMixin, BaseDataLoader

__all__ = ['AsyncDataLoaderMixin', 'BaseDataLoader']
