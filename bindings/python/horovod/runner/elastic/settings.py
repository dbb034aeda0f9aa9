# SPDX-License-Identifier: Apache-2.0
"""What an elastic job was asked to be."""
from typing import Any, Optional, Sequence

from horovod.runner.common.util.settings import BaseSettings


class ElasticSettings(BaseSettings):
    """A job on the hosts that discovery finds, with min_num_proc to max_num_proc ranks."""

    def __init__(self, discovery: Any, min_num_proc: int, max_num_proc: Optional[int],
                 elastic_timeout: Optional[int], reset_limit: Optional[int],
                 cooldown_range: Optional[Sequence[int]] = None, **kwargs: Any):
        super().__init__(elastic=True, **kwargs)
        self.discovery = discovery
        self.min_num_proc = min_num_proc
        self.max_num_proc = max_num_proc
        self.elastic_timeout = elastic_timeout
        self.reset_limit = reset_limit
        self.cooldown_range = cooldown_range
