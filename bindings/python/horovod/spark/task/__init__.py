# SPDX-License-Identifier: Apache-2.0
"""What Spark has given the task in which a rank runs."""
from typing import List

#: The addresses of this rank's GPUs, while a function of horovod.spark.run() is called.
_gpus: List[str] = []


def get_available_devices() -> List[str]:
    """The GPUs that Spark has given this rank, by its addresses: ['0'], or [] without any."""
    return list(_gpus)
