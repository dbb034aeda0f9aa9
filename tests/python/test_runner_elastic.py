# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs that are started from Python: what Horovod's own suite of them asks for, and
functions that are run so. Both hosts are this computer, by two of its names."""
import json
import os
import re
import sys

import pytest

import jobs
from test_runner import launch  # and with it, where the packages are

import scheduled  # noqa: E402
from horovod.runner import gloo_run, run  # noqa: E402
from horovod.runner.elastic import constants, discovery, driver, settings  # noqa: E402

FAILED = 'Horovod detected that one or more processes exited with non-zero status'
A, B = 'localhost', '127.0.0.1'


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Scripts are asked often; ranks find the packages of the source tree."""
    monkeypatch.setattr(driver, 'DISCOVER_HOSTS_FREQUENCY_SECS', 0.05)
    monkeypatch.setenv('REIGEN_LAUNCHER', str(jobs.ROOT / '.venv/bin/reigen'))
    monkeypatch.setenv('PYTHONPATH', str(jobs.ROOT / 'bindings/python'))
    monkeypatch.setenv('PYTHONDONTWRITEBYTECODE', '1')


@pytest.fixture
def log(tmp_path):
    return tmp_path / 'log'


def lines(log):
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.fixture
def job(log, tmp_path):
    """job(schedule, options, **what scheduled.run() takes): the lines of its log. schedule: the
    hosts when the log has no line, one, and so on."""
    def start(schedule, options, **told):
        log.unlink(missing_ok=True)
        script = tmp_path / 'discover'
        script.write_text(f'#!/bin/sh\ncase $(cat {log} 2>/dev/null | wc -l) in\n' + ''.join(
            f'{n if n + 1 < len(schedule) else "*"}) printf "%s\\n" {" ".join(hosts)};;\n'
            for n, hosts in enumerate(schedule)) + 'esac\n')
        script.chmod(0o755)
        hosts = [] if '-H' in options else ['--host-discovery-script', str(script)]
        args = launch.parse_args([*options.split(), *hosts, jobs.python(), scheduled.__file__,
                                  str(log), json.dumps(told)])
        launch._run_elastic(args)
        return lines(log)
    return start


@pytest.mark.parametrize('slots', [1, 2])
def test_hosts_are_added_and_removed(job, slots):
    a, b = f'{A}:{slots}', f'{B}:{slots}'
    found = job([[a], [a, b], [b]],
                f'-np {slots} --min-num-proc {slots} --max-num-proc {2 * slots}', changes=[0, 1])
    assert found == [{'first': 0, 'host': A, 'size': slots, 'meeting': 1},
                     {'first': 0, 'host': A, 'size': 2 * slots, 'meeting': 2},
                     {'first': slots, 'host': B, 'size': slots, 'meeting': 3}]


@pytest.mark.parametrize('hosts', ['--max-num-proc 4', f'-H {A}:2,{B}:2'], ids=['script', 'list'])
@pytest.mark.parametrize('kill', [False, True], ids=['exception', 'kill'])
def test_a_rank_that_fails_costs_its_host(job, hosts, kill):
    found = job([[f'{A}:2', f'{B}:2']], f'-np 2 --min-num-proc 2 {hosts}', exits=[1, [0]],
                kill=kill)
    after = {'first': 2, 'host': B, 'size': 2, 'meeting': 2}
    assert found == [{'first': 0, 'host': A, 'size': 4, 'meeting': 1}, after, after]


@pytest.mark.parametrize('ranks', [[0, 1, 2, 3], [0, 2]], ids=['ranks', 'hosts'])
def test_when_all_fail_the_job_does(job, ranks, capfd):
    with pytest.raises(RuntimeError, match=FAILED):
        job([[f'{A}:2', f'{B}:2']], '-np 2 --min-num-proc 2 --max-num-proc 4', exits=[1, ranks])
    said = capfd.readouterr().err
    # Those who were ended because their host had failed were not signalled by the user.
    assert re.search("exit code 1, the rank('s|s') own", said), said
    assert 'was sent signal' not in said


def test_too_few_hosts_end_the_job_in_time(job, monkeypatch):
    monkeypatch.setattr(driver, 'ELASTIC_TIMEOUT_SECS', 1)
    with pytest.raises(RuntimeError, match=FAILED):
        job([[f'{A}:2', f'{B}:2']], '-np 4 --min-num-proc 4 --max-num-proc 4', exits=[1, [0]])


def test_a_reset_too_many_is_told_as_such(job, monkeypatch):
    # It is not for those who join: they may need more time to load.
    monkeypatch.setattr(driver, 'ELASTIC_TIMEOUT_SECS', 1)
    schedule = [[f'{A}:1'], [f'{A}:1', f'{B}:1'], [f'{B}:1']]
    options = '-np 1 --min-num-proc 1 --max-num-proc 2 --reset-limit'
    with pytest.raises(RuntimeError, match=constants.RESET_LIMIT_EXCEEDED_MESSAGE.format(1)):
        job(schedule, f'{options} 1', changes=[0, 1])
    assert len(job(schedule, f'{options} 2', changes=[0, 1])) == 3


def test_a_function_brings_back_what_the_last_ranks_return(log):
    """Though a rank has failed, and the numbers of the others have changed."""
    found = run(scheduled.run, args=(str(log), [1, [0]]), num_proc=2, min_num_proc=1,
                hosts=f'{A}:1,{B}:1', executable=jobs.python())
    assert found == [(0, 1, scheduled.EPOCHS * scheduled.BATCHES)]
    assert [one['size'] for one in lines(log)] == [2, 1, 1]


def test_a_function_that_fails_on_all_ranks_tells_its_traceback(log):
    with pytest.raises(RuntimeError, match=r'(?s)' + FAILED + '.*fails as it was told'):
        run(scheduled.run, args=(str(log), [1, [0, 1]]), num_proc=2, min_num_proc=1,
            hosts=f'{A}:1,{B}:1', executable=jobs.python())


class Known(discovery.HostDiscovery):
    """Hosts as the log has lines; it breaks now and then."""

    def __init__(self, log):
        self.log, self.asked = log, 0

    def find_available_hosts_and_slots(self):
        self.asked += 1
        if self.asked % 3 == 2:
            raise OSError('it is busy')
        return {A: 1, B: 1} if self.log.exists() else {A: 1}


def test_an_object_of_ones_own_can_say_which_hosts_there_are(log, capfd):
    known = Known(log)
    asked = settings.ElasticSettings(known, min_num_proc=1, max_num_proc=2, elastic_timeout=60,
                                     reset_limit=None, num_proc=1)
    found = gloo_run.gloo_run_elastic(asked, dict(os.environ), [
        jobs.python(), scheduled.__file__, str(log), json.dumps({'changes': [0]})])
    assert found is None
    assert [one['size'] for one in lines(log)] == [1, 2, 2]
    assert 'Known: it is busy; the hosts stay as they are' in capfd.readouterr().err


def test_an_object_that_fails_at_first_ends_it_at_once(log):
    known = Known(log)
    known.asked = 1
    asked = settings.ElasticSettings(known, min_num_proc=1, max_num_proc=2, elastic_timeout=60,
                                     reset_limit=None, num_proc=1)
    with pytest.raises(OSError, match='it is busy'):
        gloo_run.gloo_run_elastic(asked, None, [sys.executable, '-c', ''])


def test_horovods_driver_is_named_as_absent():
    assert (driver.ELASTIC_TIMEOUT_SECS, gloo_run._get_min_start_hosts(None)) == (600, 1)
    with pytest.raises(ImportError, match=r'horovod.run\(\) and horovodrun'):
        driver.ElasticDriver  # pylint: disable=pointless-statement
