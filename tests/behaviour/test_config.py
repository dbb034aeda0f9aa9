# SPDX-License-Identifier: Apache-2.0
"""The user's configuration: whose word counts, what is shown of it, and what is refused."""
import json
import os
import re
import shutil
import subprocess

import pytest

from built import PROGRAMS, ROOT, environment

PAGE = re.search(r'```ini\n(.*?)```', (ROOT / 'docs/config.md').read_text(), re.S)[1]


@pytest.fixture
def usual(tmp_path):
    """usual(text) writes the configuration; usual.run(words..., NAME=value) runs reigen with it."""
    path = tmp_path / '.config/reigen/config'
    env = environment(HOME=tmp_path, XDG_STATE_HOME=tmp_path / 'state')
    for name in ('REIGEN_CONFIG', 'XDG_CONFIG_HOME'):
        env.pop(name, None)

    def write(text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o644)

    def run(*words, program=PROGRAMS.reigen, **variables):
        return subprocess.run([str(w) for w in (program, *words)], capture_output=True, text=True,
                              cwd=tmp_path, env=env | variables, timeout=60, check=False,
                              stdin=subprocess.DEVNULL)

    write.run, write.path = run, path
    return write


def test_the_command_line_wins_over_variables_profile_and_defaults(usual, tmp_path):
    usual('[defaults]\nnp = 1\nenv = A=defaults\nenv = B=defaults\ntag-output = true\n'
          'hosts = no.such.host\n'
          '[profile p]\nenv = A=profile\nhosts = localhost:2\n')
    show = ('--', 'sh', '-c', 'echo $A $B')

    def said(*words, **variables):
        done = usual.run('run', *words, *show, **variables)
        assert done.returncode == 0, done
        return done.stdout.splitlines()

    assert said('--profile', 'p') == ['[0] profile defaults']
    assert said(REIGEN_PROFILE='p') == ['[0] profile defaults']
    assert said('--profile=p', '-x', 'B=line', '--tag-output=false') == ['profile line']
    assert said('-H', 'localhost:1', '-np', '1') == ['[0] defaults defaults']
    # What the user has named on the line has hosts of its own.
    assert said('--on', 'local') == ['[0] defaults defaults']
    assert said('--launcher', 'fork') == ['[0] defaults defaults']
    (tmp_path / 'job.yaml').write_text('hosts: localhost:1\nenv: {A: file}\n')
    assert said('--config', 'job.yaml') == ['[0] file defaults']
    page = (ROOT / 'docs/pai.md').read_text()
    (tmp_path / 'job.json').write_text(re.search(r'```json\n(.*?)```', page, re.S)[1])
    for words, code in ((), 0), (('--profile', 'p'), 2):
        done = usual.run('run', '--dry-run', '--config', 'job.json', *words)
        assert done.returncode == code and 'no.such.host' not in done.stdout, done
    assert 'job.json says itself what its job is like' in done.stderr
    usual('[defaults]\nhosts = no.such.host\non = ssh\n')
    done = usual.run('run', '--dry-run', '--', 'true', REIGEN_HOSTS='other.host')
    assert done.returncode == 0 and 'other.host' in done.stdout, done
    assert 'no.such' not in done.stdout


def test_what_has_no_place_gives_way(usual):
    usual('[defaults]\npartition = gpu\ncpu = 2\nsubmit = true\nmount = /tmp\nshm-size = 1g\n'
          'namespace = train\n')
    done = usual.run('run', '-np', '1', '--', 'echo', 'well')
    assert (done.returncode, done.stdout, done.stderr) == (0, 'well\n', ''), done
    for words, said in (('--partition gpu', '--partition is for Slurm'),
                        ('--mount /tmp', '--mount: there is no container'),
                        ('--submit', '--submit is for')):
        done = usual.run('run', '-np', '1', *words.split(), '--', 'true')
        assert done.returncode == 2 and said in done.stderr, done


def test_it_is_shown_with_where_each_value_comes_from(usual):
    done = usual.run('config')
    assert (done.returncode, done.stdout) == (0, f'{usual.path} is not there\n'), done
    usual(PAGE)
    done = usual.run('config', '--profile', 'cluster-a', REIGEN_PORT_RANGE='5000-5100')
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in done.stdout.splitlines()}
    assert rows['timeout'] == ['12h', 'line 3, defaults'], done
    assert rows['hosts'] == ['node1:4,node2:4', 'line 8, profile cluster-a']
    assert rows['port-range'] == ['5000-5100', 'REIGEN_PORT_RANGE']
    assert 'cluster-a (in use, by --profile), night' in done.stdout
    starts = {line.index(where) for line in done.stdout.splitlines()
              for where in re.findall(r'line \d+, |REIGEN_\w+$', line)[:1]}
    assert len(starts) == 1, done.stdout
    told = json.loads(usual.run('config', '--json', '--all', REIGEN_PROFILE='night').stdout)
    assert (told['schema'], told['file'], told['found']) == (1, str(usual.path), True)
    assert told['profile'] == 'night' and told['profiles'] == ['cluster-a', 'night']
    options = {o['option']: o for o in told['options']}
    assert options['timeout'] == {'option': 'timeout', 'value': '48h', 'line': 13,
                                  'from': 'profile', 'variable': None}
    assert options['np']['from'] == 'default' and options['np']['value'] is None
    assert usual.run('completion', '--profiles').stdout.split() == ['cluster-a', 'night']


def test_what_is_wrong_is_told_with_its_place(usual, tmp_path):
    for text, said in (('[defaults]\ntimout = 2h\n', ':2: unknown key "timout"; did you mean time'),
                       ('[defaults]\ntimeout = soon\n', ':2: timeout soon'),
                       ('[defaults]\nnp = 1\nnp = 2\n', ':3: np stands in this section twice')):
        usual(text)
        for words in (['config'], ['run', '-np', '1', '--', 'true']):
            done = usual.run(*words)
            assert (done.returncode, done.stdout) == (2, ''), done
            assert f'reigen: {usual.path}{said}' in done.stderr, done
    # A profile that is not in use breaks no job, and is told by reigen config.
    usual('[profile a]\nnp = many\n')
    assert usual.run('run', '-np', '1', '--', 'true').returncode == 0
    assert f'{usual.path}:2: np many' in usual.run('config').stderr
    for variables, words, said in (
            ({}, ('--profile', 'b'), '--profile b: no such profile in'),
            ({'REIGEN_PROFILE': 'b'}, (), 'REIGEN_PROFILE b: no such profile in'),
            ({'REIGEN_CONFIG': ''}, ('--profile', 'a'), 'there is no file of profiles'),
            ({'REIGEN_CONFIG': str(tmp_path / 'none')}, (), 'none: No such file')):
        done = usual.run('run', *words, '--', 'true', **variables)
        assert done.returncode == 2 and said in done.stderr, done


def test_a_file_that_others_may_write_is_refused(usual):
    usual('[defaults]\nenv = A=1\n')
    usual.path.chmod(0o666)
    done = usual.run('run', '-np', '1', '--', 'true')
    assert done.returncode == 77 and 'others can write it (mode 666): chmod go-w' in done.stderr
    assert 'it says what reigen runs' in done.stderr
    assert usual.run('run', '-np', '1', '--', 'true', REIGEN_CONFIG='').returncode == 0
    usual.path.chmod(0o600)
    assert usual.run('run', '-np', '1', '--', 'true').returncode == 0
    if os.geteuid() == 0:
        os.chown(usual.path, 12345, 12345)
        done = usual.run('run', '-np', '1', '--', 'true')
        assert done.returncode == 77 and 'somebody else (uid 12345)' in done.stderr, done


def test_commands_that_stand_in_for_others_do_not_read_it(usual):
    usual('[defaults]\nenv = A=1\nnp = 3\nwrong\n')
    line = ('sh', '-c', 'echo ${A-unset}')
    done = usual.run('-np', '1', *line, program=PROGRAMS.reigen.parent / 'horovodrun')
    assert done.returncode == 0 and 'unset' in done.stdout and done.stdout.count('\n') == 1, done
    done = usual.run('torchrun', '--no-python', *line)
    assert done.returncode == 0 and 'unset' in done.stdout, done
    for words in (('horovodrun', '-np', '1'), ('torchrun', '--no-python')):
        done = usual.run(*words, '--profile', 'p', *line)
        assert done.returncode == 2 and 'read the configuration' in done.stderr, done


def test_a_file_that_this_user_may_not_look_at_is_not_there(usual):
    usual('[defaults]\nwrong\n')
    other = ()
    if os.geteuid() == 0:
        other = ('setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups')
        works = shutil.which('setpriv') and subprocess.run(
            [*other, PROGRAMS.reigen, 'version'], check=False, cwd='/').returncode == 0
        if not works:
            pytest.skip('needs setpriv, and programs that others may run')
    words = (*other, PROGRAMS.reigen, 'config')
    usual.path.parent.chmod(0)
    done = usual.run(*words[1:], program=words[0])
    named = usual.run(*words[1:], program=words[0], REIGEN_CONFIG=str(usual.path))
    run = (*words[1:-1], 'run', '--dry-run', '-np', '1')
    told = usual.run(*run, '-v', '--', 'true', program=words[0])
    quiet = usual.run(*run, '--', 'true', program=words[0])
    usual.path.parent.chmod(0o700)
    assert told.returncode == 0 and f'{usual.path}: not for you to read' in told.stderr, told
    assert quiet.returncode == 0 and 'not for you' not in quiet.stderr, quiet
    assert done.returncode == 0 and 'is not for you to read' in done.stdout, done
    assert named.returncode == 2 and 'Permission denied' in named.stderr, named


def test_hosts_give_way_to_a_platform_that_is_named_later(usual):
    usual('[defaults]\nhosts = localhost:2\n[profile k]\non = kubernetes\nimage = a\n')
    done = usual.run('run', '--dry-run', '-np', '1', '--profile', 'k', '--', 'true')
    assert done.returncode == 0, done
    assert 'localhost:2' not in usual.run('config', '--profile', 'k').stdout
    assert 'localhost:2' in usual.run('config').stdout


def test_what_names_hosts_is_looked_at_only_where_it_counts(usual, tmp_path):
    lost = tmp_path / 'not-mounted/hosts'
    for key in ('hostfile', 'host-discovery-script'):
        usual(f'[defaults]\n{key} = {lost}\n')
        done = usual.run('run', '-H', 'localhost', '-np', '1', '--', 'echo', 'well')
        assert (done.returncode, done.stdout, done.stderr) == (0, 'well\n', ''), done
        for words in (('run', '-np', '1', '--', 'true'), ('config',)):
            done = usual.run(*words)
            assert done.returncode == 2 and f'{usual.path}:2: ' in done.stderr, done
    # The variable wins over whatever the file says of hosts, and this is shown.
    script = tmp_path / 'discover'
    script.write_text('#!/bin/sh\necho found.host:4\n')
    script.chmod(0o755)
    (tmp_path / 'hf').write_text('listed.host:4\n')
    for line in (f'host-discovery-script = {script}', 'hostfile = hf'):
        usual(f'[defaults]\non = ssh\n{line}\n')
        done = usual.run('run', '--dry-run', '-np', '1', '--', 'true')
        assert done.returncode == 0 and re.search('(found|listed).host', done.stdout), done
        done = usual.run('run', '--dry-run', '-np', '1', '--', 'true', REIGEN_HOSTS='other.host')
        assert done.returncode == 0 and 'other.host' in done.stdout, done
        shown = usual.run('config', REIGEN_HOSTS='other.host').stdout
        assert 'other.host' in shown and line.split()[0] not in shown, shown


def test_defaults_of_a_terminal_give_way(usual, tmp_path):
    usual('[defaults]\npty = true\n')
    done = usual.run('run', '--dry-run', '--json', '-np', '1', '--', 'true')
    assert done.returncode == 0, done
    kubernetes = ('run', '--dry-run', '--on', 'kubernetes', '--image', 'a', '-np', '1')
    done = usual.run(*kubernetes, '--', 'true')
    assert done.returncode == 0, done
    usual('[defaults]\nstdin = all\nchaos = kill:rank=0@100s\n')
    done = usual.run(*kubernetes, '--', 'true')
    assert done.returncode == 0, done
    (tmp_path / 'mpirun').write_text('#!/bin/sh\necho well\n')
    (tmp_path / 'mpirun').chmod(0o755)
    done = usual.run('run', '-np', '1', '--', './mpirun')
    assert done.returncode == 0 and 'well' in done.stdout, done


def test_an_error_by_the_configuration_says_so(usual):
    usual('[defaults]\ntimeout = 1h\nmax-restarts = 3\nmin-np = 4\n')
    done = usual.run('run', '-np', '2', '--', 'true')
    assert done.returncode == 2
    assert done.stderr.startswith(f'reigen: {usual.path}:4: --min-np 4: more than -np 2'), done
    done = usual.run('run', '-np', '2', '--min-np', '3', '--', 'true')
    assert done.returncode == 2 and done.stderr.startswith('reigen: --min-np 3: more'), done
    # Also one that is seen only with the platform.
    usual('[defaults]\nmax-restarts = 3\n')
    done = usual.run('run', '--dry-run', '--on', 'kubernetes', '--image', 'a', '-np', '1', '--',
                     'true')
    assert done.returncode == 2 and f'{usual.path}:2: --max-restarts: not on' in done.stderr, done
