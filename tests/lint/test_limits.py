# SPDX-License-Identifier: Apache-2.0
"""What a test may take follows from what it took before (tests/took.py, tests/limited.py)."""
import json
import os
import subprocess
import sys

import pytest

import limited
import repo
import took

HANGS = """
import subprocess
import time
import pytest
from wait import until

@pytest.fixture(scope='module')
def slow():
    time.sleep(1)  # patient: longer than the test itself may take

def test_hangs(slow):
    time.sleep(600)  # patient: hangs on purpose

def test_waits(slow):
    command = ['sh', '-c', 'echo begun; exec sleep 600']
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            child.communicate(timeout=6000)
        finally:
            child.kill()

def test_sees(slow):
    until(lambda: 0, 'pigs to fly', 6000)

def test_is_new(slow):
    time.sleep(1)  # patient: longer than one that is known may take
"""


@pytest.fixture(name='quiet')
def _quiet(monkeypatch):
    monkeypatch.setattr(took, 'patience', lambda: 2)


def test_the_record_remembers_the_slowest_run_and_forgets_it_by_and_by(tmp_path):
    path = tmp_path / 'new/took.json'
    assert took.measured(path) == {}
    took.add({'a': 8, 'b': 1}, path)
    took.add({'a': 4}, path)
    assert took.measured(path) == {'a': 7, 'b': 1}
    took.add({'a': 9}, path)
    assert took.measured(path)['a'] == 9
    path.write_text('no JSON')
    assert took.measured(path) == {}


def test_what_is_committed_holds_where_nothing_was_measured(tmp_path):
    path = tmp_path / 'took.txt'
    path.write_text('# seconds, name\n12 hosts/test_a.py::test_b[c d]\n')
    assert took.committed(path) == {'hosts/test_a.py::test_b[c d]': 12}
    assert all(seconds >= took.LISTED_S for seconds in took.committed().values())


def test_a_limit_is_ten_times_what_it_took_before_and_more_on_a_busy_machine(quiet):
    del quiet
    times = {'slow': 30, 'quick': 0.1}
    assert took.limit_s('slow', 60, times) == 600
    assert took.limit_s('quick', 60, times) == 40
    assert took.limit_s('quick', 60, times, 45) == 90
    assert took.limit_s('unknown', 60, times) == 120


def in_a_process(code):
    return subprocess.run([sys.executable, '-c', f'import sys, limited; {code}'], text=True,
                          capture_output=True, check=False, timeout=60,
                          env={**os.environ, 'PYTHONPATH': str(repo.ROOT / 'tests')})


def test_a_program_that_hangs_is_killed_with_all_that_it_started():
    begun = 'echo $$; setsid sh -c "echo \\$\\$; sleep 600" & wait'
    done = in_a_process(f'sys.exit(limited.run(["sh", "-c", {begun!r}], 1))')
    assert done.returncode == limited.HANG_STATUS, done.stderr
    assert 'not over within 1 s; what it does:' in done.stderr
    assert 'sleep 600' in done.stderr and ', S (sleeping), in the kernel at ' in done.stderr
    pids = done.stdout.split()
    assert len(pids) == 2 and not any(os.path.exists(f'/proc/{pid}') for pid in pids)


@pytest.mark.parametrize('script, status', [('exit 0', 0), ('exit 7', 7), ('kill -9 $$', 137)])
def test_a_program_that_ends_keeps_its_status(script, status):
    assert in_a_process(f'sys.exit(limited.run(["sh", "-c", {script!r}], 60))').returncode == status


def test_each_build_has_times_of_its_own(tmp_path):
    program = tmp_path / 'build-asan/tests/test_base_buf'
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    assert limited.name_of(['setarch', '-R', str(program), 'corpus']) == \
        ('build-asan', 'build-asan/test_base_buf')


def test_pytest_limits_a_test_by_its_record_and_its_setup_by_the_general_limit(tmp_path):
    (tmp_path / 'test_it.py').write_text(HANGS)
    (tmp_path / 'pytest.ini').write_text('[pytest]\ntimeout = 600\ntimeout_method = signal\n')
    (tmp_path / 'took.json').write_text(json.dumps({f'test_it.py::test_{name}': 0.01 for name in
                                                   ('hangs', 'waits', 'sees')}))
    done = subprocess.run(
        [sys.executable, '-m', 'pytest', '-q', '-p', 'conftest', '-c', 'pytest.ini'], cwd=tmp_path,
        text=True, capture_output=True, check=False, timeout=120,
        env={**os.environ, 'PYTHONPATH': str(repo.ROOT / 'tests'), 'REIGEN_BED_DIR': str(tmp_path),
             'REIGEN_TEST_PATIENCE': '0.02', 'PYTHONDONTWRITEBYTECODE': '1'})
    assert '3 failed, 1 passed' in done.stdout, done.stdout + done.stderr
    assert 'waited for: the end of "sh -c echo begun; exec sleep 600", which had written ' \
        "['begun\\n']" in done.stdout, done.stdout
    assert 'this was waited for: pigs to fly; last seen: 0' in done.stdout, done.stdout
    assert 'Timeout >0.9' in done.stdout, done.stdout
    record = took.measured(tmp_path / 'took.json')
    assert record['test_it.py::test_hangs'] == 0.01 and record['test_it.py::test_is_new'] >= 1
