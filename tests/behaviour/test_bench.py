# SPDX-License-Identifier: Apache-2.0
"""reigen bench: what it measures, under which launchers, and what it says of mistakes."""
import json
import math
import subprocess
import xml.etree.ElementTree as xml

import pytest

import built
import ranks
from built import PROGRAMS

QUICK = ['--iterations', '3', '--rounds', '2', '--warmup', '1']
DATA = ['allreduce', 'allgather', 'broadcast', 'alltoall', 'reducescatter', 'allgather-into',
        'reducescatter-into']
TYPES = {'uint8': 1, 'int8': 1, 'uint16': 2, 'int16': 2, 'int32': 4, 'int64': 8, 'float16': 2,
         'float32': 4, 'float64': 8, 'bool': 1, 'bfloat16': 2}


def bench(*arguments, timeout=120, **variables):
    return subprocess.run([PROGRAMS.reigen, 'bench', *map(str, arguments)], text=True,
                          capture_output=True, timeout=timeout * ranks.SLOWER,
                          env=built.environment(**variables))


def measured(*arguments, **options):
    """The JSON document of a measurement that has to succeed."""
    done = bench(*arguments, *QUICK, '--json', '-', **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize('np', [2, 4])
def test_every_operation_and_type_is_right(np):
    found = measured('-np', np, '--op', 'all', '--type', 'all', '--check', '--min-bytes', '1000',
                     '--max-bytes', '1000')
    assert found['ranks'] == np and found['hosts'] == 1
    assert any('shm' in line for line in found['runtime'])
    rows = {(r['operation'], r['type']): r for r in found['rows']}
    assert set(rows) == {(o, t) for o in DATA for t in TYPES} | {('barrier', None), ('join', None)}
    for (operation, kind), row in rows.items():
        figures = row['results']['reigen']
        assert figures['wrong'] == 0, row
        assert 0 < figures['min_us'] <= figures['time_us'] <= figures['max_us']
        assert figures['iterations'] == 3
        if kind:
            assert row['bytes'] == row['count'] * TYPES[kind]
            assert row['bytes'] <= 1000 < row['bytes'] + np * TYPES[kind]
            factor = {'allreduce': 2 * (np - 1) / np, 'broadcast': 1}.get(operation, (np - 1) / np)
            bandwidth = row['bytes'] / figures['time_us'] / 1e3
            assert math.isclose(figures['algorithm_GBps'], bandwidth, rel_tol=1e-6)
            assert math.isclose(figures['bus_GBps'], bandwidth * factor, rel_tol=1e-6)


@pytest.mark.parametrize('options, contained', [
    ([], False), (['--image', 'x'], True), (['--config', 'job.yaml'], True),
    (['--config', 'job.yaml', '--image', 'none'], False),
])
def test_in_containers_ranks_run_what_is_there(tmp_path, options, contained):
    (tmp_path / 'job.yaml').write_text('image: x\n')
    done = subprocess.run([PROGRAMS.reigen, 'bench', *options, '-np', '2', '--dry-run'], text=True,
                          capture_output=True, timeout=60, cwd=tmp_path, check=True)
    words = [line.split()[-2:] for line in done.stdout.splitlines() if line.endswith(' bench')]
    assert len(words) == 2 and all(w[0].startswith('/') != contained for w in words), done.stdout


@pytest.mark.parametrize('options', [['--in-place'], ['--group', '3'],
                                     ['--group', '3', '--separate']])
def test_in_place_and_in_groups(options):
    found = measured('-np', 2, '--op', 'all', '--type', 'int32', '--check', '--min-bytes', '4096',
                     '--max-bytes', '4096', *options)
    assert len(found['rows']) == len(DATA) + 2
    for row in found['rows']:
        assert row['results']['reigen']['wrong'] == 0, row
        can = row['operation'] in ('allreduce', 'broadcast', 'allgather-into')
        assert row['in_place'] == (can and options == ['--in-place'])
        grouped = options[0] == '--group' and row['operation'] in DATA
        assert row['group'] == (3 if grouped else 1)
        assert row['separate'] == ('--separate' in options)


@pytest.mark.parametrize('reduction', ['average', 'min', 'max', 'product', 'adasum'])
def test_other_reductions_are_right(reduction):
    found = measured('-np', 3, '--op', 'allreduce,reducescatter', '--type', 'all', '--check',
                     '--min-bytes', '512', '--max-bytes', '512', '--reduction', reduction)
    assert {r['reduction'] for r in found['rows']} == {reduction}
    assert all(r['results']['reigen']['wrong'] == 0 for r in found['rows']), found
    scattered = [r for r in found['rows'] if r['operation'] == 'reducescatter']
    assert bool(scattered) == (reduction == 'average')


def test_sizes_grow_by_the_factor_and_none_comes_twice():
    found = measured('-np', 2, '--op', 'allgather', '--min-bytes', '1', '--max-bytes', '1k',
                     '--factor', '2')
    assert [r['bytes'] for r in found['rows']] == [8, 16, 32, 64, 128, 256, 512, 1024]


def test_sizes_may_be_listed():
    found = measured('-np', 2, '--bytes', '1k,4,64')
    assert [r['bytes'] for r in found['rows']] == [1024, 4, 64]


def test_a_plane_may_be_chosen():
    found = measured('-np', 2, '--plane', 'tcp', '--max-bytes', '4', '--check')
    assert any(line.startswith('plane tcp') for line in found['runtime']), found['runtime']
    assert found['rows'][0]['results']['reigen']['wrong'] == 0


@pytest.mark.parametrize('size', [2, 4])
def test_plain_variables_and_rank_0_alone_prints(size):
    port, started = ranks.free_port(), []
    try:
        for rank in range(size):
            started.append(ranks.Rank(
                [PROGRAMS.reigen, 'bench', *QUICK, '--max-bytes', '64', '--check'],
                ranks.rank_environment(rank, size, port)))
        for rank in started:
            assert rank.wait(60 * ranks.SLOWER) == 0, ranks.state(started)
        rows = [line for line in started[0].lines if not line.startswith('#')]
        assert 'bytes' in rows[0] and [int(row.split()[0]) for row in rows[1:]] == [4, 16, 64]
        assert all(row.split()[-1] == '0' for row in rows[1:]), rows
        assert not any(rank.lines or rank.err for rank in started[1:]), ranks.state(started)
    finally:
        for rank in started:
            rank.close()


def test_ranks_of_reigen_run_and_one_alone():
    done = subprocess.run([PROGRAMS.reigen, 'run', '-np', '2', '--no-tag-output', '--',
                           PROGRAMS.reigen, 'bench', *QUICK, '--max-bytes', '4'], text=True,
                          capture_output=True, timeout=60 * ranks.SLOWER, env=built.environment())
    assert done.returncode == 0, done.stderr
    assert '2 ranks on 1 host' in done.stdout and done.stdout.count('allreduce sum') == 1
    alone = bench(*QUICK, '--max-bytes', '4')
    assert alone.returncode == 0 and '1 rank on 1 host' in alone.stdout, alone.stderr


def test_the_page_is_well_formed_and_stands_alone(tmp_path):
    path, document = tmp_path / 'bench.html', tmp_path / 'bench.json'
    done = bench('-np', 2, '--op', 'allreduce,barrier', *QUICK, '--max-bytes', '64k', '--html',
                 path, '--json', document)
    assert done.returncode == 0, done.stderr
    rows = json.loads(document.read_text())['rows']
    page = xml.fromstring(path.read_text().replace('<!DOCTYPE html>\n', ''))
    assert len(page.findall('.//svg')) == 2
    assert len(page.findall('.//polyline')) == 2
    assert len(page.findall('.//table/tr')) == 1 + len(rows)
    assert not page.findall('.//script') and 'http' not in path.read_text()


def test_a_model_is_fitted_and_simulate_reads_it(tmp_path):
    path = tmp_path / 'model'
    done = bench('-np', 2, '--op', 'allreduce,broadcast', *QUICK, '--max-bytes', '64k', '--fit',
                 path)
    assert done.returncode == 0, done.stderr
    assert 'predicted within a factor of' in done.stdout
    assert 'node.alpha_ns' in path.read_text()
    simulated = subprocess.run([PROGRAMS.reigen, 'simulate', '--model', 'resnet50', '--parameters',
                                path, '--hosts', '2', '--json', '-'], text=True,
                               capture_output=True, timeout=30, env=built.environment())
    assert simulated.returncode == 0, simulated.stderr
    again = bench('-np', 2, *QUICK, '--max-bytes', '64', '--fit', path)
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize('np, text, said', [
    (2, 'net.alpha 5\n', 'line 1: net.alpha is no parameter of the model'),
    (1, None, 'one rank alone tells nothing of the model'),
])
def test_what_cannot_be_fitted_is_told_before_anything_is_measured(tmp_path, np, text, said):
    path = tmp_path / 'model'
    if text:
        path.write_text(text)
    done = bench('-np', np, '--seconds', '3000', '--fit', path, timeout=30)
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not done.stdout and done.stderr.count(said) == 1


@pytest.mark.parametrize('arguments, said', [
    (['--op', 'alreduce'], '--op alreduce: there is no such; did you mean allreduce?'),
    (['--op', 'x'], 'give some of allreduce, allgather'),
    (['--type', 'float31'], '--type float31: there is no such; did you mean float32?'),
    (['--factr', '2'], 'did you mean --factor?'),
    (['--factor', '1'], '--factor'),
    (['--min-bytes', '1m', '--max-bytes', '1k'], '--min-bytes 1048576: it is more than'),
    (['--max-bytes', '16g', '--group', '2'], 'more than 16 GiB'),
    (['--seconds', '0'], '--seconds 0: give a time'),
    (['--seconds', '0x1'], '--seconds 0x1: give a time'),
    (['--seconds', 'nan'], '--seconds nan: give a time'),
    (['--op', 'alltoall', '--in-place'], 'none of the operations of --op can'),
    (['--op', 'reducescatter', '--reduction', 'max'], 'no operation of --op has it'),
    (['--peer', 'nccl'], '--peer nccl: there is no such'),
    (['--fit', 'x', '--group', '2'], 'leave out --group 2'),
    (['--peers-alone'], '--peers-alone: it needs --peer'),
    (['--bytes', '4,x'], '--bytes'), (['--bytes', ','], '--bytes: its value is empty'),
    (['--max-bytes', '4', '-np'], 'bench -np: its value is missing'),
    (['--group'], '--group: its value is missing'),
    (['--check=1'], '--check takes no value'),
    (['train.py'], 'it takes options only'),
])
def test_mistakes_name_the_value_and_the_remedy(arguments, said):
    done = bench(*arguments, timeout=20)
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not done.stdout and done.stderr.count('reigen: ') == 1


def test_one_rank_alone_says_what_all_got_wrong():
    done = bench('-np', 3, '--plane', 'shmm', timeout=60)
    assert done.returncode == 2
    assert done.stderr.count('"shmm" is no plane') == 1, done.stderr


@pytest.mark.parametrize('name', ['RANK', 'REIGEN_RANK', 'PMIX_RANK', 'PMI_RANK', 'SLURM_PROCID',
                                  'OMPI_COMM_WORLD_RANK'])
def test_of_a_mistake_rank_0_alone_speaks(name):
    first, second = (bench('--op', 'x', timeout=20, **{name: rank}) for rank in (0, 1))
    assert first.returncode == second.returncode == 2
    assert 'there is no such' in first.stderr and not second.stderr


def test_a_peer_that_is_not_there_is_named():
    done = bench('-np', 2, '--peer', 'mpi', *QUICK, timeout=60)
    assert done.returncode == 69 and 'mpirun -np 4 reigen bench' in done.stderr, done.stderr
    done = bench('-np', 2, '--peer', 'gloo', '--python', '/bin/true', *QUICK, timeout=60)
    assert done.returncode == 69 and '--python PROGRAM' in done.stderr, done.stderr


def test_gloo_takes_turns():
    found = measured('-np', 2, '--peer', 'gloo', '--python', PROGRAMS.python, '--max-bytes', '64',
                     '--op', 'allreduce,barrier,join', timeout=200)
    for row in found['rows']:
        gloo = row['results']['gloo']
        if row['operation'] == 'join':
            assert gloo['time_us'] is None and 'gloo: it has no join' in gloo['note']
        else:
            assert 0 < gloo['p10_us'] <= gloo['time_us'] and gloo['iterations'] == 3


def test_peers_may_be_measured_alone():
    found = measured('-np', 2, '--peer', 'gloo', '--python', PROGRAMS.python, '--bytes', '4',
                     '--peers-alone', timeout=200)
    results = found['rows'][0]['results']
    assert results['reigen']['time_us'] is None and results['gloo']['time_us'] > 0
