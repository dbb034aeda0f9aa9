# SPDX-License-Identifier: Apache-2.0
"""What reigen report draws of a job's timeline: a row for each rank, bounded whatever the job."""
import json

import pytest

from test_report import LIMIT, UNEVEN, Page, jobs, page_of, report  # noqa: F401
from test_record import lines

BEGAN = 1000.0  # of the timeline, since 1970; the record began a second earlier
US = 1e6


class Made:
    """A record and a timeline of nranks ranks, of which each comes as late as late(rank) says."""

    def __init__(self, folder, nranks, late, name='timeline.json', nsteps=50, step_s=0.1):
        self.record = folder / 'record'
        self.record.mkdir()
        self.path = folder / name.replace('{rank}', '0')
        events = [{'record': 1, 'event': 'record', 'time': BEGAN - 1},
                  {'event': 'job', 'time': BEGAN - 1, 'cwd': str(folder), 'timeline': name},
                  {'event': 'start', 'time': BEGAN - 1, 'ranks': nranks,
                   'hosts': [{'name': 'a', 'ranks': nranks // 2}, {'name': 'b', 'ranks': 1}]},
                  *({'event': 'rank-started', 'time': BEGAN, 'rank': rank,
                     'host': 'ab'[2 * rank >= nranks]} for rank in range(nranks))]
        (self.record / 'events.jsonl').write_text(''.join(json.dumps(e) + '\n' for e in events))
        with open(self.path, 'w', encoding='utf-8') as file:
            file.write('[\n' + ',\n'.join(json.dumps(e) for e in self.events(nranks, late, nsteps,
                                                                             step_s)) + '\n]\n')

    @staticmethod
    def events(nranks, late, nsteps, step_s):
        yield {'name': 'process_name', 'ph': 'M', 'pid': 0, 'args': {
            'name': 'reigen, rank 0', 'start_time_since_epoch_in_micros': int(BEGAN * US)}}
        yield {'name': 'process_name', 'ph': 'M', 'pid': 1, 'args': {'name': 'allreduce.x'}}
        for step in range(nsteps):
            begin = (step + 0.5) * step_s
            last = begin + max(map(late, range(nranks)))
            yield {'name': 'NEGOTIATE_ALLREDUCE', 'ph': 'B', 'pid': 1, 'tid': 0, 'ts': begin * US}
            for rank in range(nranks):
                yield {'name': str(rank), 'ph': 'i', 'pid': 1, 'tid': 0,
                       'ts': (begin + late(rank)) * US, 's': 't'}
            yield {'ph': 'E', 'pid': 1, 'tid': 0, 'ts': last * US}
            yield {'name': 'ALLREDUCE', 'ph': 'B', 'pid': 1, 'tid': 0, 'ts': last * US,
                   'args': {'bytes': 4, 'tensors': 1, 'dtype': 'float32'}}
            yield {'ph': 'E', 'pid': 1, 'tid': 0, 'ts': (last + 0.02) * US}


def rows_of(page):
    """{who: (how late, {class: [(from, columns)]})} of the timeline's rows, in their order."""
    found = {}
    for lane in page.section('Timeline').iter('div'):
        svg = lane.find('svg')
        if lane.attrib.get('class') == 'lane' and svg is not None:
            bars = {p.attrib['class']: [tuple(map(int, bar.replace(' 7h', ' ').split()))
                                        for bar in p.attrib['d'].split('M')[1:]]
                    for p in svg.iter('path')}
            found[page.text(lane[0])] = page.text(lane[2]), bars
    return found


def test_each_rank_has_a_row_with_its_waits(tmp_path):
    made = Made(tmp_path, 4, lambda rank: 0.03 if rank == 2 else 0)
    done = report('-o', tmp_path / 'out.html', '--seconds', '2.02..2.52', made.record)
    assert done.returncode == 0, done.stderr
    page = Page(tmp_path / 'out.html')
    rows = rows_of(page)
    assert list(rows) == ['rank 0 on a', 'rank 1 on a', 'rank 2 on b', 'rank 3 on b']
    late, bars = rows['rank 2 on b']
    assert late == '30 ms' and 't1' not in bars and len(bars['t2']) == 5
    late, bars = rows['rank 0 on a']
    assert late == 'first' and len(bars['t1']) == 5 and len(bars['t2']) == 5
    # Of 0.5 s in 500 columns: 30 ms of waiting, and 20 ms in which data moved; edges are rounded.
    assert all(30 <= width <= 31 for _, width in bars['t1'])
    assert all(20 <= width <= 21 for _, width in bars['t2'])
    assert '500 ms, from 2.020 s after the job began' in page.text(page.section('Timeline'))


def test_the_last_operations_are_drawn_if_nothing_is_asked_for(tmp_path):
    made = Made(tmp_path, 2, lambda rank: 0, name='t.{rank}', nsteps=100)
    page = page_of(made.record)
    text = page.text(page.section('Timeline'))
    assert '5.9 s, from 5.0' in text and 'data moves' in text, text
    link, = page.section('Timeline').iter('a')
    assert link.attrib['href'] == str(made.path)


def test_a_thousand_ranks_are_folded_and_the_picture_is_bounded(tmp_path):
    late = {317: 0.04, 999: 0.03}
    made = Made(tmp_path, 1000, lambda rank: late.get(rank, rank * 1e-6), nsteps=300)
    assert made.path.stat().st_size > 16 << 20, 'more than is read'
    page = page_of(made.record)
    rows = list(rows_of(page))
    assert len(rows) == 24 and rows[:2] == ['rank 317 on a', 'rank 999 on b']
    assert rows[-1] == 'rank 0 on a'
    text = page.text(page.section('Timeline'))
    assert 'The latest:' in text and 'The earliest:' in text and '1000 ranks in all' in text
    whole = page.source[page.source.index('<h2>Timeline'):]
    assert len(whole[:whole.index('</section>')]) < 200_000
    done = report('-o', tmp_path / 'early.html', '--seconds', '1.52..2.02', made.record)
    assert done.returncode == 0, done.stderr
    page = Page(tmp_path / 'early.html')
    assert '500 ms, from 1.520 s' in page.text(page.section('Timeline'))
    assert len(rows_of(page)['rank 317 on a'][1]['t2']) == 5


def test_a_busy_timeline_is_bounded_as_well(tmp_path):
    made = Made(tmp_path, 24, lambda rank: rank * 1e-5, nsteps=4000, step_s=0.001)
    done = report('--seconds', '0..5', made.record)
    assert done.returncode == 0, done.stderr
    assert (made.record / 'report.html').stat().st_size < 200_000


def test_seconds_without_an_operation_and_no_timeline_are_told(tmp_path):
    made = Made(tmp_path, 2, lambda rank: 0)
    for _ in range(2):
        done = report('--seconds', '500..600', made.record)
        assert done.returncode == 0, done.stderr
        text = Page(made.record / 'report.html').section('Timeline')
        assert 'has no operation in the seconds' in ''.join(text.itertext())
        made.path.write_text('no timeline\n')
    made.path.unlink()
    page = page_of(made.record)
    assert 'It is not where the report was made' in page.text(page.section('Timeline'))


@pytest.mark.parametrize('value', ['5', '5..', '..5', '5..5', '6..5', 'a..b', '1..2s', '-1..2'])
def test_seconds_that_are_none_are_refused(tmp_path, value):
    made = Made(tmp_path, 2, lambda rank: 0)
    done = report(f'--seconds={value}', made.record)
    assert done.returncode == 2 and f'--seconds {value}: give seconds' in done.stderr, done.stderr
    done = report('--seconds', '1..2', made.record, made.record)
    assert done.returncode == 2 and 'two records have no timeline' in done.stderr


def test_a_real_job_s_last_steps_show_who_is_late(jobs):  # noqa: F811
    record, timeline = jobs.folder / 'traced', jobs.folder / 'traced.json'
    child = jobs.start(record, '-np', 3, '-x', f'REIGEN_TIMELINE={timeline}', '--', UNEVEN, 60, 5)
    jobs.until_samples(child, record, 4, lambda sample: len(sample['rows']) == 3)
    child.terminate()
    assert child.wait(LIMIT) == 143
    assert [e['timeline'] for e in lines(record / 'events.jsonl') if 'timeline' in e] == \
        [str(timeline)]
    rows = rows_of(page_of(record))
    assert list(rows) == ['rank 0', 'rank 1', 'rank 2']
    waits = [sum(width for _, width in bars.get('t1', [])) for _, bars in rows.values()]
    assert waits[1] < min(waits[0], waits[2]), rows
