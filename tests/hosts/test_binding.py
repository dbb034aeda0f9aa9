# SPDX-License-Identifier: Apache-2.0
"""--bind-to on hosts reached by ssh, and containers kept to the CPUs of who starts them."""
import re

import pytest

from bed.cores import SHOW, cores, expand
from built import PROGRAMS

IMAGES = pytest.mark.parametrize('image', [(), ('--image', 'base')], ids=['bare', 'container'])


def reigen(node, *arguments, before=(), **kwargs):
    return node.run([*before, PROGRAMS.reigen, 'run', '--no-tag-output', *arguments, '--', 'sh',
                     '-c', f'echo $REIGEN_RANK $OMP_NUM_THREADS $({SHOW})'], timeout=120, **kwargs)


def bound(done):
    """{rank: its cpus}."""
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line.split() for line in done.stdout.splitlines()]
    return {int(rank): expand(text) for rank, _, text in told}


@IMAGES
def test_every_host_binds_its_ranks_to_its_own_cores(clean2, image):
    n = min(len(cores()), 2)
    done = reigen(clean2[1], '-H', f'node1:{n},node2:{n}', '--bind-to', 'core',
                  '--report-bindings', *image)
    assert bound(done) == {h * n + i: cores()[i] for h in range(2) for i in range(n)}, done.stderr
    reported = dict(re.findall(r'rank (\d) on node\d: cpus ([\d,-]+)', done.stderr))
    assert {int(rank): expand(text) for rank, text in reported.items()} == bound(done)
    for line in done.stdout.splitlines():
        rank, threads, _ = line.split()
        assert 1 <= int(threads) <= len(bound(done)[int(rank)]), done.stdout


def test_a_bound_rank_has_as_many_threads_as_cpus(clean2):
    done = reigen(clean2[1], '-H', 'node1:1,node2:1', '--bind-to', 'core')
    assert {int(line.split()[1]) for line in done.stdout.splitlines()} == {len(cores()[0])}


@IMAGES
def test_threads_that_the_user_chose_hold_on_every_host(clean2, image):
    done = reigen(clean2[1], '-H', 'node1:1,node2:1', *image, env={'OMP_NUM_THREADS': '17'})
    assert [line.split()[1] for line in done.stdout.splitlines()] == ['17', '17'], done.stderr


def test_a_socket_is_all_its_cores(clean2):
    done = reigen(clean2[1], '-H', 'node2:1', '--bind-to', 'socket')
    assert bound(done)[0] >= cores()[0], done.stderr


def test_more_ranks_than_a_host_has_cores_are_refused_or_not_bound(clean2):
    n = len(cores())
    options = ['-H', f'node2:{n + 1}', '--bind-to', 'core']
    done = reigen(clean2[1], *options)
    assert done.returncode == 2, done.stderr
    assert f'{n + 1} ranks on node2, which has {n} core' in done.stderr, done.stderr
    done = reigen(clean2[1], *options, '--oversubscribe')
    assert bound(done) == {r: set().union(*cores()) for r in range(n + 1)}
    assert f'node2: {n + 1} ranks on {n} core' in done.stderr, done.stderr


def test_a_containers_own_limit_counts(clean2):
    last = max(cores()[-1])
    done = reigen(clean2[1], '-H', 'node2:1', '--image', 'base', '--bind-to', 'core',
                  f'--container-option=--cpuset-cpus={last}')
    assert bound(done) == {0: {last}}, done.stderr


def test_a_container_is_kept_to_the_cpus_of_who_starts_it(clean2):
    last = max(cores()[-1])
    done = reigen(clean2[1], '-np', '1', '--image', 'base', before=['taskset', '-c', str(last)])
    assert bound(done) == {0: {last}}, done.stderr
