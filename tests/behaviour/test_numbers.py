# SPDX-License-Identifier: Apache-2.0
"""reigen status --json says what the ranks of a running job do, and who is waited for."""
import json
import subprocess

import pytest

from built import PROGRAMS, environment
from test_hosts import FAKE
from wait import until

LIMIT = 60


@pytest.fixture
def job(tmp_path):
    """Start a job of 3 ranks of `uneven`; the function that gives its numbers, by rank."""
    ssh = tmp_path / 'fake-ssh'
    ssh.write_text(FAKE.format(folder=tmp_path, before=':'))
    ssh.chmod(0o755)
    env = environment(XDG_STATE_HOME=tmp_path / 'state', HOME=tmp_path, REIGEN_SSH=ssh)
    jobs = []

    def ask(*words):
        done = subprocess.run([PROGRAMS.reigen, *words], env=env, text=True, capture_output=True,
                              timeout=LIMIT, check=False, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def start(slow_ms, all_ms, *options):
        jobs.append(subprocess.Popen(
            [PROGRAMS.reigen, 'run', '-np', '3', *options, '--',
             PROGRAMS.build / 'tests/programs/uneven',
             str(slow_ms), str(all_ms)], env=env, stdin=subprocess.DEVNULL))
        until(lambda: jobs[0].poll() is not None or ask('jobs', '--json'), 'the job', LIMIT)
        ident = ask('jobs', '--json')[0]['id']
        # Null until the launcher answers, which is a moment after the job is in the list.
        def numbers():
            assert jobs[0].poll() is None, 'the job has ended'
            return {one['rank']: one for one in ask('status', ident, '--json')['numbers'] or ()}

        return numbers

    yield start
    for one in jobs:
        one.terminate()
        one.wait(LIMIT)


def numbers_after(numbers, steps):
    """The numbers when each rank has taken so many steps."""
    def there():
        now = numbers()
        return len(now) == 3 and all(one['steps'] >= steps for one in now.values()) and now
    return until(there, f'{steps} steps', LIMIT)


@pytest.mark.parametrize('options', [(), ('-H', 'a:2,b:1'), ('-H', 'a:2,b:1', '--min-np', '2')])
def test_a_slow_rank_is_who_is_waited_for(job, options):
    """Also where two names are one computer, so that one rank tells the numbers of both."""
    now = numbers_after(job(100, 5, *options), 30)
    causing = {rank: one['causing'] for rank, one in now.items()}
    assert causing[1] > 1, now  # of the two others, who can wait 2 s in a second together
    assert causing[0] + causing[2] < causing[1] / 4, now
    assert now[0]['waiting'] > 0.5 and now[2]['waiting'] > 0.5 > now[1]['waiting'], now
    for one in now.values():
        assert one['operations'] >= 30 and one['bytes'] == 4 * one['operations'], now
        assert one['cpu_s'] > 0 and one['resident_bytes'] > 1 << 18 and one['age_s'] < LIMIT, now
        assert 0 < one['steps_per_s'] < 100 and one['step_s'] > 0.1, now  # 10, and tells late


def test_of_equal_ranks_nobody_is(job):
    now = numbers_after(job(0, 150), 20)
    assert all(one['causing'] < 0.5 for one in now.values()), now
