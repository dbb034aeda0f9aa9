# SPDX-License-Identifier: Apache-2.0
"""Whatever programs, servers, hosts and ranks say, reigen's own lines steer no terminal."""
import json
import os
import re
import shlex

import pytest

from built import environment
from kubectl_played import RUNS, Played

# Wipe the screen; ring; go to the line's beginning; CSI as one character, and as a byte that is no
# UTF-8; turn what follows around. The word at the end is to survive.
NASTY = b'a\x1b[2Jb\x07c\rd\xc2\x9be\x9bf\xe2\x80\xaeg B\xc3\xbccher'
SHOWN = 'a\\x1b[2Jb\\x07c\\x0dd\\u009be\\x9bf\\u202eg Bücher'
# As JSON can hold it, without the byte.
TEXT = 'a\x1b[2Jb\x07c\rd\u009bef\u202eg Bücher'
#: What the carriage return leaves of a line, as of a progress bar.
LEFT, LEFT_SHOWN = TEXT.split('\r')[1], SHOWN.split('\\x0d')[1]
TEXT_SHOWN = SHOWN.replace('\\x9b', '')
STEERS = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]')


def clean(data):
    """The text, of which not a single character steers anything."""
    text = data.decode()
    found = STEERS.search(text)
    assert not found, (found, text)
    return text


def program(folder, name, *lines):
    """One that stands in the place of another, first in PATH."""
    (folder / name).write_text('\n'.join(['#!/bin/sh', *lines, '']))
    (folder / name).chmod(0o755)


def says(to, code):
    """A line of shell that says it and ends."""
    escaped = ''.join(f'\\{byte:03o}' for byte in NASTY)
    return f"printf '{escaped}\\n' >&{to}; exit {code}"


@pytest.fixture
def run(tmp_path, reigen):
    env = environment(PATH=f'{tmp_path}:{os.environ["PATH"]}', HOME=tmp_path,
                      XDG_STATE_HOME=tmp_path / 'state')
    return lambda *words, **more: reigen(*words, env={**env, **more}, text=False)


@pytest.mark.parametrize('name, words', [
    ('docker', ('run', '--image', 'i', '--', 'true')),
    ('podman', ('run', '--image', 'i', '--container-runtime', 'podman', '--', 'true')),
    ('ssh', ('run', '-H', 'far:1', '-np', '1', '--', 'true')),
    ('sbatch', ('run', '--on', 'slurm', '--submit', '-N', '1', '-np', '1', '--', 'true')),
    ('ssh', ('wait-workers', '--hosts', 'far', '--start-timeout', '2')),
    ('kubectl', ('run', '--on', 'kubernetes', '--image', 'i', '-np', '1', '--', 'true')),
], ids=lambda value: value if isinstance(value, str) else value[0])
def test_what_a_program_says_is_shown(tmp_path, run, name, words):
    program(tmp_path, name, says(2, 3))
    for other in ['salloc', 'srun', 'scontrol', 'sinfo'] if name == 'sbatch' else []:
        program(tmp_path, other, says(2, 3))
    done = run(*words)
    assert done.returncode != 0 and 'Bücher' in clean(done.stderr) + clean(done.stdout), done


def test_what_kubernetes_says_of_a_pod_is_shown(tmp_path):
    played = Played(tmp_path)
    state = json.dumps({'terminated': {'exitCode': 128, 'reason': 'StartError', 'message': TEXT}})
    play = RUNS + f'pod(containerStatuses=container(**json.loads({state!r})))\ntime.sleep(100)'
    done = played.run(get_pods=[play])
    assert TEXT_SHOWN in clean(done.stderr.encode()) and done.returncode == 125, done
    waiting = json.dumps({'waiting': {'reason': 'ImagePullBackOff', 'message': TEXT}})
    done = played.run('-v', '-v', '--start-timeout', '1', get_pods=[
        f'pod(containerStatuses=container(**json.loads({waiting!r})))\ntime.sleep(100)'])
    assert 'Bücher' in clean(done.stderr.encode()), done


def test_last_lines_and_reports_of_ranks_are_shown_in_verdicts(run):
    """What ranks write passes as it is; what is said of it does not."""
    done = run('run', '-np', 2, '--ranks', '0', 'sh', '-c', f'[ $RANK = 0 ] || {{ {says(2, 3)}; }}')
    assert f'| {LEFT_SHOWN}\n' in clean(done.stderr) and done.returncode == 3, done
    raw = run('run', '-np', 1, 'sh', '-c', says(1, 0))
    assert raw.stdout == NASTY + b'\n'


def test_names_that_somebody_typed_are_shown(run, tmp_path):
    for words in [('run', '--', NASTY), (NASTY,), ('run', '--' + TEXT), ('jobs', NASTY),
                  ('run', '--cwd', NASTY, 'a'), ('status', NASTY), ('run', '-H', NASTY, 'true'),
                  ('pai', 'check', NASTY), ('render', NASTY), ('man', NASTY), ('explain', NASTY),
                  ('run', '--job', NASTY), ('render', 'mpijob', NASTY)]:
        words = [word.encode() if isinstance(word, str) else word for word in words]
        done = run(*[os.fsdecode(word) for word in words])
        assert clean(done.stdout) + clean(done.stderr) and done.returncode != 0, (words, done)


def test_jobs_are_shown_in_tables_and_whole_in_json(run):
    word = os.fsdecode(NASTY)
    assert run('run', '-np', 1, 'sh', '-c', 'exit 0', word).returncode == 0
    table = clean(run('jobs', '--all').stdout)
    assert len(table.splitlines()) == 2 and 'd\\u009be\\x9bf\\u202eg Bücher' in table
    job = json.loads(clean(run('jobs', '--all', '--json').stdout))[0]
    assert 'd\u009be?f\u202eg Bücher' in job['command']
    assert 'd\\u009be\\x9bf\\u202eg Bücher' in clean(run('status', job['id']).stdout)
    told = json.loads(clean(run('status', '--json', job['id']).stdout))
    assert told == {**job, 'elastic': None, 'numbers': None}


def test_events_are_json_that_steers_nothing(run):
    done = run('run', '-np', 1, '--json', 'sh', '-c', 'printf "$1"; exit 3', 'sh', TEXT)
    events = [json.loads(line) for line in clean(done.stdout).splitlines()]
    assert [e['text'] for e in events if e['event'] == 'output'] == [TEXT]
    assert events[-1]['last_lines'] == [LEFT]
    assert events[0]['command'][-1] == TEXT


def test_a_dry_run_stays_a_script(run):
    """For a shell, not for eyes: what the user typed arrives whole."""
    done = run('run', '-np', 1, '--dry-run', 'printf', '%s', os.fsdecode(NASTY))
    assert shlex.quote(os.fsdecode(NASTY)).encode(errors='surrogateescape') in done.stdout
