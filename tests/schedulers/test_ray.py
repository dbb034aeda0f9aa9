# SPDX-License-Identifier: Apache-2.0
"""horovod.ray on a real cluster of Ray's with two nodes."""
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / 'behaviour'))
from processes import assert_gone  # noqa: E402

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope='module')
def lines(program, tmp_path_factory):
    temp = tempfile.mkdtemp(prefix='ray-', dir='/tmp')  # Ray's sockets need a short path
    folder = tmp_path_factory.mktemp('ray')
    try:
        printed = program('ray', 'ray_job.py', folder, temp).splitlines()
        yield [*printed, *(folder / 'told').read_text(encoding='utf-8').splitlines()]
        assert_gone(temp)
    finally:
        shutil.rmtree(temp, ignore_errors=True)


@pytest.fixture(scope='module')
def told(lines):
    """By the name of the job: {'result': ...} or {'error': its class, 'text': ...}"""
    found = [json.loads(line) for line in lines if line.startswith('{')]
    return {line['name']: line for line in found}


def test_workers_are_ranks_and_stay(told, lines):
    assert [rank[:3] for rank in told['work']['result']] == [[0, 2, 15.0], [1, 2, 15.0]]
    assert [rank[:3] for rank in told['again']['result']] == [[0, 2, 3.0], [1, 2, 3.0]]
    assert [rank[3] for rank in told['work']['result']] == \
        [rank[3] for rank in told['again']['result']]
    assert any(re.search(r'BaseHorovodWorker pid=\d+.*worker says \d', line) for line in lines)


def test_the_key_of_the_job_is_in_none_of_rays_files(told):
    assert told['secret']['result'] == [True, 0]


def test_objects_of_the_callers_live_in_the_workers(told):
    assert told['objects']['result'] == [[13.0, 'hello']] * 2
    assert told['single']['result'] == 6
    # Where all fail by themselves, or one that is called alone does, the job stays.
    assert told['single fails']['text'].startswith('rank 0 on ')
    assert 'ValueError: each says no' in told['each']['text']
    assert told['objects after']['result'] == [[13.0, 'hello']] * 2
    assert re.match(r'rank 0 on \S+ failed: ValueError: no such model\n',
                    told['refuses']['text']), told['refuses']


def test_what_ranks_log_comes_to_callbacks(told):
    assert told['logs']['result'] == [{'all': '0'}, {'all': '1'}, {'rank': '0', 'step': 1}]
    assert told['remote']['result'] == [4, 4]


def test_what_a_rank_raises_is_told_with_its_traceback_and_not_what_followed(told):
    assert told['fails']['error'] == 'JobFailed'
    text = told['fails']['text']
    assert re.match(r"rank 1 on \S+ failed: KeyError: 'a bad column'\nray::", text), text
    assert 'ray_job.py' in text and 'After it failed: rank 0' in text and '\x1b' not in text
    assert re.search(r'rank 1 on \S+ did not call init\(\) within 0.2 s', told['uneven']['text'])
    assert [rank[:2] for rank in told['after']['result']] == [[0, 2], [1, 2]]
    assert told['remote fails']['error'] == 'RayTaskError(KeyError)'


def test_ctrl_c_ends_the_operations_of_the_ranks(told):
    assert told['interrupted']['error'] == 'KeyboardInterrupt'
    assert [rank[:2] for rank in told['after interrupt']['result']] == [[0, 2], [1, 2]]


def test_a_worker_that_dies_is_named(told):
    assert re.match(r'rank 1 on \S+ was lost: its process \d+ has ended\n', told['dies']['text'])
    assert re.fullmatch(r'rank 1 on \S+ was lost: shutdown\(\) and start\(\) make other workers',
                        told['after death']['text'])
    assert re.match(r'rank 1 on \S+ failed: ValueError: the first\n', told['never ends']['text'])


def test_so_many_workers_on_so_many_nodes_with_their_gpus(told):
    ranks = told['hosts']['result']
    assert [rank[:2] for rank in ranks] == [[rank, 4] for rank in range(4)]
    assert ranks[0][5] == ranks[1][5] != ranks[2][5] == ranks[3][5]
    # Both nodes are on this machine, whose ranks see the GPUs of all, each its own first or second.
    assert {rank[4] for rank in ranks} == {'0,1,0,1'}


def test_placement_groups(told):
    assert told['group']['result'] == [True, True]
    assert '3 workers of 1 CPU do not fit in the current placement group, 2 bundles of 1 CPU: 2' \
        in told['small group']['text']
    text = told['no room']['text']
    assert told['no room']['error'] == 'TimeoutError' and re.match(
        'Ray did not give 3 bundles of 1 CPU, each on a node of its own, within 2 s .*'
        'There are 2 nodes: .* Of all, 4 CPU and 4 GPU are free$', text), text
    assert told['free']['result'] == [4.0, 4.0]


def test_an_elastic_job_goes_on_when_a_worker_dies_and_another_one_comes(told):
    """The survivor keeps its process and its state."""
    first, second = told['goes on']['result']
    assert first[:2] == [0, 'hello'] and second[:2] == [1, 'hello']
    assert first[2] == first[3] == second[3] != second[2]
    assert first[4] == second[4] == 1  # each sees the GPUs of both
    assert told['heard']['result'] == [0, 1]


def test_a_slot_that_goes_costs_no_step(told):
    assert told['shrinks']['result'] == [[0, 0]]


def test_hosts_are_found(told):
    assert [[*one.values()] for one in told['discovery']['result']] == [[2]] * 3


def test_a_worker_that_ray_kills_as_memory_is_short(told):
    """Maybe before it runs anything."""
    assert re.match(r'(rank 0 on \S+|A worker) was lost: Ray killed it, as its node was short of '
                    'memory', told['memory']['text']), told['memory']


def test_an_elastic_job_says_of_each_worker_that_ray_kills_for_memory(told):
    """Also where it goes on with another one."""
    line = (r'horovod\.ray: a worker on \S+ was lost: Ray killed it, as its node was short of '
            r'memory\. Have fewer workers there, or let Ray use more of it by \S+')
    said = told['elastic memory said']['result']
    found = [index for index, one in enumerate(said) if re.fullmatch(line, one)]
    assert found and any(': epoch ' in one for one in said[found[0]:]), said
    assert 'it was lost: Ray killed it' in told['elastic memory']['text'], told['elastic memory']


def test_workers_that_ray_killed_for_memory_are_counted(told):
    why = ': Ray killed it, as its node was short of memory. '
    none, one, two = told['losses']['result']
    assert none == '' and one.startswith(f'A worker on node1 was lost{why}')
    assert two.startswith(f'2 workers were lost, the last one on node2{why}')


def test_of_workers_that_are_lost_one_that_ray_killed_is_named(told):
    cause, lost, dead = told['lost together']['result']
    assert cause.startswith('rank 2 on node2 was lost: Ray killed it, ')
    assert lost == [2, 1, 0] and dead == 'rank 2 on node2 was lost'


@pytest.mark.parametrize('name, error, text', [
    ('early', 'RuntimeError', 'there are no workers: start() makes them'),
    ('unsendable', 'TypeError', 'lock, a _thread.lock, which <lambda>() uses, cannot be sent'),
    ('unreturnable', 'JobFailed', "cannot pickle '_thread.lock' object"),
    ('exits', 'JobFailed', 'sys.exit(3) was called, and brings no result'),
    ('both', 'ValueError', 'give one of num_workers and num_hosts'),
    ('zero', 'ValueError', 'num_workers is 0'), ('gpus', 'ValueError', 'use_gpu is False'),
    ('unknown', 'TypeError', "no argument 'shape'"),
    ('no workers', 'NotImplementedError', 'has workers while run() or execute() goes on'),
    ('reset limit', 'JobFailed', 'the ranks have changed as often as reset_limit=0 permits\n'
     'rank 1 on '),
    ('no slots', 'TimeoutError', '0 of 1 workers have come within 1 s (elastic_timeout). Hosts '
     'that were found, with their slots: {}.'),
    ('train', 'ImportError', 'Import HorovodTrainer and HorovodConfig from horovod.ray.train'),
    ('strategies', 'ImportError', 'RayExecutor places workers: by num_workers, '),
    ('no pandas', 'ImportError', 'pip install "ray[train]"'),
    ('sizes', 'ValueError', '3 to 2 workers'), ('cooldown', 'ValueError', 'cooldown_range: '),
    ('no discovery', 'ValueError', 'settings.discovery is not given'),
])
def test_what_cannot_be(told, name, error, text):
    assert told[name]['error'] == error and text in told[name]['text'], told[name]


def test_without_ray_the_import_says_what_to_install():
    code = "import sys; sys.modules['ray'] = None; import horovod.ray"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=60,
                          check=False, env={'PYTHONPATH': str(root / 'bindings/python')})
    assert 'pip install ray' in done.stderr, done.stderr


def test_ray_lightning_trains_by_its_horovod_strategy(program, tmp_path):
    """An application that calls RayExecutor (docs/applications.md)."""
    temp = tempfile.mkdtemp(prefix='ray-', dir='/tmp')
    try:
        printed = program('apps', 'ray_lightning_job.py', tmp_path, temp)
        assert_gone(temp)
    finally:
        shutil.rmtree(temp, ignore_errors=True)
    ends = [(tmp_path / f'rank{rank}').read_text(encoding='utf-8') for rank in (0, 1)]
    assert ends[0] == ends[1] and ends[0].startswith('[0, 1] 4 '), ends  # half the batches each
    said = printed.splitlines()[-1]
    weight, bias = json.loads(said.removeprefix('here '))
    assert abs(weight[0][0] - 3) < 0.1 and abs(bias[0] - 1) < 0.1, printed
    assert said.removeprefix('here ') in ends[0]
