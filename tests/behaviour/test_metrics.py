# SPDX-License-Identifier: Apache-2.0
"""--metrics: Prometheus reads what the ranks do, by HTTP or from a file, and whoever else connects
costs the job nothing."""
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys

import pytest

from built import PROGRAMS, ROOT, environment
from openmetrics import by_rank, only, read
from ranks import free_port
from test_hosts import FAKE
from wait import until

LIMIT = 60
UNEVEN = PROGRAMS.build / 'tests/programs/uneven'
OPEN = 'application/openmetrics-text'
#: As Prometheus 2 sends it.
ACCEPT = f'{OPEN};version=1.0.0;q=0.5,{OPEN};version=0.0.1;q=0.4,text/plain;q=0.3,*/*;q=0.2'
RANKS = ('reigen_operations_total', 'reigen_payload_bytes_total', 'reigen_steps_total',
         'reigen_step_seconds', 'reigen_blocked_seconds_total', 'reigen_waited_seconds_total',
         'reigen_caused_wait_seconds_total', 'reigen_process_cpu_seconds_total',
         'reigen_process_resident_memory_bytes', 'reigen_report_age_seconds')


class Job:
    """A running `reigen run` with --metrics at an address."""

    def __init__(self, folder, *options, where=':0'):
        ssh = folder / 'fake-ssh'
        ssh.write_text(FAKE.format(folder=folder, before=':'))
        ssh.chmod(0o755)
        self.out, self.err = folder / 'out', folder / 'err'
        with self.out.open('w') as out, self.err.open('w') as err:
            self.child = subprocess.Popen(
                [PROGRAMS.reigen, 'run', '--metrics', where, *options], stdout=out, stderr=err,
                stdin=subprocess.DEVNULL, env=environment(
                    HOME=folder, XDG_STATE_HOME=folder / 'state', REIGEN_SSH=ssh))
        self.url = self.wait_for(r'metrics are at (http://\S+)')
        self.port = int(re.search(r':(\d+)/metrics$', self.url)[1])

    def wait_for(self, pattern):
        def find():
            found = re.search(pattern, self.err.read_text())
            assert found or self.child.poll() is None, self.err.read_text()
            return found and found[1]
        return until(find, pattern, LIMIT)

    def connect(self):
        return socket.create_connection(('127.0.0.1', self.port), LIMIT)

    def ask(self, request):
        """The status, the header and the body of what is answered."""
        with self.connect() as s:
            s.sendall(request if isinstance(request, bytes) else request.encode())
            text = s.makefile('rb', newline='').read().decode()
        header, _, body = text.partition('\r\n\r\n')
        assert header.startswith('HTTP/1.1 ') and 'Connection: close' in header, text
        return int(header.split()[1]), header, body

    def families(self, accept='*/*'):
        status, header, body = self.ask(f'GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}'
                                        '\r\n\r\n')
        strict = f'Content-Type: {OPEN}; version=1.0.0; charset=utf-8' in header
        assert status == 200 and strict == (OPEN in accept), header
        assert strict or 'Content-Type: text/plain; version=0.0.4; charset=utf-8' in header
        assert f'Content-Length: {len(body.encode())}\r\n' in header + '\r\n', header
        return read(body, strict)

    def families_when(self, condition, what):
        def there():
            assert self.child.poll() is None, self.err.read_text()
            now = self.families()
            return condition(now) and now
        return until(there, what, LIMIT)

    def after_steps(self, steps, nranks=3):
        """All ranks have taken so many, and enough to know how long one takes."""
        return self.families_when(
            lambda now: len(by_rank(now, 'reigen_step_seconds')) == nranks and
            min(by_rank(now, 'reigen_steps_total').values()) >= steps,
            f'{steps} steps of {nranks} ranks')

    def end(self):
        self.child.terminate()
        self.child.wait(LIMIT)


@pytest.fixture(scope='module')
def job(tmp_path_factory):
    """3 ranks, of which the others wait for rank 1."""
    it = Job(tmp_path_factory.mktemp('job'), '-np', '3', '--', UNEVEN, '60', '5')
    yield it
    it.end()


@pytest.fixture
def another(tmp_path):
    jobs = []
    yield lambda *options, **more: jobs.append(Job(tmp_path, *options, **more)) or jobs[-1]
    for it in jobs:
        it.end()


def test_it_tells_what_each_rank_does(job):
    now = job.after_steps(20)
    assert all(set(by_rank(now, name)) == {0, 1, 2} for name in RANKS), now
    operations, steps = by_rank(now, 'reigen_operations_total'), by_rank(now, 'reigen_steps_total')
    assert by_rank(now, 'reigen_payload_bytes_total') == {r: 4 * n for r, n in operations.items()}
    assert all(operations[r] >= steps[r] >= 20 for r in range(3)), now
    caused = by_rank(now, 'reigen_caused_wait_seconds_total')
    assert caused[1] > 10 * max(caused[0], caused[2]), caused
    assert min(by_rank(now, 'reigen_step_seconds').values()) > 0.05, now
    assert min(by_rank(now, 'reigen_process_resident_memory_bytes').values()) > 1 << 18, now
    states = {dict(k)['state']: n for k, n in now['reigen_ranks'].samples.items()}
    assert states.pop('running') == 3 and set(states.values()) == {0}, states
    labels, = now['reigen_job_info'].samples
    assert set(dict(labels)) == {'job_id', 'version', 'platform'}, labels
    assert only(now, 'reigen_job_restarts_total') == 0
    assert 'reigen_job_exit_code' not in now and 'reigen_epoch' not in now


def test_counters_only_rise(job):
    before = job.after_steps(5)
    counts = by_rank(before, 'reigen_steps_total')
    after = job.after_steps(max(counts.values()) + 1)
    for name, family in before.items():
        if family.kind == 'counter':
            for labels, number in family.samples.items():
                assert after[name].samples[labels] >= number, name


def test_openmetrics_is_for_who_asks_for_it(job):
    plain, strict = job.after_steps(1), job.families(ACCEPT)
    for each in plain, strict:  # it comes and goes
        each.pop('reigen_waited_for_ratio', None)
    assert set(plain) == set(strict)
    assert {name: dict.fromkeys(family.samples) for name, family in plain.items()} == \
        {name: dict.fromkeys(family.samples) for name, family in strict.items()}
    units = {name: family.unit for name, family in strict.items() if family.unit}
    assert units == {name: re.search('seconds|bytes', name)[0] for name in strict
                     if re.search('seconds|bytes', name)}
    assert strict['reigen_job_info'].kind == 'info'


HOST = 'Host: x\r\n\r\n'


@pytest.mark.parametrize('request_, status', [
    ('GET /metrics?a=b HTTP/1.1\r\n' + HOST, 200), ('GET /metrics HTTP/1.0\n\n', 200),
    ('GET http://h:1/metrics HTTP/1.1\r\n' + HOST, 200), ('HEAD /metrics HTTP/1.1\r\n' + HOST, 200),
    ('GET / HTTP/1.1\r\n' + HOST, 404), ('GET /metrics/ HTTP/1.1\r\n' + HOST, 404),
    ('POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n' + HOST + 'abc', 405),
    ('GET /metrics HTTP/1.1\r\n\r\n', 400), ('\x16\x03\x01\x00\xa5\n\n', 400), ('GET\r\n\r\n', 400),
    ('GET /metrics HTTP/1.1\r\nHost: x\r\n' + HOST, 400),
    ('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 505), ('GET /' + 9000 * 'm', 431)])
def test_what_is_no_question_is_told_so(job, request_, status):
    got, header, body = job.ask(request_)
    assert got == status, header
    if request_.startswith('HEAD'):
        assert not body and int(re.search(r'Content-Length: (\d+)', header)[1]) > 500
    elif status == 200:
        read(body, False)
    assert ('Allow: GET, HEAD' in header) == (status == 405)


def test_who_says_nothing_keeps_nobody_out_and_is_let_go(job):
    """Also one that asks in small pieces, and others that leave in between."""
    silent = [job.connect() for _ in range(40)]
    silent[0].close()
    for s in silent[-8:]:
        s.sendall(b'GET /metrics HT')
    silent[-1].sendall(b'TP/1.0\r\n\r\n')
    assert b' 200 OK' in silent[-1].recv(100)
    assert job.families()
    assert silent[-2].recv(100) == b'', 'it is let go after a while'
    for s in silent:
        s.close()
    assert job.families() and job.child.poll() is None


def test_who_sends_on_and_never_reads_keeps_nobody_waiting(job):
    slow = [job.connect() for _ in range(10)]
    for s in slow:
        s.sendall(b'GET /metrics HTTP/1.0\r\n\r\n' * 100)
    assert job.families()
    for s in slow:
        s.close()


def test_the_example_for_tensorboard_logs_each_rank(job, tmp_path):
    """The page's own lines, with a writer that keeps what it is given."""
    page = (ROOT / 'docs/metrics.md').read_text()
    code, = re.findall(r'```python\n(.*?SummaryWriter.*?)```', page, re.S)
    assert len(code.splitlines()) <= 10
    code = code.replace('http://127.0.0.1:9100/metrics', job.url)
    package = tmp_path / 'torch/utils/tensorboard'
    package.mkdir(parents=True)
    for folder in (tmp_path / 'torch', package.parent):
        (folder / '__init__.py').touch()
    (package / '__init__.py').write_text(
        'class SummaryWriter:\n'
        '    def __init__(self, folder): pass\n'
        '    def add_scalar(self, *scalar): print(*scalar)\n'
        '    def flush(self): raise SystemExit(0)\n')
    job.after_steps(1)
    done = subprocess.run([sys.executable, '-c', code], env={**os.environ, 'PYTHONPATH': tmp_path},
                          capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    scalars = [line.split()[0] for line in done.stdout.splitlines() if '_ratio/' not in line]
    assert {f'{name}/{rank}' for name in RANKS for rank in range(3)} == set(scalars), done.stdout


def test_a_new_epoch_begins_the_sums_anew(another):
    it = another('-np', '2', '--min-np', '2', '-H', 'a:2,b:1', '--json', '--', UNEVEN, '5', '5')
    now = it.after_steps(20)
    assert only(now, 'reigen_epoch') == 1
    assert {dict(k)['host'] for k in now['reigen_steps_total'].samples} == {'a', 'b'}
    started = [one for one in map(json.loads, it.out.read_text().splitlines())
               if one['event'] == 'rank-started' and one['host'] == 'b']
    os.kill(started[0]['pid'], signal.SIGKILL)
    now = it.families_when(lambda now: only(now, 'reigen_epoch') == 2 and
                           len(by_rank(now, 'reigen_steps_total')) == 2, 'the second epoch')
    assert {dict(k)['host'] for k in now['reigen_steps_total'].samples} == {'a'}, now
    states = {dict(k)['state']: n for k, n in now['reigen_ranks'].samples.items()}
    assert states['running'] == 2 and sum(states.values()) == 2, states


def used_s(pid):
    """Processor time of a process, in seconds."""
    with open(f'/proc/{pid}/stat') as stat:
        fields = stat.read().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def test_what_a_process_has_used_before_it_was_a_rank_does_not_count(another):
    """As in another epoch, where it gets the number of one that had used less: a sum that is
    larger and not a rank's own would be seen as this rank's sudden use of many processors."""
    burn = 'import os, sys, time\nwhile time.process_time() < 0.5: pass\n' \
           'os.execv(sys.argv[1], sys.argv[1:])'
    it = another('-np', '1', '--json', '--', sys.executable, '-c', burn, UNEVEN, '0', '20')
    told, = by_rank(it.after_steps(1, 1), 'reigen_process_cpu_seconds_total').values()
    started, = [one for one in map(json.loads, it.out.read_text().splitlines())
                if one['event'] == 'rank-started']
    assert 0 < told < used_s(started['pid']) - 0.45, 'a tick of the clock is 0.01 s'


# --- a file --------------------------------------------------------------------------------------

def test_the_file_is_whole_whenever_it_is_read(start, tmp_path, python_ranks):
    path = tmp_path / 'node/reigen.prom'
    path.parent.mkdir()
    child = start(PROGRAMS.reigen, 'run', '-np', 2, '--metrics', path, '--', 'sh', '-c',
                  'until test -e go; do sleep 0.1; done; exit 7', cwd=tmp_path, env=python_ranks,
                  umask=0o027)
    until(path.exists, 'the file', LIMIT)
    with path.open() as first:
        assert 'reigen_job_info' in read(first.read(), False)
        (tmp_path / 'go').touch()
        child.communicate(timeout=LIMIT)
        first.seek(0)
        before = read(first.read(), False)
    after = read(path.read_text(), False)
    assert child.returncode == only(after, 'reigen_job_exit_code') == 7
    assert 'reigen_job_exit_code' not in before
    assert [one.name for one in path.parent.iterdir()] == ['reigen.prom']
    assert path.stat().st_mode & 0o777 == 0o640, 'others read it as the umask says'


def test_of_ranks_that_have_ended_sums_are_left(start, tmp_path, python_ranks):
    """They are not silent, and have no memory."""
    path = tmp_path / 'f.prom'
    child = start(PROGRAMS.reigen, 'run', '-np', 2, '--metrics', path, '--', UNEVEN, 0, 20,
                  env=python_ranks)

    def told():
        assert child.poll() is None, child.communicate()
        now = read(path.read_text(), False) if path.exists() else {}
        return 'reigen_report_age_seconds' in now and now

    now = until(told, 'numbers of the ranks', LIMIT)
    child.terminate()
    child.communicate(timeout=LIMIT)
    after = read(path.read_text(), False)
    assert only(after, 'reigen_job_exit_code') == child.returncode != 0
    for name in RANKS:
        ranks = by_rank(now, name) if name.endswith('_total') else {}
        assert by_rank(after, name).keys() == ranks.keys(), name


def test_a_link_stays_one_and_restarts_are_counted(reigen, tmp_path):
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'folder/real').touch()
    (tmp_path / 'link').symlink_to('folder/real')
    done = reigen('run', '-np', 1, '--metrics', 'link', '--max-restarts', 1, '--restart-always',
                  '--', 'false', cwd=tmp_path)
    now = read((tmp_path / 'folder/real').read_text(), False)
    assert done.returncode == only(now, 'reigen_job_exit_code') == 1, done.stderr
    assert only(now, 'reigen_job_restarts_total') == 1 and (tmp_path / 'link').is_symlink()


def test_a_job_that_cannot_start_is_in_the_file(reigen, tmp_path):
    done = reigen('run', '-np', 1, '--metrics', './f', '--', 'no-such-program', cwd=tmp_path)
    now = read((tmp_path / 'f').read_text(), False)
    assert done.returncode == only(now, 'reigen_job_exit_code') == 127


def test_a_file_that_cannot_be_written_any_more_is_a_remark(reigen, tmp_path):
    (tmp_path / 'gone').mkdir()
    done = reigen('run', '-np', 1, '--metrics', 'gone/f', '--', 'sh', '-c', 'rm -r gone',
                  cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.count('--metrics gone/f: cannot write it: No such file') == 1, done.stderr


def test_a_limit_of_files_sizes_does_not_end_the_launcher(reigen, tmp_path):
    done = reigen('run', '-np', 1, '--metrics', './f', '--', 'true', cwd=tmp_path,
                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
    assert done.returncode == 74 and '--metrics ./f: cannot write it: File too large' in done.stderr
    assert not list(tmp_path.iterdir())


# --- what is refused, before anything starts -----------------------------------------------------

@pytest.mark.parametrize('where, code, words', [
    ('9100', 2, 'give a file, or an address as HOST:PORT'), (':70000', 2, 'a port of 1 to 65535'),
    ('a:b:1', 2, '[ADDRESS]:PORT'), ('192.0.2.1:0', 2, 'no address of this computer'),
    ('nowhere.invalid:0', 2, 'nowhere.invalid is no address'),
    ('no/such/folder', 2, 'No such file'), ('/', 2, 'no regular file'),
    ('fifo', 2, 'no regular file'), ('dangling', 2, 'a link to what is not there')])
def test_a_place_that_will_not_do_is_refused(reigen, tmp_path, where, code, words):
    os.mkfifo(tmp_path / 'fifo')
    (tmp_path / 'dangling').symlink_to('nothing')
    done = reigen('run', '-np', 1, '--metrics', where, '--', 'touch', 'ran', cwd=tmp_path)
    assert done.returncode == code and '--metrics' in done.stderr and words in done.stderr, done
    assert not (tmp_path / 'ran').exists() and (tmp_path / 'fifo').is_fifo()


def test_a_port_that_was_chosen_is_told_even_when_quiet(tmp_path):
    job = Job(tmp_path, '--quiet', '-np', '1', '--', 'sleep', '1000')
    job.child.terminate()
    job.child.wait(60)
    assert job.port


def test_an_address_in_use_is_refused(reigen, tmp_path):
    with socket.create_server(('127.0.0.1', 0)) as other:
        port = other.getsockname()[1]
        done = reigen('run', '-np', 1, '--metrics', f'localhost:{port}', '--', 'touch', 'ran',
                      cwd=tmp_path)
    assert done.returncode == 69 and not (tmp_path / 'ran').exists(), done.stderr
    assert f'port {port} of localhost: Address already in use; name another port' in done.stderr


def test_a_port_that_is_named_is_taken_at_this_computer_alone(another, reigen, tmp_path):
    port = free_port()
    it = another('-np', '1', '--', 'sleep', '600', where=f':{port}')
    assert it.url == f'http://127.0.0.1:{port}/metrics'
    done = reigen('run', '-np', 1, '--metrics', f':{port}', '--', 'true', cwd=tmp_path)
    assert done.returncode == 69, done.stderr


@pytest.mark.parametrize('options, words', [
    (['--write-plan', 'plan'], 'of --write-plan'), (['--submit', '--on', 'slurm'], 'of --submit'),
    (['--write-plan', 'plan', '--on', 'kubernetes', '--image', 'x'], 'on Kubernetes')])
def test_a_job_whose_numbers_are_elsewhere_is_refused(reigen, tmp_path, options, words):
    done = reigen('run', '-np', 1, '--metrics', 'f', *options, 'true', cwd=tmp_path)
    assert done.returncode == 2 and f'--metrics: the numbers of a job {words}' in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_usual_place_is_left_out_there(reigen, tmp_path, python_ranks):
    (tmp_path / 'config').write_text('[defaults]\nmetrics = ./f\n')
    env = {**python_ranks, 'REIGEN_CONFIG': str(tmp_path / 'config')}
    for options in (['--write-plan', 'plan'], ['--dry-run']):
        done = reigen('run', '-np', 1, *options, '--', 'true', cwd=tmp_path, env=env)
        assert done.returncode == 0 and not (tmp_path / 'f').exists(), done.stderr
    done = reigen('run', '-np', 1, '--', 'true', cwd=tmp_path, env=env)
    assert done.returncode == 0 and (tmp_path / 'f').exists(), done.stderr
