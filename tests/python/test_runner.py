# SPDX-License-Identifier: Apache-2.0
"""horovod.run and horovod.runner."""
import io
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import jobs

sys.path.insert(0, str(jobs.ROOT / 'bindings/python'))
os.environ.setdefault('REIGEN_LIBRARY', jobs.library() or '')

from horovod import _other  # noqa: E402
from horovod.runner import _call, launch  # noqa: E402
from horovod.runner.common.util import (codec, config_parser, env, hosts,  # noqa: E402
                                        safe_shell_exec, secret, timeout)
from horovod.runner.elastic import discovery  # noqa: E402
from horovod.runner.gloo_run import MultiFile, create_slot_env_vars, get_run_command  # noqa: E402
from horovod.runner.util import network, streams, threads  # noqa: E402
from wait import soon, until  # noqa: E402

SCRIPT = '''
import os, sys
import horovod
from functions import lasting, failing, leaving, place

if __name__ == '__main__':
    print(horovod.run(place, args=(3,), kwargs={'more': 'x'}, np=2, use_gloo=True))
    try:
        horovod.run(failing, num_proc=2)
    except RuntimeError as error:
        print('refused:', ' '.join(str(error).split()))
    try:
        horovod.run(lambda: 7, num_proc=1)
    except Exception as error:
        print('lambda:', type(error).__name__, 'cloudpickle' in str(error))
    try:
        horovod.run(lasting, num_proc=1, hosts='no.such.host:1')
    except RuntimeError as error:
        print('host:', ' '.join(str(error).split()))
    try:
        horovod.run(leaving, args=('sys',), num_proc=1)
    except RuntimeError as error:
        print('exit:', str(error).splitlines()[-1])
    try:
        horovod.run(leaving, args=('os',), num_proc=2)
    except RuntimeError as error:
        print('gone:', error)
    print(os.listdir(os.environ['TMPDIR']))
'''
FUNCTIONS = '''
import os
def place(x, more=None):
    import reigen
    reigen.init()
    return (reigen.rank(), reigen.size(), x, more)
def failing():
    if os.environ['HOROVOD_RANK'] == '1':
        raise ValueError('this one')
def lasting():
    return 1
def leaving(how):
    import sys
    sys.exit(0) if how == 'sys' else os._exit(0) if os.environ['HOROVOD_RANK'] == '1' else None
'''


def test_run_calls_a_function_on_ranks_and_brings_back_what_it_returns(tmp_path):
    (tmp_path / 'script.py').write_text(SCRIPT)
    (tmp_path / 'functions.py').write_text(FUNCTIONS)
    # No cloudpickle: the plain path.
    (tmp_path / 'cloudpickle.py').write_text('raise ImportError\n')
    (tmp_path / 'tmp').mkdir()
    launcher = jobs.ROOT / '.venv/bin/reigen'
    done = subprocess.run([jobs.python(), tmp_path / 'script.py'], timeout=60, text=True,
                          capture_output=True, check=False, env={
                              **os.environ, 'PYTHONPATH': str(jobs.ROOT / 'bindings/python'),
                              'REIGEN_LAUNCHER': str(launcher), 'PYTHONDONTWRITEBYTECODE': '1',
                              'TMPDIR': str(tmp_path / 'tmp')})
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith('[0]')]
    assert lines[0] == "[(0, 2, 3, 'x'), (1, 2, 3, 'x')]"
    # Horovod's sentence, which programs look for, and then what happened.
    assert re.match(r'refused: Horovod detected that one or more processes exited with non-zero '
                    r'status.*Process name: 1 Exit code: 1 .*The function failed on rank 1:.* '
                    r'ValueError: this one', lines[1])
    assert lines[2] == 'lambda: PicklingError True'
    assert re.match(r'host: Horovod detected that .*Exit code: 69 .*`reigen explain 69`', lines[3])
    assert lines[4] == 'exit: SystemExit: 0'
    assert lines[5].startswith('gone: Rank 1 ended well but brought no result')
    assert lines[6] == '[]'


def test_the_module_is_the_command():
    done = subprocess.run([jobs.python(), '-m', 'horovod.runner', '--version'], timeout=30,
                          text=True, capture_output=True, check=False, env={
                              **os.environ, 'PYTHONPATH': str(jobs.ROOT / 'bindings/python')})
    assert done.stdout == '0.28.1+reigen\n', done.stderr


def test_python_and_the_program_know_the_same_flags():
    text = subprocess.run([jobs.ROOT / '.venv/bin/reigen', 'horovodrun', '--help'], timeout=30,
                          text=True, capture_output=True, check=True).stdout
    shown = set(re.findall(r'(?<![\w-])-{1,2}([A-Za-z][\w-]*)', re.sub(
        r'^ {20}.*', '', text.split('What runs')[1].split('For example')[0], flags=re.M)))
    known = set()
    original = launch.argparse.ArgumentParser.add_argument

    def noting(self, *names, **kwargs):
        known.update(n.lstrip('-') for n in names if n.startswith('-'))
        return original(self, *names, **kwargs)

    launch.argparse.ArgumentParser.add_argument = noting
    try:
        launch.parse_args(['-np', '1', 'x'])
    finally:
        launch.argparse.ArgumentParser.add_argument = original
    assert known - shown == set()
    assert shown - known == set()
    page = (jobs.ROOT / 'docs/horovodrun.md').read_text()
    assert [n for n in sorted(shown) if not re.search(rf'`-{{1,2}}{n}`', page)] == []


def test_arguments_become_the_ranks_variables():
    args = launch.parse_args(['-np', '2', '-H', 'a:2', '--fusion-threshold-mb', '2', '--autotune',
                              '--no-stall-check', '--log-without-timestamp', '--network-interface',
                              'eth0', '--blacklist-cooldown-range', '5', '9', 'python', '-np'])
    assert (args.num_proc, args.hosts, args.command) == (2, 'a:2', ['python', '-np'])
    assert (args.nics, args.cooldown_range) == ({'eth0'}, [5, 9])
    set_env = config_parser.set_env_from_args({}, args)
    assert set_env == {'HOROVOD_FUSION_THRESHOLD': str(2 << 20), 'HOROVOD_AUTOTUNE': '1',
                       'HOROVOD_STALL_CHECK_DISABLE': '1', 'HOROVOD_LOG_HIDE_TIME': '1'}
    config_parser.set_args_from_config(
        args, {'params': {'fusion_threshold_mb': 7, 'cache_capacity': 3},
               'stall_check': {'enabled': True}}, {'fusion_threshold_mb'})
    assert (args.fusion_threshold_mb, args.cache_capacity, args.no_stall_check) == (2, 3, False)
    with pytest.raises(ValueError, match='cycle_time_ms=-1.0 must be >= 0'):
        launch.parse_args(['-np', '1', '--cycle-time-ms', '-1', 'x'])


def test_ranks_are_dealt_out_over_hosts():
    slots = hosts.get_host_assignments(hosts.parse_hosts('a:2,b:1'), 1, 3)
    assert [s.to_response_string() for s in slots] == ['0,3,0,2,0,2', '1,3,1,2,0,1', '2,3,0,1,1,2']
    assert create_slot_env_vars(slots[2])['HOROVOD_HOSTNAME'] == 'b'
    assert create_slot_env_vars(slots[2])['HOROVOD_CROSS_RANK'] == '1'
    with pytest.raises(ValueError, match='Requested more processes'):
        hosts.get_host_assignments(hosts.parse_hosts('a:2'), 3)
    with pytest.raises(ValueError, match='Invalid host input'):
        hosts.parse_hosts('a')
    assert get_run_command('x y', '10.0.0.1', ['eth0'], 99).endswith(' x y')


def test_a_host_file_is_read(tmp_path):
    (tmp_path / 'hosts').write_text('a slots=2 # fast\n\nb:3\nc\n')
    assert hosts.parse_host_files(str(tmp_path / 'hosts')) == 'a:2,b:3,c:1'
    (tmp_path / 'marked').write_bytes(b'\xef\xbb\xbfa slots=2\r\nb:3\r\n')
    assert hosts.parse_host_files(str(tmp_path / 'marked')) == 'a:2,b:3'


def test_small_helpers_keep_their_contracts(monkeypatch):
    key = secret.make_secret_key()
    assert secret.check_digest(key, b'm', secret.compute_digest(key, b'm'))
    assert not secret.check_digest(key, b'n', secret.compute_digest(key, b'm'))
    assert codec.loads_base64(codec.dumps_base64({'a': (1, 2)})) == {'a': (1, 2)}
    assert not env.is_exportable('OLDPWD') and env.is_exportable('PATH')
    monkeypatch.setenv('HOROVOD_RANK', '3')
    monkeypatch.setenv('HOROVOD_SIZE', '4')
    assert env.get_env_rank_and_size() == (3, 4)
    with pytest.raises(timeout.TimeoutException, match='waiting for x, 0'):
        timeout.Timeout(0, 'waiting for {activity}, {timeout}').check_time_out_for('x')
    assert threads.execute_function_multithreaded(pow, [(2, 3), (3, 2)]) == {0: 8, 1: 9}
    both = [io.StringIO(), io.StringIO()]
    MultiFile(both).write('t')
    assert [f.getvalue() for f in both] == ['t', 't']
    assert '127.0.0.1' in network.get_local_host_addresses() and 'lo' in network.get_local_intfs()
    assert launch.is_gloo_used() and not launch.is_gloo_used(use_mpi=True)


def test_a_pipe_hands_buffers_from_thread_to_thread():
    pipe = streams.Pipe()
    writer = threads.in_thread(lambda: (pipe.write(b'abc'), pipe.write(b'd'), pipe.close()))
    assert [pipe.read(2), pipe.read(2), pipe.read(), pipe.read()] == [b'ab', b'c', b'd', None]
    writer.join(10)
    with pytest.raises(ValueError, match='Event must not be None'):
        threads.on_event(None, print)
    done = threading.Event()
    event = threading.Event()
    threads.on_event(event, done.set)
    event.set()
    assert done.wait(20)


def test_a_shell_command_is_ended_with_its_children():
    stop, out = threading.Event(), io.StringIO()
    assert safe_shell_exec.execute('echo hi; exit 3', stdout=out, index=5) == 3
    assert out.getvalue() == '[5]<stdout>:hi\n'
    threading.Timer(0.2, stop.set).start()
    start = time.monotonic()
    assert safe_shell_exec.execute('sleep 60 & wait', events=[stop]) != 0
    assert soon(start, 40)


EXECUTE = '''
import sys
from horovod.runner.common.util import safe_shell_exec
pid = sys.argv[1]
safe_shell_exec.execute(f'sleep 300 & echo $! >{pid}.new; mv {pid}.new {pid}; trap "" TERM; '
                        'sleep 300')
'''


def running(pid):
    try:
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] != 'Z'
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_shell_command_ends_with_a_parent_that_is_killed(tmp_path):
    child = subprocess.Popen([jobs.python(), '-c', EXECUTE, tmp_path / 'pid'], env={
        **os.environ, 'PYTHONPATH': str(jobs.ROOT / 'bindings/python')})
    until((tmp_path / 'pid').exists, 'the command', 60)
    sleeper = int((tmp_path / 'pid').read_text())
    group = os.getpgid(sleeper)
    assert running(sleeper) and running(group)
    child.kill()
    child.wait()
    until(lambda: not running(sleeper) and not running(group), 'its end', 60)


def test_hosts_that_come_and_go_keep_their_order(tmp_path):
    script = tmp_path / 'hosts'
    script.write_text('#!/bin/sh\necho a:2\necho b\n')
    script.chmod(0o755)
    found = discovery.HostDiscoveryScript(str(script), 3).find_available_hosts_and_slots()
    assert found == {'a': 2, 'b': 3}
    told = discovery.HostDiscoveryScript('none', 3)
    told._execute_discovery_script = lambda: 'a:4\n\nb\n'
    assert told.find_available_hosts_and_slots() == {'a': 4, 'b': 3}
    told._execute_discovery_script = lambda: '\ufeff# now\r\na:4 \r\na:4\r\nb # slow\r\n \r\n'
    assert told.find_available_hosts_and_slots() == {'a': 4, 'b': 3}
    told._execute_discovery_script = lambda: 'a:4\nb:two\n'
    with pytest.raises(ValueError, match='none printed "b:two"'):
        told.find_available_hosts_and_slots()
    fixed = discovery.FixedHosts({'b': 1, 'a': 1})
    manager = discovery.HostManager(fixed)
    assert manager.update_available_hosts() == 2
    fixed.set({'c': 1, 'b': 1})
    assert manager.update_available_hosts() == 3
    assert manager.current_hosts.host_assignment_order == ['b', 'c']
    manager.blacklist('b')
    assert manager.current_hosts.host_assignment_order == ['c']
    assert manager.is_blacklisted('b')
    assert manager.update_available_hosts() == 0


def test_a_private_file_replaces_neither_a_link_nor_what_is_no_file(tmp_path):
    """TfDataServiceConfig.write() writes so where its user says."""
    link, real, fifo = tmp_path / 'link', tmp_path / 'real', tmp_path / 'fifo'
    link.symlink_to('real')
    for data in (b'one', b'two'):
        _call.write_private(str(link), data)
        assert link.is_symlink() and real.read_bytes() == data
    assert real.stat().st_mode & 0o777 == 0o600
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    _call.write_private(str(fifo), b'three')
    assert fifo.is_fifo() and os.read(reader, 9) == b'three'
    os.close(reader)
    assert sorted(p.name for p in tmp_path.iterdir()) == ['fifo', 'link', 'real']
    if os.geteuid() == 0:
        os.lchown(link, 54321, 54321)
        with pytest.raises(PermissionError, match='somebody else'):
            _call.write_private(str(link), b'four')
        assert real.read_bytes() == b'two'


def test_a_real_horovod_is_noticed_and_named(tmp_path, monkeypatch):
    ours, theirs = tmp_path / 'ours', tmp_path / 'theirs'
    for path in (ours, theirs):
        (path / 'horovod').mkdir(parents=True)
    (ours / 'horovod-0.28.1+reigen.dist-info').mkdir()
    monkeypatch.setattr(_other, '__file__', str(ours / 'horovod/_other.py'))
    monkeypatch.setattr(sys, 'path', [str(ours), str(theirs)])
    _other.check()
    (theirs / 'horovod-0.27.0-py3.11.egg-info').mkdir()
    with pytest.warns(RuntimeWarning, match=f'Horovod 0.27.0 in {theirs} is not used'):
        _other.check()
    (ours / 'horovod-0.28.1.dist-info').mkdir()
    with pytest.raises(ImportError, match='Horovod 0.28.1 is installed in .*pip uninstall'):
        _other.check()
