# SPDX-License-Identifier: Apache-2.0
"""--record: what becomes of a job is written down, and what goes wrong with that ends no job."""
import json
import resource
import subprocess

import pytest

from built import PROGRAMS, environment
from wait import until

LIMIT = 60
UNEVEN = PROGRAMS.build / 'tests/programs/uneven'
FILES = {'events.jsonl', 'samples.jsonl', 'tails.jsonl'}


def lines(path):
    """The whole ones: another may be on its way."""
    return [json.loads(line) for line in path.read_text().rpartition('\n')[0].splitlines()]


def test_it_is_private_and_has_what_ranks_did(start, tmp_path, python_ranks):
    child = start(PROGRAMS.reigen, 'run', '-np', 2, '--record', 'it', '--', 'sh', '-c',
                  f'echo rank $RANK; exec {UNEVEN} 0 20', cwd=tmp_path, env=python_ranks)
    record = tmp_path / 'it'

    def steps():
        path = record / 'samples.jsonl'
        samples = lines(path) if path.exists() else [{'columns': [], 'rows': []}]
        return [dict(zip(samples[-1]['columns'], row))['steps'] for row in samples[-1]['rows']]

    def sampled():
        assert child.poll() is None, child.communicate()
        return len(steps()) == 2 and min(steps()) > 0
    until(sampled, 'steps of both ranks', LIMIT)
    child.terminate()
    child.communicate(timeout=LIMIT)
    assert {p.name for p in record.iterdir()} == FILES
    assert record.stat().st_mode & 0o777 == 0o700
    assert {(record / name).stat().st_mode & 0o777 for name in FILES} == {0o600}
    events = lines(record / 'events.jsonl')
    assert events[0]['record'] == 1 and events[0]['lost'] == 0
    assert [e['event'] for e in events[:3]] == ['record', 'job', 'start']
    assert [e['event'] for e in events[-2:]] == ['verdict', 'end']
    assert events[-1]['exit_code'] == child.returncode != 0
    sample = lines(record / 'samples.jsonl')[-1]
    assert sample['hosts'] == ['localhost'] and len(sample['rows'][0]) == len(sample['columns'])
    assert min(steps()) > 0
    assert [t['lines'] for t in lines(record / 'tails.jsonl')] == [['rank 0'], ['rank 1']]


def test_events_are_those_of_json(reigen, tmp_path):
    done = reigen('run', '-np', 2, '--json', '--record', 'it', '--', 'sh', '-c', 'echo x; exit 4',
                  cwd=tmp_path)

    def named(events, *but):
        return sorted(e['event'] for e in events if e['event'] not in but)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    kept = lines(tmp_path / 'it/events.jsonl')
    assert named(told, 'output') == named(kept, 'record', 'job', 'end') and 'output' in named(told)
    assert kept[-2]['last_lines'] == told[-1]['last_lines'] == ['x']


@pytest.mark.parametrize('make, value, code, said', [
    ('', 'no/it', 2, 'the folder that it is to be made in is not there'),
    ('mkdir it; touch it/train.py', 'it', 2, 'it holds train.py, which is no record'),
    ('mkdir it; echo mine >it/events.jsonl', 'it', 2, 'its events.jsonl is no record'),
    ('mkdir it; ln -s /etc/passwd it/events.jsonl', 'it', 2, 'Too many levels'),
    ('mkdir it; echo mine >it/report.html', 'it', 2, 'its events.jsonl is no record'),
    ('touch it', 'it', 2, 'it is no folder'),
])
def test_what_is_no_record_is_left_alone(reigen, tmp_path, make, value, code, said):
    subprocess.run(make, shell=True, check=True, cwd=tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob('*') if p.is_file()}
    done = reigen('run', '--record', value, '--', 'touch', 'ran', cwd=tmp_path)
    assert done.returncode == code and f'--record {value}: {said}' in done.stderr, done.stderr
    assert {p: p.read_bytes() for p in tmp_path.rglob('*') if p.is_file()} == before


def test_an_older_record_is_replaced_but_not_one_in_use(reigen, tmp_path):
    for word in ('one', 'two'):
        assert reigen('run', '--record', 'it', '--', 'echo', word, cwd=tmp_path).returncode == 0
    told = (tmp_path / 'it/events.jsonl').read_text()
    assert '"two"' in told and '"one"' not in told
    done = reigen('run', '--record', 'it', '--', PROGRAMS.reigen, 'run', '--record', 'it', '--',
                  'true', cwd=tmp_path)
    assert done.returncode == 69 and '--record it: another job is recorded there' in done.stderr


def test_a_full_disk_costs_one_line(reigen, tmp_path):
    def limited(nbytes):
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, nbytes))
    done = reigen('run', '-np', 4, '--record', 'it', '--', 'true', cwd=tmp_path,
                  preexec_fn=limited(1000))
    assert done.returncode == 0 and done.stderr.count('--record it: cannot write it') == 1, done
    assert lines(tmp_path / 'it/events.jsonl')[0]['lost'] > 0
    done = reigen('run', '--record', 'none', '--', 'true', cwd=tmp_path, preexec_fn=limited(0))
    assert done.returncode == 74 and '--record none: File too large' in done.stderr
    done = reigen('run', '--record', 'none', '--', 'true', cwd=tmp_path)
    assert done.returncode == 0, f'the same again, now that there is room: {done.stderr}'


def test_last_lines_come_when_there_is_room_again(start, tmp_path):
    child = start(PROGRAMS.reigen, 'run', '-np', 1, '--record', 'it', '--max-restarts', 1,
                  '--restart-always', '--', 'sh', '-c',
                  'printf "%0700d\\n%0700d\\n" 1 2; test -e first || { : >first; exit 3; }; '
                  ': >second; until test -e go; do sleep 0.05; done', cwd=tmp_path,
                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, -1)))
    until(lambda: (tmp_path / 'second').exists(), 'another start', LIMIT)
    assert not (tmp_path / 'it/tails.jsonl').exists()
    resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (-1, -1))
    (tmp_path / 'go').touch()
    said = child.communicate(timeout=LIMIT)[1]
    assert child.returncode == 0 and said.count('--record it: cannot write it') == 1, said
    assert len(lines(tmp_path / 'it/tails.jsonl')[0]['lines']) == 2


def test_a_head_that_is_an_agent_records_where_it_runs(reigen, tmp_path):
    done = reigen('run', '-np', 2, '--record', 'it', '--write-plan', 'plan', '--', 'sh', '-c',
                  'echo rank $RANK; exit $((RANK * 4))', cwd=tmp_path)
    assert done.returncode == 0 and not (tmp_path / 'it').exists(), done
    done = subprocess.run([PROGRAMS.agent, 'head', '--plan', 'plan'], env=environment(),
                          cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 4, done
    record = tmp_path / 'it'
    assert {p.name for p in record.iterdir()} == FILES - {'samples.jsonl'}
    assert {p.stat().st_mode & 0o777 for p in record.iterdir()} == {0o600}
    events = lines(record / 'events.jsonl')
    assert [e['event'] for e in events[:3]] == ['record', 'job', 'start']
    assert events[-1]['event'] == 'end' and events[-1]['exit_code'] == 4, events
    assert ['rank 1'] in [t['lines'] for t in lines(record / 'tails.jsonl')]
    assert reigen('report', 'it', cwd=tmp_path).returncode == 0
    assert 'rank 1' in (record / 'report.html').read_text()


def test_a_record_in_a_pod_is_said_to_go_with_it(reigen, tmp_path):
    done = reigen('run', '-np', 1, '--record', 'it', '--on', 'kubernetes', '--image', 'x',
                  '--dry-run', '--', 'true', cwd=tmp_path, env={'PATH': '/nowhere'})
    assert done.returncode == 0 and '--record it: ' in done.stderr, done
    assert 'unless it is on a volume' in done.stderr and not any(tmp_path.iterdir())
