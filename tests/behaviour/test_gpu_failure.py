# SPDX-License-Identifier: Apache-2.0
"""What breaks on a GPU under `reigen run`, on the stand-ins for the driver and NCCL: the verdict
names the rank that failed first, with the words of NCCL or of the driver."""
import re

import pytest

import built
from ranks import SLOWER, program

NCCL, HOST = {}, {'REIGEN_PLANES': 'shm,tcp'}


def broken(reigen, variable, value, **more):
    env = built.environment(VICTIM_VARIABLE=variable, VICTIM_VALUE=value, **more)
    return reigen('run', '-np', 3, '--', *program('device'), env=env, timeout=60 * SLOWER)


@pytest.mark.sanitize
@pytest.mark.parametrize('after, notices', [(0, 0), (3, 0), (3, 1)],
                         ids=['init', 'middle', 'noticed'])
def test_a_rank_that_dies_in_nccl_is_named_as_on_cpus(reigen, after, notices):
    done = broken(reigen, 'STANDIN_NCCL_KILL_AFTER', after, STANDIN_NCCL_NOTICES=notices)
    assert done.returncode == 137, done.stderr
    assert 'rank 1 on localhost failed first: signal 9 (Killed)' in done.stderr, done
    # Those that the launcher did not end before say so, too.
    assert all(re.search(r'error -104 .*\brank 1\b', line)
               for line in done.stdout.splitlines() if 'error' in line), done


@pytest.mark.sanitize
@pytest.mark.parametrize('variable, value, env, words', [
    ('STANDIN_NCCL_ERROR_AFTER', 3, NCCL, 'an operation failed: NCCL failed: remote process '
     'exited or there was a network error (an error that was asked for)'),
    ('STANDIN_CUDA_ECC_AFTER', 40, NCCL, 'CUDA_ERROR_ECC_UNCORRECTABLE'),
    ('STANDIN_CUDA_ECC_AFTER', 40, HOST, 'CUDA_ERROR_ECC_UNCORRECTABLE')],
    ids=['nccl', 'ecc', 'ecc-host'])
def test_the_words_of_nccl_and_of_the_driver_are_in_the_verdict(reigen, variable, value, env,
                                                                words):
    done = broken(reigen, variable, value, **env)
    assert done.returncode == 5, done.stderr
    verdict = done.stderr[done.stderr.index('failed first'):]
    assert words in verdict.split('its last lines')[0], done.stderr
