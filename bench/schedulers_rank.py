# SPDX-License-Identifier: Apache-2.0
"""What bench/schedulers.py has ranks do, wherever they are."""
import time


def nothing():
    return None


def reduces(sizes):
    """On a rank: seconds that an allreduce of each of these sizes takes, as the mean of the middle
    three fifths."""
    import numpy as np

    import reigen
    reigen.init()
    found = []
    for nbytes, count in sizes:
        data = np.ones(nbytes // 4, np.float32)
        times = []
        for _ in range(count):
            begun = time.perf_counter()
            reigen.allreduce(data, op=reigen.Sum, name=f'x{nbytes}')
            times.append(time.perf_counter() - begun)
        times = sorted(times)[count // 5:-count // 5]
        found.append(sum(times) / len(times))
    reigen.shutdown()
    return found
