# SPDX-License-Identifier: Apache-2.0
"""Help, manual pages and completion, judged by the programs that read them."""
import shutil
import subprocess

import pytest

from built import ROOT, environment


def need(program):
    if not shutil.which(program):
        pytest.skip(f'{program} is not installed')


def test_help_goes_to_standard_output_and_errors_point_to_it(reigen):
    for args in (['--help'], ['help'], ['run', '--help'], ['help', 'run'], ['explain', '--help']):
        done = reigen(*args)
        assert done.returncode == 0 and 'usage: reigen' in done.stdout and done.stderr == ''
        assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "Try 'reigen run --help'" in reigen('run', '-np', '0', 'x').stderr
    assert reigen().returncode == 2


def test_the_version_is_printed(reigen):
    for args in (['version'], ['--version'], ['run', '--version']):
        assert reigen(*args).stdout.startswith('reigen 0.')


@pytest.mark.parametrize('page', ['reigen', 'reigen-run', 'reigen-explain', 'reigen-job'])
def test_manual_pages_are_read_without_complaint(reigen, page, tmp_path):
    need('man')
    path = tmp_path / 'page.1'
    path.write_text(reigen('man', page).stdout)
    env = environment(MANWIDTH=80, PAGER='cat', MANPAGER='cat')
    done = subprocess.run(['man', '--warnings=all', '-l', '-E', 'UTF-8', str(path)],
                          capture_output=True, text=True, timeout=30, env=env)
    assert done.returncode == 0 and done.stderr == ''
    assert page in done.stdout


def complete_bash(reigen, tmp_path, *words):
    script = tmp_path / 'reigen.bash'
    script.write_text(reigen('completion', 'bash').stdout)
    quoted = ' '.join(f"'{w}'" for w in words)
    done = subprocess.run(['bash', '--norc', '-c', f'. {script}; COMP_WORDS=({quoted}); '
                           f'COMP_CWORD={len(words) - 1}; _reigen; '
                           'printf "%s\\n" "${COMPREPLY[@]}"'],
                          capture_output=True, text=True, timeout=20, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ''
    return done.stdout.split()


def test_bash_completes_commands_options_and_values(reigen, tmp_path):
    need('bash')
    (tmp_path / 'train.py').write_text('')

    def complete(*words):
        return complete_bash(reigen, tmp_path, 'reigen', *words)

    assert complete('ru') == ['run', 'run-dock-asuser']
    assert complete('run', '--out') == ['--output-dir', '--output-filename']
    assert complete('run', '--bind-to', '') == ['none', 'core', 'socket']
    assert complete('run', '-np', '2', 'python', 'tr') == ['train.py']
    assert complete('run', '--', 'python', '--out') == []
    assert complete('completion', 'z') == ['zsh']


@pytest.mark.parametrize('shell', ['zsh', 'fish'])
def test_the_other_shells_accept_their_scripts(reigen, shell, tmp_path):
    need(shell)
    script = tmp_path / f'script.{shell}'
    script.write_text(reigen('completion', shell).stdout)
    done = subprocess.run([shell, '-n', str(script)], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and done.stderr == ''


def test_fish_completes_options(reigen, tmp_path):
    need('fish')
    script = tmp_path / 'reigen.fish'
    script.write_text(reigen('completion', 'fish').stdout)
    done = subprocess.run(['fish', '--no-config', '-c',
                           f'source {script}; complete -C "reigen run --start"'],
                          capture_output=True, text=True, timeout=20,
                          env=environment(HOME=tmp_path))
    assert '--start-timeout' in done.stdout


def test_the_docs_name_every_exit_code_key_and_event(reigen):
    operations = (ROOT / 'docs/operations.md').read_text()
    for line in reigen('explain').stdout.splitlines()[:-1]:
        code, name = line.split()[:2]
        assert f'| {code} |' in operations and name in operations
    jobfile = (ROOT / 'docs/jobfile.md').read_text()
    page = reigen('man', 'reigen-job').stdout
    keys = [line[3:].split(':')[0].replace('\\-', '-') for line in page.splitlines()
            if line.startswith('.B ') and ':' in line]
    assert len(keys) > 20
    for key in keys:
        assert f'`{key}`' in jobfile, key
