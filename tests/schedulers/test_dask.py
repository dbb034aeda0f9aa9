# SPDX-License-Identifier: Apache-2.0
"""reigen.dask on a real cluster of Dask's."""
import json

import pytest


@pytest.fixture(scope='module')
def told(program, tmp_path_factory):
    """By the name of the job: {'result': ...} or {'error': its class, 'text': ...}"""
    lines = program('dask', 'dask_job.py', tmp_path_factory.mktemp('dask')).splitlines()
    return {line['name']: line for line in map(json.loads, lines)}


def test_workers_are_ranks_and_results_in_their_order(told):
    result = told['all']['result']
    assert [rank[:4] for rank in result] == [[i, 3, i, 24.0] for i in range(3)]
    assert len({pid for *_, pid in result}) == 3


def test_some_workers_and_one(told):
    assert [rank[:4] for rank in told['two']['result']] == [[0, 2, 0, 3.0], [1, 2, 1, 3.0]]
    assert [rank[:4] for rank in told['named']['result']] == [[0, 1, 0, 0.0]]
    # The same processes as before: no start, no import.
    before = {rank[4] for rank in told['all']['result']}
    assert {rank[4] for rank in told['two']['result']} < before


def test_what_a_rank_raises_is_raised_and_not_what_followed(told):
    assert told['fails'] == {'name': 'fails', 'error': 'KeyError', 'text': "'a bad column'"}


def test_a_lost_worker_ends_the_job_and_the_next_one_runs(told):
    assert told['dies']['error'] == 'RuntimeError'
    assert told['dies']['text'].startswith('the worker tcp://'), told['dies']
    assert told['dies']['text'].endswith(' was lost')
    assert [rank[1] for rank in told['after']['result']] == [3, 3, 3]


def test_a_lost_worker_that_was_alone_is_not_waited_for(told):
    assert told['alone']['error'] == 'RuntimeError', told['alone']
    assert told['alone']['text'].endswith(' was lost')


def test_ctrl_c_ends_the_operations_of_the_ranks(told):
    assert told['interrupted']['error'] == 'KeyboardInterrupt'
    assert [rank[1] for rank in told['again']['result']] == [2, 2]


@pytest.mark.parametrize('name, text', [
    ('few', '3/4 workers'), ('none', 'tcp://127.0.0.1:1 is no worker of this cluster, which has'),
    ('twice', 'names one of them twice'), ('zero', 'np is 0'),
    ('async', 'this client is asynchronous'),
])
def test_workers_that_cannot_be_had(told, name, text):
    assert text in told[name]['text'], told[name]
