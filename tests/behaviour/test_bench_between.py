# SPDX-License-Identifier: Apache-2.0
"""bench/between.py and bench/regress.py: each row is judged by its own limit, and a figure that is
more than a quarter worse than the recorded one is found. No network is made here."""
import contextlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'bench'))
import between  # noqa: E402 (needs the path above)
import regress  # noqa: E402 (needs the path above)
import report_between as report  # noqa: E402

NETWORKS = {'1g-1': ('1gbit', 1.0), '10g': ('10gbit', 0.0)}
ROUND_TRIP = 2000


def raw(*rows, networks=('1g-1', '10g')):
    """What between.py hands over; a row is (part, network, layout, item, {name: value})."""
    return {'when': 'today', 'cores': 2, 'load': 0.0, 'rounds': 1, 'took_s': 1.0, 'sizes': [],
            'layouts': [], 'networks': {n: NETWORKS[n] for n in networks},
            'values': [[*row[:3], str(row[3]), {name: [value] for name, value in row[4].items()}]
                       for row in rows]}


def missed(*row):
    """What the only row of an allreduce misses, and what it was compared with."""
    checks = report.judge_allreduce(report.Results(raw(('allreduce', *row))), row[0], row[1],
                                    row[2])
    return {what for what, (ratio, limit) in checks.items() if ratio > limit}, set(checks)


@pytest.mark.parametrize('words, says', [
    (['--contenders', 'reigen,mpich'], 'there is no mpich; give some of reigen, gloo, mpi'),
    (['--networks', '100g'], 'there is no 100g; give some of 1g, 10g'),
    (['--only', 'all'], 'there is no all'), (['--layouts', '4'], "'4' is not understood"),
    (['--layouts', '0x2'], "'0x2' is not understood"),
    (['--sizes', '1G'], "'1G' is not understood"),
    (['--sizes', '-4'], "'-4' is not understood"),
])
def test_mistakes_are_told_before_anything_is_built(words, says, capsys):
    with pytest.raises(SystemExit) as end:
        between.main(words)
    assert end.value.code == 2 and says in capsys.readouterr().err


def test_options_are_lists():
    args = between.options(['--quick', '--sizes', '4,64K,1M', '--contenders', 'mpi'])
    assert args.sizes == [4, 65536, 1048576] and args.contenders == ['mpi']
    assert [str(layout) for layout in args.layouts] == ['2x1', '4x1']
    assert [layout.ranks for layout in between.options([]).layouts] == [2, 4, 4, 8]


@pytest.mark.parametrize('us, misses', [(110, set()), (111, {'mpi'}), (251, {'mpi', 'gloo'})])
def test_a_small_size_is_compared_with_each_peer(us, misses):
    row = {'reigen': us, 'mpi': 100.1, 'gloo': 500}
    assert missed('10g', '4x1', 4096, row) == (misses, {'mpi', 'gloo'})


def test_a_large_size_is_compared_with_the_best_peer():
    assert missed('10g', '4x1', 1 << 20, {'reigen': 102, 'mpi': 100, 'gloo': 300})[0] == set()
    assert missed('10g', '4x1', 1 << 20, {'reigen': 103, 'mpi': 300, 'gloo': 100}) == (
        {'best peer'}, {'best peer'})


def test_with_a_delay_two_hosts_are_compared_with_a_round_trip():
    assert missed('1g-1', '2x1', 4, {'reigen': 1.09 * ROUND_TRIP}) == (set(), {'round trip'})
    assert missed('1g-1', '2x1', 65536, {'reigen': 1.11 * (ROUND_TRIP + 525)})[0] == {'round trip'}
    assert missed('1g-1', '4x1', 4, {'reigen': 1e6}) == (set(), set())
    assert missed('10g', '2x1', 4, {'reigen': 1e6}) == (set(), set())


def test_the_largest_size_is_compared_with_the_line_or_what_tcp_reaches_of_it():
    nbytes = 64 << 20
    line_us = nbytes * 8 / 10e3
    row = ('allreduce', '10g', '2x1', nbytes, {'reigen': 1.5 * line_us})
    checks = report.judge_allreduce(report.Results(raw(row)), '10g', '2x1', nbytes)
    assert checks['line'][0] > checks['line'][1]
    tcp = ('iperf', '10g', '2x1', 'gbit', {'iperf3': 7.0})
    checks = report.judge_allreduce(report.Results(raw(row, tcp)), '10g', '2x1', nbytes)
    assert checks['line'][0] == pytest.approx(7 / (10 / 1.5))


def test_every_other_target_is_judged(tmp_path):
    found = raw(('many', '1g-1', '4x1', '300x1024', {'reigen': 4100.0, 'mpi': 9000.0}),
                ('wire', '10g', '4x1', 1 << 20, {'reigen': 1.01 * 6 * (1 << 20)}),
                ('wireup', '1g-1', '4x4', 'init', {'reigen': 0.19}),
                ('wireup', '1g-1', '4x16', 'init', {'reigen': 0.51}),
                ('training', '10g', '2x1', 'mlp',
                 {'alone': 1000.0, 'reigen': 1061.0, 'gloo': 1200.0, 'hvd-mpi': 1100.0}))
    page, count, rows = report.render(found, tmp_path)
    assert [row['ratio'] <= row['limit'] for row in rows] == [False, True, True, False, False]
    assert rows[-1]['ratio'] == pytest.approx(0.61)
    assert count == 3 and page.count('| MISSED |') == 3 and page.count('| pass |') == 2


def test_training_stands_beside_the_time_of_its_bytes(tmp_path):
    found = raw(('iperf', '10g', '4x1', 'gbit', {'iperf3': 8.0}),
                ('training', '10g', '4x1', 'big',
                 {'alone': 10000.0, 'reigen': 80000.0, 'gloo': 110000.0}))
    assert '| 4x1, big | 10.00 | **80.00** | 70.00 | 110.00 | 50.42 |' in report.render(
        found, tmp_path)[0]


def test_the_page_has_a_picture_of_each_network_and_tables_of_those_with_a_delay(tmp_path):
    rows = [('allreduce', n, '2x1', size, {'reigen': 1.0 + size, 'mpi': 2.0 + size})
            for n in NETWORKS for size in (4, 1024)]
    assert report.write(raw(*rows), tmp_path) == 0
    page = (tmp_path / 'benchmarks-hosts.md').read_text()
    for network in NETWORKS:
        assert f'](benchmarks-hosts-{network}.svg)' in page
        assert (tmp_path / f'benchmarks-hosts-{network}.svg').read_text().startswith('<svg')
    assert '## 1 Gb/s + 1 ms' in page and page.count('| 1 KiB | 1,025 | - | 1,026 |') == 1
    alone = raw(*rows[2:], networks=('10g',))
    assert '| 1 KiB | 1,025 | - | 1,026 |' in report.render(alone, tmp_path)[0]


def test_the_record_of_the_comparison_outlives_a_new_page(tmp_path):
    record = tmp_path / 'benchmarks-hosts.json'
    record.write_text('{"regress": {"a row": 1.5}}')
    report.write(raw(), tmp_path)
    assert json.loads(record.read_text())['regress'] == {'a row': 1.5}


def test_a_quarter_more_is_too_much_and_so_is_a_row_that_is_gone():
    record = {'same': 1.0, 'gone': 1.0, 'worse': 2.0, 'better': 3.0}
    found = {'same': [(2, 1), (1.25, 1)], 'worse': [(2.51, 1), (3, 1)], 'better': [(1, 1)],
             'new': [(9, 1)]}
    assert regress.too_large(found, record) == ['gone', 'worse']


def test_a_round_in_which_the_peer_was_held_up_does_not_count():
    assert regress.ratios([(50, 10), (40, 14), (40, 4000)]) == [5, 40 / 14]
    assert regress.too_large({'a': [(50, 10), (40, 4000)]}, {'a': 1.0}) == ['a']


@pytest.mark.parametrize('times, ends', [([9.0, 2.4, 1.0], 0), ([2.6, 2.7, 2.6], 1)])
def test_another_round_forgives_the_machine_but_not_the_program(monkeypatch, rounds_of, capsys,
                                                                times, ends):
    """Figures of a machine that was busy at first, and of a program that became slower."""
    rounds = iter([{'a': (us, 1)} for us in times])
    rounds_of({'regress': {'a': 2.0}}, rounds)
    monkeypatch.setattr(regress, 'ROUNDS_MAX', len(times))
    assert regress.main([]) == ends
    assert ('WORSE' in capsys.readouterr().out) == bool(ends)
    assert len(list(rounds)) == (1 if ends == 0 else 0)  # good enough is good enough


def test_without_a_record_there_is_nothing_to_compare_with(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(regress, 'RECORD', tmp_path / 'none.json')
    assert regress.main([]) == 1
    assert '--record writes one' in capsys.readouterr().out


@pytest.fixture
def rounds_of(monkeypatch, tmp_path):
    """rounds_of(record, what each round finds): the path of the record."""
    def prepare(record, rounds):
        path, rounds = tmp_path / 'record.json', iter(rounds)
        path.write_text(json.dumps(record))
        monkeypatch.setattr(regress, 'RECORD', path)
        monkeypatch.setattr(regress, 'a_network', contextlib.nullcontext)
        monkeypatch.setattr(regress, 'timed_round', lambda net: next(rounds))
        monkeypatch.setattr(regress, 'beside_round', lambda net: {})
        monkeypatch.setattr(regress, 'counted_round', lambda net: {})
        return path
    return prepare


def test_recorded_is_the_median_of_the_rounds(rounds_of):
    path = rounds_of({'rows': []}, [{'a': (us, 1)} for us in (9.0, 2.0, 3.0, 4.0, 1.0)])
    assert regress.main(['--record']) == 0
    assert json.loads(path.read_text()) == {'rows': [], 'regress': {'a': 3.0}}


@pytest.mark.parametrize('before, rounds', [
    ({'a': 3.0, 'lost': 1.0}, [{'a': (3, 1)}] * 5),
    ({'a': 3.0}, [{'a': (3, 1), 'some': (1, 1)}] * 4 + [{'a': (3, 1)}]),
])
def test_a_record_without_a_row_is_not_written(rounds_of, capsys, before, rounds):
    path = rounds_of({'regress': before}, rounds)
    assert regress.main(['--record']) == 1
    assert json.loads(path.read_text()) == {'regress': before}
    assert 'nothing is recorded: ' in capsys.readouterr().out
