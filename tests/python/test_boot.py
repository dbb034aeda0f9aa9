# SPDX-License-Identifier: Apache-2.0
"""reigen.boot: ranks in processes that something else has placed."""
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading

import pytest

import jobs

sys.path.insert(0, str(jobs.ROOT / 'bindings/python'))


@pytest.fixture
def boot(monkeypatch):
    monkeypatch.setenv('REIGEN_LIBRARY', jobs.library())
    from reigen import boot as module
    return module


@pytest.fixture
def join(tmp_path):
    """join(machine, ...): a process on each, which have ended; what they print."""
    def start(*machines):
        ranks = [jobs.Ranks(1, [jobs.HERE / 'ranks/boot.py', tmp_path, index, len(machines),
                                machine]) for index, machine in enumerate(machines)]
        try:
            statuses = [one.wait()[0] for one in ranks]
            texts = [one.text(0) for one in ranks]
            assert statuses == [0] * len(machines), texts
            return texts
        finally:
            for one in ranks:
                one.close()
    return start


def test_processes_of_a_machine_follow_each_other(join):
    texts = join('a', 'b', 'a', 'b')
    found = [re.match(r'rank (\d) on (\w): 10, ', text).groups() for text in texts]
    assert found == [('0', 'a'), ('2', 'b'), ('1', 'a'), ('3', 'b')]
    # In truth they are on one.
    assert sorted(re.findall(r', (\d) of 4$', '\n'.join(texts), re.M)) == list('0123')
    assert all('again: ' in text and 'already' in text for text in texts), texts


def test_one_process_needs_nobody(join):
    assert join('a')[0].startswith('rank 0 on a: 1, 0 of 1\n')


def test_the_example_runs():
    done = subprocess.run([jobs.python(), jobs.ROOT / 'examples/boot.py'], capture_output=True,
                          text=True, timeout=120, check=False,
                          env={'PYTHONPATH': str(jobs.ROOT / 'bindings/python'),
                               'PATH': '/usr/bin:/bin', 'REIGEN_LIBRARY': jobs.library()})
    assert sorted(done.stdout.splitlines()) == [f'rank {i} of 4: 10' for i in range(4)], done


def test_ctrl_c_ends_who_waits_in_allgather(tmp_path):
    ranks = jobs.Ranks(1, [jobs.HERE / 'ranks/boot.py', tmp_path, 0, 2, 'stands'])
    try:
        ranks.wait_for(0, 'waits')
        ranks.processes[0].send_signal(signal.SIGINT)
        assert ranks.wait() != [0]
        assert 'KeyboardInterrupt' in ranks.text(0)
    finally:
        ranks.close()


def other(boot, **words):
    return json.dumps({**json.loads(boot._about_me(1, 2)), **words}).encode()


@pytest.mark.parametrize('answer, error, text', [
    (lambda boot, blob: [blob], ValueError, 'returned 1 entries, where size is 2'),
    (lambda boot, blob: [blob, 'x'], TypeError, 'str for process 1: it is to return bytes'),
    (lambda boot, blob: [other(boot), blob], ValueError, 'process 1 handed over in the place of'),
    (lambda boot, blob: [blob, other(boot, size=3)], ValueError, 'process 1 joins 3 processes'),
    (lambda boot, blob: [blob, other(boot, version='9')], ValueError, 'process 1 has Reigen 9'),
    (lambda boot, blob: [blob, other(boot)][:1 / 0], ZeroDivisionError, 'division'),
])
def test_what_does_not_fit_is_told(boot, answer, error, text):
    with pytest.raises(error, match=text):
        boot.join(lambda blob, timeout: answer(boot, blob), 0, 2)


def test_an_error_of_a_later_exchange_is_raised_as_it_is(boot):
    turns = itertools.count()

    def allgather(blob, timeout):
        if next(turns):
            raise LookupError('the table has gone')
        return [blob, other(boot)]
    with pytest.raises(LookupError, match='the table has gone'):
        boot.join(allgather, 0, 2)


def test_an_index_that_is_none(boot):
    with pytest.raises(ValueError, match='index 2 is not one of 2 processes'):
        boot.join(None, 2, 2)


def test_a_function_without_limit_has_one(boot, monkeypatch):
    monkeypatch.setattr(boot, '_GRACE_S', 0.0)
    with pytest.raises(TimeoutError, match='did not return within 0.1 s'):
        boot.join(lambda blob, timeout: threading.Event().wait(), 0, 2, timeout=0.1)


def test_without_dask_its_module_says_what_to_install(boot):
    code = "import sys; sys.modules['distributed'] = None; import reigen.dask"
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                          timeout=60, check=False,
                          env={**os.environ, 'PYTHONPATH': str(jobs.ROOT / 'bindings/python')})
    assert 'pip install distributed' in done.stderr
