# SPDX-License-Identifier: Apache-2.0
"""reigen doctor and --require on this computer."""
import fcntl
import json
import os
import pty
import re
import socket
import struct
import termios

import built
import pytest


def doctor(reigen, *arguments, **options):
    return reigen('doctor', *arguments, **options)


@pytest.mark.sanitize
def test_this_computer_is_looked_at(reigen):
    done = doctor(reigen, '-np', 2)
    assert done.returncode == 0, done.stderr
    findings = [line.split('\t') for line in done.stdout.splitlines()]
    assert all(len(f) == 5 and f[0] in ('ok', 'warn') and f[1] == 'localhost' for f in findings)
    checks = {f[2] for f in findings}
    assert {'system', 'cpus', 'memory', 'shm', 'memlock', 'nofile', 'nproc', 'vmem', 'fsize',
            'cma', 'interfaces', 'disk', 'clock', 'mpi', 'python'} <= checks
    cpus = next(f[3] for f in findings if f[2] == 'cpus')
    assert cpus.startswith(str(len(os.sched_getaffinity(0))))
    nok = sum(f[0] == 'ok' for f in findings)
    assert f'reigen: doctor: {nok} ok, ' in done.stderr and done.stderr.endswith(' 0 failures\n')


def test_json_names_what_the_plain_form_names(reigen):
    plain = doctor(reigen)
    done = doctor(reigen, '--json')
    found = json.loads(done.stdout)
    assert done.stderr == '', done
    assert found['schema'] == 1 and found['ok'] is True and found['reach'] == []
    assert [f['check'] for f in found['findings']] == \
        [line.split('\t')[2] for line in plain.stdout.splitlines()]


def test_a_bad_host_does_not_hide_what_the_others_are_like(reigen):
    """By several names this computer is several hosts. The bad one has a port without sshd."""
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        hosts = ('-H', 'localhost,nobody@127.0.0.1,127.0.0.2', '--ssh-port',
                 taken.getsockname()[1])
        plain = doctor(reigen, *hosts)
        told = doctor(reigen, *hosts, '--json').stdout
    found = json.loads(told)
    assert plain.returncode == 1, plain
    lines = [line.split('\t') for line in plain.stdout.splitlines()]
    bad = [line for line in lines if line[1] == '127.0.0.1']
    assert [line[:1] + line[2:3] for line in bad] == [['fail', 'start']], bad
    assert 'Connection refused' in bad[0][3] and bad[0][4], bad
    assert {line[1] for line in lines if line[2] == 'memory'} == {'localhost', '127.0.0.2'}, lines
    assert found['ok'] is False and [h['name'] for h in found['unstarted']] == ['127.0.0.1']
    assert [h['name'] for h in found['hosts']] == ['localhost', '127.0.0.2']


def test_requirements_are_met_or_named(reigen):
    done = reigen('run', '-np', 1, '--require', 'shm=1k,cpus=1,nofile=1', '--', 'echo', 'here')
    assert done.returncode == 0 and 'here' in done.stdout, done.stderr
    done = reigen('run', '-np', 1, '--require', 'memory=9000t', '--', 'echo', 'here')
    assert done.returncode == 69 and 'here' not in done.stdout
    assert 'host localhost: --require memory=9000t: it has ' in done.stderr
    done = doctor(reigen, '--require', 'memory=9000t')
    assert done.returncode == 1
    assert 'fail\tlocalhost\trequire\t--require memory=9000t: it has ' in done.stdout


@pytest.mark.parametrize('wanted, answer', [
    ('torhc', 'did you mean torch'), ('shm', 'say how much'), ('shm=lots', 'not a size'),
    ('mpi=4', 'takes no amount'), ('gpu=0', '--require gpu 0: out of range'),
    ('clock=soon', '--require clock'), ('', 'no such check'), ('rdma,,cma', 'no such check')])
def test_broken_requirements_are_usage_errors(reigen, wanted, answer):
    done = reigen('run', '--require', wanted, '--', 'true')
    assert done.returncode == 2
    assert answer in done.stderr


def test_broken_interfaces_are_usage_errors(reigen):
    for wanted in ('', '=eth0', 'node1=', 'eth0,', '10.0.0.0/99'):
        done = reigen('run', f'--network-interface={wanted}', '--', 'true')
        assert done.returncode == 2 and 'write NAME' in done.stderr, done.stderr


def test_program_that_hangs_costs_only_its_own_facts(reigen, tmp_path):
    """An nvidia-smi that never ends, nor an mpirun that says no more, and a python that fails."""
    for name, text in (('nvidia-smi', 'echo GPU 0: one; sleep 1000'), ('python3', 'exit 3'),
                       ('mpirun', 'exec >&-; sleep 1000')):
        (tmp_path / name).write_text(f'#!/bin/sh\n{text}\n')
        (tmp_path / name).chmod(0o755)
    done = doctor(reigen, env=built.environment(PATH=f'{tmp_path}:/usr/bin:/bin'), timeout=60)
    assert done.returncode == 0, done.stderr
    found = {f[2]: f for f in (line.split('\t') for line in done.stdout.splitlines())}
    assert found['gpu'][0] == 'warn' and 'does not come to its end' in found['gpu'][3]
    assert found['mpi'][3] == f'{tmp_path}/mpirun ?'
    assert found['python'][3] == f'{tmp_path}/python3 ?'
    assert 'doctor' not in found  # all was looked at, within the limit


def test_intel_mpi_is_told_what_it_can_use(reigen, tmp_path):
    mpirun = tmp_path / 'mpirun'
    mpirun.write_text('#!/bin/sh\n'
                      'echo "Intel(R) MPI Library for Linux* OS, Version 2021.19 Build 20250101"\n')
    mpirun.chmod(0o755)
    env = built.environment(PATH=f'{tmp_path}:{os.environ["PATH"]}')
    found = json.loads(doctor(reigen, '--json', env=env).stdout)['findings']
    told = {f['check']: f for f in found}
    settings = told['impi']['settings']
    assert settings['I_MPI_FABRICS'] == 'shm:ofi'
    up = any('ACTIVE' in f['value'] for f in found if f['check'] == 'rdma')
    assert settings.get('FI_PROVIDER') in (('mlx', 'verbs', 'efa', 'tcp', None) if up else ('tcp',))
    assert told['mpi']['settings'] == {}
    plain = doctor(reigen, env=env).stdout
    assert 'Intel MPI 2021.19: I_MPI_FABRICS=shm:ofi FI_PROVIDER=' in plain


def test_doctor_tells_its_usage(reigen):
    done = doctor(reigen, '--help')
    assert done.returncode == 0 and 'usage: reigen doctor' in done.stdout
    done = doctor(reigen, '--no-such-option')
    assert done.returncode == 2 and 'no-such-option' in done.stderr


def test_planes_are_told_as_the_runtime_takes_them(reigen):
    done = doctor(reigen, '--planes', '-np', 2)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0][:5] == ['among', 'operation', 'type', 'memory', 'bytes']
    assert 'ranks of one host allreduce any host 4 one-shot 200, shm 100' in ' '.join(lines[1])
    assert 'ranks of one host allreduce any host 1048576 shm 100' in ' '.join(lines[2])
    assert 'ranks of one host reduce any host any shm' in ' '.join(lines[3])
    assert len(lines) == 9
    done = doctor(reigen, '--planes', '-np', 2, env=built.environment(REIGEN_PLANES='tcp'))
    assert 'all ranks' in done.stdout and 'shm' not in done.stdout, done.stderr
    assert 'an allreduce that comes again goes directly: by doubling up to ' in done.stdout


def on_terminal(start, *command):
    """The exit code, and the lines."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 40, 60, 0, 0))
    child = start(*command, stdout=slave, env=built.environment(TERM='xterm', NO_COLOR=''))
    os.close(slave)
    shown = b''
    try:
        while block := os.read(master, 4096):
            shown += block
    except OSError:  # the end of a terminal
        pass
    finally:
        os.close(master)
    child.wait(60)
    return child.returncode, shown.decode().split('\r\n')


def test_people_get_a_table_with_colours(start, programs):
    code, lines = on_terminal(start, programs.reigen, 'doctor', '-np', 1, '-v')
    assert code == 0 and lines[0] == 'localhost'
    assert any(line.startswith('  \x1b[32mok  \x1b[0m system') for line in lines)
    assert lines[-2].endswith('0 failures')
    assert all(len(line.replace('\x1b[32m', '').replace('\x1b[0m', '')) <= 60 for line in lines
               if '->' not in line and '/' not in line), lines
    # The rest of what is not well takes one line.
    code, lines = on_terminal(start, programs.reigen, 'doctor', '-np', 1, '--require',
                              'memory=9000t')
    assert code == 1 and lines[0] == 'localhost', lines
    marks = [line.split()[0] for line in lines if line.startswith('  \x1b[')]
    assert '\x1b[32mok' not in marks and marks[-1] == '\x1b[1;31mfail\x1b[0m', lines
    assert re.fullmatch(r'\d+ ok \(-v lists them\), \d+ warnings?, 1 failure', lines[-2]), lines
    # Values and remedies begin below each other.
    plain = [re.sub('\x1b\\[[\\d;]*m', '', line) for line in lines[1:-3]]
    left = {len(line) - len(re.sub(r'^ {2}\w+ +\S+ +', '', line)) for line in plain
            if re.match(r' {2}\w', line)}
    assert len(left) == 1 and any(line.startswith(' ' * min(left) + '-> ') for line in plain), lines
