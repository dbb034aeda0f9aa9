# SPDX-License-Identifier: Apache-2.0
"""--record and reigen report: what became of a job, on one page that needs nothing else."""
import json
import os
import re
import signal
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from built import PROGRAMS, environment
from test_hosts import FAKE
from test_record import lines
from wait import until

LIMIT = 60
UNEVEN = PROGRAMS.build / 'tests/programs/uneven'


class Page:
    """A page, which is well formed, loads nothing and runs nothing."""

    def __init__(self, path):
        source = path.read_text()
        doctype, _, body = source.partition('\n')
        assert doctype == '<!DOCTYPE html>'
        self.root = ElementTree.fromstring(body)
        tags = {e.tag for e in self.root.iter()}
        assert not tags & {'script', 'img', 'link', 'iframe', 'object', 'image', 'use', 'base'}
        for element in self.root.iter():
            assert not [name for name in element.attrib if name in ('src', 'srcset', 'data') or
                        name.startswith('on')], element.attrib
        assert not re.search(r'https?:|url\(|@import', source)
        policy = self.root.find('.//meta[@http-equiv]').attrib['content']
        assert policy == "default-src 'none'; style-src 'unsafe-inline'"
        self.source, self.nbytes = source, len(source)

    def text(self, element=None):
        return ' '.join(''.join((self.root if element is None else element).itertext()).split())

    def section(self, heading):
        for section in self.root.iter('section'):
            if section.find('h2') is not None and self.text(section.find('h2')) == heading:
                return section
        return None

    def cards(self):
        return {self.text(c.find('dt')): (self.text(c.find('dd')), self.text(c.find('dd[@class]')))
                for c in self.root.iter('div') if c.attrib.get('class', '').startswith('card')}

    def badge(self):
        return self.text(self.root.find('.//span[@class]'))


def report(*arguments, **kwargs):
    return subprocess.run([PROGRAMS.reigen, 'report', *map(str, arguments)], text=True,
                          capture_output=True, timeout=LIMIT, check=False,
                          env=environment(**kwargs.pop('more', {})), **kwargs)


def page_of(record, *arguments):
    done = report(record, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, f'{record}/report.html\n', '')
    return Page(record / 'report.html')


class Jobs:
    def __init__(self, folder):
        ssh = folder / 'fake-ssh'
        ssh.write_text(FAKE.format(folder=folder, before=':'))
        ssh.chmod(0o755)
        self.own = {'XDG_STATE_HOME': folder / 'state', 'HOME': folder, 'REIGEN_SSH': ssh}
        self.folder, self.children = folder, []

    def start(self, record, *words):
        self.children.append(subprocess.Popen(
            [PROGRAMS.reigen, 'run', '--record', record, *map(str, words)], text=True,
            env=environment(**self.own), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, cwd=self.folder))
        return self.children[-1]

    def until_samples(self, child, record, count, good=lambda sample: True):
        def there():
            assert child.poll() is None, child.stderr.read()
            path = record / 'samples.jsonl'
            return path.exists() and sum(map(good, lines(path))) >= count
        until(there, f'{count} samples', LIMIT)

    def close(self):
        for child in self.children:
            child.kill()
            child.wait(LIMIT)
            child.stderr.close()


@pytest.fixture(scope='module')
def jobs(tmp_path_factory):
    it = Jobs(tmp_path_factory.mktemp('jobs'))
    yield it
    it.close()


@pytest.fixture(scope='module')
def uneven(jobs):
    """A record of 3 ranks of which the others wait for rank 1, told to end."""
    record = jobs.folder / 'uneven'
    child = jobs.start(record, '-np', 3, '--', 'sh', '-c', f'echo rank $RANK; exec {UNEVEN} 60 5')
    jobs.until_samples(child, record, 5, lambda sample: len(sample['rows']) == 3)
    child.terminate()
    assert child.wait(LIMIT) == 143
    return record


def test_the_page_says_what_the_job_did(uneven):
    page, samples = page_of(uneven), lines(uneven / 'samples.jsonl')
    column = samples[-1]['columns'].index
    steps = [row[column('steps')] for row in samples[-1]['rows']]
    cards = page.cards()
    assert cards['waited for'][0] == 'rank 1 on localhost'
    assert cards['steps per second'][1] == f'{min(steps):,} steps in all'
    first, last = samples[0], samples[-1]
    rates = [(b[column('steps')] - a[column('steps')]) /
             (last['time'] - b[column('age_s')] - first['time'] + a[column('age_s')])
             for a, b in zip(sorted(first['rows']), sorted(last['rows']))]
    assert abs(float(cards['steps per second'][0]) - sum(rates) / 3) < 0.1, (cards, rates)
    assert 30 <= int(cards['communication'][0].split()[0]) <= 67, '0, and nearly 1 twice'
    assert page.badge() == 'exit code 143'
    assert 'signal 15' in page.text(page.section('Why it ended'))
    rows = [[page.text(cell) for cell in row]
            for row in page.section('Rank by rank').iter('tr')][1:]
    assert [row[:2] for row in rows] == [[str(rank), 'localhost'] for rank in range(3)]
    assert [int(row[4].replace(',', '')) for row in rows] == \
        [dict((row[0], row[column('steps')]) for row in last['rows'])[r] for r in range(3)]
    assert {row[3] for row in rows} == {'signal 15'}
    assert '0–2' in page.text(page.section('Who ran where'))
    assert 'connecting' in page.text(page.section('The start'))
    tails = page.section('Last lines')
    assert [page.text(pre) for pre in tails.iter('pre')] == ['rank 0', 'rank 1', 'rank 2']
    assert len(list(page.section('How it went').iter('svg'))) == 4


def test_a_job_is_found_by_its_id(jobs, uneven):
    ident = lines(uneven / 'events.jsonl')[2]['job']
    done = report('-o', jobs.folder / 'by-id.html', ident, more=jobs.own)
    assert (done.returncode, done.stdout) == (0, f'{jobs.folder}/by-id.html\n'), done.stderr
    assert ident in Page(jobs.folder / 'by-id.html').text()
    done = report('-o', '-', ident[:-1], more=jobs.own)
    assert done.returncode == 0 and done.stdout == (jobs.folder / 'by-id.html').read_text()


def test_a_later_job_is_not_taken_for_an_earlier_one(jobs):
    record = jobs.folder / 'again'
    idents = []
    for word in ('one', 'two'):
        assert jobs.start(record, '-np', 1, '--', 'echo', word).wait(LIMIT) == 0
        idents.append(lines(record / 'events.jsonl')[2]['job'])
    done = report('-o', '-', idents[0], more=jobs.own)
    assert (done.returncode, done.stdout) == (69, '') and \
        f'the record of job {idents[0]} is gone: {record} has that of a later' in done.stderr, done
    assert 'echo two' in report('-o', '-', idents[1], more=jobs.own).stdout


def test_who_is_no_record_is_refused(jobs, uneven):
    subprocess.run([PROGRAMS.reigen, 'run', '-np', '1', '--', 'true'], check=True, timeout=LIMIT,
                   env=environment(**jobs.own))
    listed = json.loads(subprocess.run([PROGRAMS.reigen, 'jobs', '--all', '--json'], check=True,
                                       timeout=LIMIT, env=environment(**jobs.own),
                                       capture_output=True).stdout)
    ident, = {j['id'] for j in listed if j['command'] == 'true'}
    newer = jobs.folder / 'newer'
    newer.mkdir()
    (newer / 'events.jsonl').write_text('{"record":2,"version":"9"}\n')
    for words, code, said in (
            ([ident], 69, f'job {ident} was not recorded; start it by reigen run --record DIR'),
            (['r-1999'], 2, 'no such job'), (['nowhere'], 2, 'nowhere: there is no record in it'),
            ([newer], 2, 'version 2'), ([jobs.folder], 2, 'there is no record in it'),
            ([], 2, 'of what?'), ([uneven, 'nowhere'], 2, 'nowhere: there is no record'),
            (['-o', '/nowhere/x', uneven], 2, '/nowhere/x: cannot write it')):
        done = report(*words, more=jobs.own, cwd=jobs.folder)
        assert (done.returncode, done.stdout) == (code, '') and said in done.stderr, done


def test_what_a_rank_says_is_text(reigen, tmp_path):
    """Markup, every byte that there is, colours of terminals."""
    (tmp_path / 'say').write_bytes(
        b'<script>alert(1)</script>\n"><img src=x onerror=alert(2)>\n]]>&amp;&#60;\n'
        b'\x1b[31mred\x1b[0m \xef\xbf\xbe\n' +
        bytes(b for b in range(1, 256) if b not in b'\r\n') + b'\n')
    done = reigen('run', '-np', 2, '--record', 'it', '--', 'sh', '-c',
                  'cat say; exit 3 # "><script>x</script>', cwd=tmp_path, errors='replace')
    assert done.returncode == 3
    page = page_of(tmp_path / 'it')
    assert page.text(page.root.find('.//h1')) == \
        'sh -c cat say; exit 3 # "><script>x</script>'
    pre = next(page.section('Why it ended').iter('pre')).text.splitlines()
    assert pre[:4] == ['<script>alert(1)</script>', '"><img src=x onerror=alert(2)>',
                       ']]>&amp;&#60;', 'red ?']
    assert '\\x01' in page.text() and '\x1b' not in page.source


def test_a_failure_and_restarts_are_told(reigen, tmp_path):
    script = 'echo "rank $RANK says"; test $RANK = 0 && exec sleep 60; ' \
             'until test -e started.0; do sleep 0.05; done; echo why >&2; exit 7'
    done = reigen('run', '-np', 3, '--record', 'it', '--max-restarts', 1, '--restart-always', '--',
                  'sh', '-c', f': >started.$RANK; {script}', cwd=tmp_path)
    assert done.returncode == 7, done.stderr
    page = page_of(tmp_path / 'it')
    verdict = lines(tmp_path / 'it/events.jsonl')[-2]
    assert page.text(page.root.find('.//p[@class="cause"]')) == verdict['cause']
    assert 'why' in page.text(page.section('Why it ended')) and page.badge() == 'exit code 7'
    happened = page.text(page.section('What happened'))
    assert 'restart 1: rank ' in happened and 'exit code 7' in happened
    assert 'No rank has told what it did' in page.text()
    opened = [page.text(d.find('summary')) for d in page.section('Last lines').iter('details')
              if 'open' in d.attrib]
    assert opened == [f'rank {verdict["first"]} on localhost']


def test_a_killed_launcher_leaves_a_record(jobs):
    record = jobs.folder / 'killed'
    timeline = jobs.folder / 'a timeline.json'
    child = jobs.start(record, '-np', 2, '-x', f'HOROVOD_TIMELINE={timeline}', '--', UNEVEN, 0, 20)
    jobs.until_samples(child, record, 2)
    page = page_of(record)
    assert page.badge() == 'runs'
    link, = page.section('Timeline').iter('a')
    assert link.attrib['href'] == str(timeline).replace(' ', '%20') and link.text == str(timeline)
    child.kill()
    child.wait(LIMIT)
    page = page_of(record)
    assert page.badge() == 'no end recorded' and 'The record ends' in page.text()


def test_an_elastic_job_that_loses_a_host(jobs):
    record = jobs.folder / 'elastic'
    child = jobs.start(record, '-np', 3, '--min-np', 2, '-H', 'a:2,b:1', '--', UNEVEN, 0, 20)
    jobs.until_samples(child, record, 2, lambda sample: len(sample['rows']) == 3)
    pid, = [e['pid'] for e in lines(record / 'events.jsonl')
            if e['event'] == 'rank-started' and e['host'] == 'b']
    os.kill(pid, signal.SIGKILL)
    jobs.until_samples(child, record, 2, lambda sample: sample['epoch'] == 2)
    child.terminate()
    child.wait(LIMIT)
    page = page_of(record)
    happened = page.text(page.section('What happened'))
    assert 'epoch 2: 2 ranks' in happened and 'on b: signal 9' in happened, happened
    table = [[page.text(cell) for cell in row][:2]
             for row in page.section('Who ran where').iter('tr')][1:]
    assert table == [['a', '0–1'], ['b', '–']]
    curve = page.section('How it went').find('.//svg')
    assert len(curve.findall('polyline')) == 2, 'nothing joins the two epochs'


def test_a_short_record_says_so(tmp_path):
    (tmp_path / 'events.jsonl').write_text(
        '{"record":1,"event":"record","lost":          17,"time":5}\n'
        '{"event":"end","exit_code":0}\n{"event":"verd')
    tmp_path.chmod(0o755)
    page = page_of(tmp_path)
    assert (tmp_path / 'report.html').stat().st_mode & 0o777 == 0o600
    assert page.badge() == 'ended well' and 'The record is short: 17 times' in page.text()
    assert '1 line of the record could not be read' in page.text()


def test_two_runs_are_compared(uneven, reigen, tmp_path):
    assert reigen('run', '-np', 2, '--record', 'it', '--', 'true', cwd=tmp_path).returncode == 0
    done = report('-o', tmp_path / 'both.html', uneven, tmp_path / 'it')
    assert done.returncode == 0, done.stderr
    page = Page(tmp_path / 'both.html')
    rows = {page.text(row[0]): [page.text(cell) for cell in row[1:]]
            for row in page.root.find('.//table').iter('tr') if row.find('td') is not None}
    assert rows['ended'][:2] == ['exit code 143', 'ended well']
    assert rows['ranks on hosts'] == ['3 on 1', '2 on 1', 'changed']
    assert rows['hosts'] == ['localhost', 'the same']
    assert rows['waited for'][:2] == ['rank 1 on localhost', 'not known']
    assert rows['steps per second'] == ['–', '–', '–']
    for name, steps in (('none', 0), ('some', 500)):
        record = tmp_path / name
        record.mkdir()
        (record / 'events.jsonl').write_text('{"record":1,"event":"record","time":5}\n')
        (record / 'samples.jsonl').write_text(''.join(
            json.dumps({'time': 6 + s, 'rows': [[0, 0, s, s, s * steps, *[0] * 8]]}) + '\n'
            for s in (0, 1)))
    done = report('-o', '-', tmp_path / 'none', tmp_path / 'some')
    assert '<td class="change good">from nothing</td>' in done.stdout, done
    assert page.section(f'Before: {uneven}') is not None


def test_a_thousand_ranks_are_folded(tmp_path):
    nranks, record = 1000, tmp_path / 'many'
    record.mkdir()
    hosts = [f'node{host:03}' for host in range(nranks // 8)]
    events = [{'record': 1, 'event': 'record'},
              {'event': 'start', 'time': 1, 'ranks': nranks, 'command': ['train'],
               'hosts': [{'name': name, 'ranks': 8} for name in hosts]},
              *({'event': 'host', 'time': time, 'host': name, 'phase': phase}
                for name in hosts for time, phase in ((1, 'starting'), (3, 'ready'))),
              {'event': 'running', 'time': 4},
              *({'event': 'rank-started', 'time': 4, 'rank': rank, 'host': hosts[rank // 8]}
                for rank in range(nranks))]
    # In each second the others of its host wait 0.5 s for rank 517, and so do all other hosts.
    row = (lambda rank, s: [rank, rank // 8, 10 * s, 1e6 * s, 5 * s, 0, 0.2,
                            s * (0.1 if rank == 517 else 0.6),
                            s * (0.5 if rank // 8 == 64 and rank != 517 else 0),
                            s * (3.5 if rank == 517 else 0), s, 1e9, 0])
    samples = [{'time': 10 + s, 'start': 0, 'epoch': 0, 'hosts': hosts,
                'rows': [row(rank, s) for rank in range(nranks)]} for s in range(0, 60, 20)]
    tails = [{'place': rank, 'rank': rank, 'host': hosts[rank // 8], 'lines': ['done']}
             for rank in range(nranks)]
    for name, objects in (('events', events), ('samples', samples), ('tails', tails)):
        (record / f'{name}.jsonl').write_text(''.join(json.dumps(o) + '\n' for o in objects))
    page = page_of(record)
    assert page.cards()['waited for'][0] == 'rank 517 on node064'
    assert page.cards()['steps per second'][0] == '5'
    assert page.nbytes < 700_000
    seen = [page.text(d.find('summary')) for d in page.root.iter('details')
            if 'open' not in d.attrib]
    assert {'125 hosts', '1000 ranks', '113 more hosts, which were faster'} <= {*seen}
    assert 'the other 999 ranks alike' in page.text(page.section('Who was waited for'))
