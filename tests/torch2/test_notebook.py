# SPDX-License-Identifier: Apache-2.0
"""reigen.run() and horovod.run() in a real Jupyter kernel."""
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from wait import until

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.timeout(300)

TRAIN = '''
class Rate:
    factor = 10
def train(rate, fail=None):
    import os, reigen
    reigen.init()
    print('step 1', flush=True)
    if reigen.rank() == fail:
        raise ValueError('this <one>')
    return reigen.rank(), rate * Rate.factor
'''
BARS = '''
def bars():
    import sys, time
    sys.stderr.write('\\r10 %|#')
    print('a line', flush=True)
    sys.stdin.read()
    sys.stderr.write('\\r100 %|##########\\n')
reigen.run(bars, np=2)
'''
LAST = '''
def last():
    import os, time
    try:
        print(f'pid {os.getpid()} is here', flush=True)
        time.sleep(600)
    finally:
        print('left', flush=True)
'''


@pytest.fixture(scope='module')
def python():
    done = subprocess.run([ROOT / 'tools/frameworks.sh', 'jupyter'], capture_output=True, text=True,
                          timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture
def cells(python, tmp_path):
    """What a kernel shows of each of these cells."""
    def run(*codes):
        site = subprocess.run([ROOT / '.venv/bin/python', '-c',
                               'import sysconfig; print(sysconfig.get_path("purelib"))'],
                              capture_output=True, text=True, check=True).stdout.strip()
        (tmp_path / 'cells').write_text(json.dumps(
            [code if isinstance(code, dict) else {'code': code} for code in codes]))
        done = subprocess.run(
            [python, Path(__file__).parent / 'notebook.py', tmp_path / 'cells'], text=True,
            capture_output=True, timeout=280, check=False, env={
                **os.environ, 'PYTHONPATH': site, 'NO_COLOR': '1', 'PYTHONDONTWRITEBYTECODE': '',
                'REIGEN_LAUNCHER': str(ROOT / '.venv/bin/reigen'), 'HOME': str(tmp_path),
                'JUPYTER_RUNTIME_DIR': str(tmp_path / 'runtime'),
                'IPYTHONDIR': str(tmp_path / 'ipython')})
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]
    return run


def gone(pid):
    try:
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] == 'Z'
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_function_of_a_cell_is_run_and_shown_and_fails_readably(cells):
    _, good, bars, bad, error, horovod, theirs = cells(
        f'import reigen, horovod\n{TRAIN}', 'reigen.run(train, args=(0.5,), np=2)', BARS,
        'reigen.run(train, args=(0.5, 1), np=2)', 'import sys; sys.last_value',
        'horovod.run(train, args=(0.5,), np=2)', 'horovod.run(train, args=(0.5, 1), np=2)')
    assert good['value']['text/plain'] == horovod['value']['text/plain'] == '[(0, 5.0), (1, 5.0)]'
    assert sorted(good['stdout'].splitlines()) == ['[0] step 1', '[1] step 1']
    assert '[0] a line\n' in bars['stdout'] and '[1] a line\n' in bars['stdout']
    assert sorted(bars['stderr'].splitlines()) == ['[0] 100 %|##########', '[1] 100 %|##########']
    # The failing line, by the cell it stands in; the call; nothing of what is between.
    told = bad['error']
    assert told['name'] == 'JobFailed' and 'rank 1 on' in told['shown']
    assert re.search(r"Cell In\[1\], line \d+, in train\n +raise ValueError\('this <one>'\)\n"
                     r'ValueError: this <one>', told['shown'])
    assert re.search(r'Cell In\[4\], line 1', told['shown'])
    assert '_follow.py' not in told['shown'] and 'interactiveshell' not in told['shown']
    assert 'Traceback' not in bad['stderr']
    assert 'this &lt;one&gt;' in error['value']['text/html']
    assert 'Horovod detected that' in theirs['error']['shown']
    assert 'ValueError: this <one>' in theirs['error']['shown']


def test_an_interrupt_ends_the_job_and_the_kernel_goes_on(cells):
    run, theirs, alive, killed = cells(
        {'code': f'import reigen, horovod\n{LAST}\nreigen.run(last, np=2)', 'interrupt': 'is here'},
        {'code': 'horovod.run(last, np=2)', 'interrupt': 'is here'}, '1 + 2',
        {'code': 'reigen.run(last, np=2)', 'kill': 'is here'})
    for one in (run, theirs):
        assert one['error']['name'] == 'KeyboardInterrupt'
        assert 'left' in one['stdout']
        assert all(map(gone, re.findall(r'pid (\d+)', one['stdout'])))
    assert alive['value']['text/plain'] == '3'
    # The kernel itself was killed: nobody was there to end the job.
    pids = re.findall(r'pid (\d+)', killed['stdout'])
    until(lambda: pids and all(map(gone, pids)), 'the end of the ranks', 30)
