# SPDX-License-Identifier: Apache-2.0
"""The timeline: a file that a trace viewer loads at any time, whatever happens to the job."""
import errno
import json
import os
import signal
import time

import pytest

import processes
from processes import wait_for
from ranks import SLOWER, job, run, state
from wait import until

TCP = {'REIGEN_PLANES': 'tcp'}


def load(path):
    """The events of a file that may be in the middle of a write: then it is read again."""
    for attempt in range(5):
        try:
            return json.loads(path.read_bytes())
        except ValueError:
            if attempt == 4:
                raise
            time.sleep(0.003)  # patient: the write is over then


def named(events):
    return {e['name'] for e in events if 'name' in e}


def spans(events, lane):
    """[(name, begin, end)] of a lane; fails unless they nest and time does not go back."""
    numbers = [e['pid'] for e in events if e.get('name') == 'process_name'
               and e['args']['name'] == lane]
    assert len(numbers) == 1, (lane, numbers)
    found, stack, last = [], [], 0
    for e in events:
        if e['pid'] != numbers[0] or e['ph'] not in 'BE':
            continue
        assert e['ts'] >= last, (lane, e)
        last = e['ts']
        if e['ph'] == 'B':
            stack.append((e['name'], e['ts']))
        else:
            found.append((*stack.pop(), e['ts']))
    assert not stack, (lane, stack)
    return found


def instants(events, lane):
    number = next(e['pid'] for e in events if e.get('name') == 'process_name'
                  and e['args']['name'] == lane)
    return [e['name'] for e in events if e['pid'] == number and e['ph'] == 'i']


@pytest.mark.sanitize
@pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])
def test_a_timeline_has_every_part_of_every_operation(env, tmp_path):
    path = tmp_path / 'timeline.json'
    run('traced', 'kinds', path, size=3, env=env)
    events = json.loads(path.read_bytes())
    assert events[0]['args']['start_time_since_epoch_in_micros'] > 1.6e15
    assert 'process_sort_index' in named(events)
    small, large = 'allreduce.small "quoted" \xfc ?', 'allreduce.large'
    for lane, operation in ((small, 'ALLREDUCE'), (large, 'ALLREDUCE'),
                            ('allreduce.g0+2', 'ALLREDUCE'), ('broadcast.small', 'BROADCAST'),
                            ('broadcast.large', 'BROADCAST'), ('allgather.gathered', 'ALLGATHER'),
                            ('alltoall.exchanged', 'ALLTOALL'),
                            ('reducescatter.scattered', 'REDUCESCATTER')):
        names = [s[0] for s in spans(events, lane)]
        assert names.count('NEGOTIATE_' + operation) == 3, (lane, names)
        assert names.count(operation) == 3, (lane, names)
        # Rank 0 sees each come, but for those that came before the timeline began.
        for rank in '012':
            assert instants(events, lane).count(rank) in (2, 3, 4), (lane, rank)
    assert 'ALLOCATE_OUTPUT' in [s[0] for s in spans(events, 'allgather.gathered')]
    # Small tensors travel in one piece between hosts.
    packed = [s[0] for s in spans(events, 'allreduce.t0+2')]
    assert not env or {'MEMCPY_IN_FUSION_BUFFER', 'MEMCPY_OUT_FUSION_BUFFER'} <= set(packed)
    activity = 'REIGEN_TCP_ALLREDUCE' if env else 'REIGEN_SHM_ALLREDUCE'
    assert activity in [s[0] for s in spans(events, large)]
    # Between hosts an operation is carried out as soon as it is decided.
    assert 'CYCLE_START' in named(events) and (env or 'QUEUE' in named(events))
    assert 'NEGOTIATE_BARRIER' in named(events)
    assert 'allreduce.unseen' not in path.read_text(errors='replace')


def check_readable_then(path, end, ranks):
    """The file can be loaded again and again while the job runs; end() ends that; and after it."""
    ranks[0].wait_line('ready')
    sizes = []

    def has_grown_often():
        sizes.append(len(load(path)))
        return len(set(sizes)) >= 8
    until(has_grown_often, 'eight sizes', 20 * SLOWER, lambda: state(ranks))
    assert sizes == sorted(sizes)
    end()
    return load(path)


def test_the_file_is_whole_while_it_is_written_and_after_the_job(tmp_path):
    path = tmp_path / 'timeline.json'
    env = {'HOROVOD_TIMELINE': path, 'HOROVOD_TIMELINE_MARK_CYCLES': 1}
    with job('traced', 'stream', size=2, env=env) as ranks:
        def end():
            ranks[0].child.stdin.write('end\n')
            ranks[0].child.stdin.flush()
            assert [r.wait(20 * SLOWER) for r in ranks] == [0, 0], state(ranks)
        events = check_readable_then(path, end, ranks)
    # Nothing is lost at the end: what began has ended.
    assert spans(events, 'broadcast.go')[-1][0] == 'BROADCAST'
    assert 'CYCLE_START' in named(events)


def test_the_file_is_whole_after_its_rank_was_killed(tmp_path):
    path = tmp_path / 'timeline.json'
    with job('traced', 'stream', size=2, env={'HOROVOD_TIMELINE': path}) as ranks:
        events = check_readable_then(path, lambda: (ranks[0].kill(signal.SIGKILL),
                                                    ranks[0].wait(20)), ranks)
    assert 'ALLREDUCE' in named(events) and 'CYCLE_START' not in named(events)


@pytest.mark.sanitize
def test_timelines_start_and_stop_while_operations_run(tmp_path):
    run('traced', 'toggle', tmp_path / 'timeline', size=2)
    files = sorted(os.listdir(tmp_path))
    assert files == ['timeline.0.0', 'timeline.0.1', 'timeline.1.0', 'timeline.1.1']
    for file in files:
        assert json.loads((tmp_path / file).read_bytes())[0]['name'] == 'process_name'


def test_every_rank_writes_where_that_is_asked_for(tmp_path):
    run('traced', 'kinds', tmp_path / 't', size=2, env={'HOROVOD_TIMELINE_ALL_RANKS': 1})
    assert sorted(os.listdir(tmp_path)) == ['t', 't.1']
    assert [s[0] for s in spans(json.loads((tmp_path / 't.1').read_bytes()), 'allreduce.large')]


@pytest.mark.parametrize('path, code', [('/', errno.EISDIR), ('/rg-not-there/t', errno.ENOENT),
                                        ('/dev/full', errno.ENOSPC)])
def test_a_path_that_cannot_be_written_is_refused_by_name(path, code):
    line = run('traced', 'refused', path, size=1)[0].lines[0]
    assert line.startswith(f'{-code} ') and path in line and os.strerror(code) in line
    with job('traced', 'refused', '/dev/null', size=1, env={'HOROVOD_TIMELINE': path}) as ranks:
        assert ranks[0].wait(20) == 1
        assert f'HOROVOD_TIMELINE: the timeline {path}' in ranks[0].err, ranks[0].err


def test_a_full_disk_is_one_warning_and_the_job_goes_on(tmp_path):
    path = tmp_path / 'timeline.json'
    # A limit on the size of files stands for the disk; its signal is ignored as Python does.
    with job('traced', 'stream', size=2, env={'HOROVOD_TIMELINE': path},
             enter=lambda rank: ['sh', '-c', 'trap "" XFSZ; ulimit -f 64; exec "$0" "$@"']
             if rank == 0 else [], each=lambda rank: TCP) as ranks:
        assert ranks[0].until(lambda: 'the job goes on' in ranks[0].err, 30 * SLOWER), state(ranks)
        ranks[0].child.stdin.write('end\n')
        ranks[0].child.stdin.flush()
        assert [r.wait(20 * SLOWER) for r in ranks] == [0, 0], state(ranks)
        assert ranks[0].err.count('cannot be written any more: ') == 1, ranks[0].err
    assert len(json.loads(path.read_bytes())) > 10


@pytest.mark.sanitize
@pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])
def test_a_diagnosis_names_the_rank_that_is_waited_for(env):
    with job('traced', 'hang', size=3, env=env) as ranks:
        ranks[0].wait_line('waiting')
        ranks[2].wait_line('ready')
        if not env:
            ranks[2].kill(signal.SIGSTOP)
            wait_for(lambda: processes.state(ranks[2].child.pid) == 'T', 'the stop')
        ranks[0].child.stdin.write('go\n')
        ranks[0].child.stdin.flush()
        found = json.loads(ranks[0].wait_line('{'))
        ranks[2].kill(signal.SIGCONT)
        ranks[2].child.stdin.write('go\n')
        ranks[2].child.stdin.flush()
        assert [r.wait(20 * SLOWER) for r in ranks] == [0, 0, 0], state(ranks)
    assert found['size'] == 3 and found['complete'] and found['failure'] is None
    by_rank = {r['rank']: r for r in found['ranks']}
    assert sorted(by_rank) == [0, 1, 2] and all(r['known'] for r in found['ranks'])
    assert by_rank[2]['last'] == 'allreduce.before' and by_rank[2]['stopped'] == (not env)
    assert by_rank[0]['last'] == 'allreduce.owed' and by_rank[0]['operations'] == 2
    assert all(r['alive'] for r in found['ranks'])
    owed = [p for p in found['pending'] if p['name'] == 'allreduce.owed']
    assert any(2 in p['missing'] and 0 not in p['missing'] for p in owed), found
