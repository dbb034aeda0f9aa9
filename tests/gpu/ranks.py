# SPDX-License-Identifier: Apache-2.0
"""Ranks for make check-gpu: the program itself, once for each, on the first GPU."""
import os
import socket
import subprocess
import sys
from typing import Callable

LIMIT_S = 400


def main(check: Callable[[str], None]) -> int:
    """usage: PROGRAM RANKS [WHERE]. In a rank: check(WHERE). Else: start the ranks, and wait."""
    where = sys.argv[2] if len(sys.argv) > 2 else 'gpu'
    if 'RANK' in os.environ:
        check(where)
        return 0
    size = int(sys.argv[1])
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    env = {**os.environ, 'WORLD_SIZE': str(size), 'MASTER_ADDR': '127.0.0.1',
           'MASTER_PORT': str(port)}
    ranks = [subprocess.Popen([sys.executable, *sys.argv],
                              env={**env, 'RANK': str(rank), 'LOCAL_RANK': str(rank)})
             for rank in range(size)]
    try:
        return max(rank.wait(LIMIT_S) != 0 for rank in ranks)
    finally:
        for rank in ranks:
            rank.kill()
