# SPDX-License-Identifier: Apache-2.0
"""reigen simulate: its figures, and what it says of mistakes."""
import json
import re
import subprocess
import time

import pytest

import built
from built import PROGRAMS
from wait import soon


def simulate(*arguments):
    return subprocess.run([PROGRAMS.reigen, 'simulate', *map(str, arguments)], text=True,
                          capture_output=True, timeout=60, env=built.environment())


def simulated(*arguments):
    done = simulate(*arguments, '--json', '-')
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_row_for_each_number_of_hosts():
    found = simulated('--model', 'resnet50', '--hosts', '1,4..20,4096', '--ranks-per-host', '8',
                      '--bandwidth', '25gbit', '--latency', '10us')
    assert found['parameters'] == 25557032 and found['gradient_bytes'] == 4 * 25557032
    rows = found['rows']
    assert [r['hosts'] for r in rows] == [1, 4, 8, 16, 20, 4096]
    assert [r['ranks'] for r in rows] == [8, 32, 64, 128, 160, 32768]
    for row in rows:
        assert row['step_ms'] >= row['compute_ms'] and 0 < row['efficiency'] <= 1
        assert abs(row['exposed'] - (1 - row['compute_ms'] / row['step_ms'])) < 1e-9
        assert row['samples_per_s'] == pytest.approx(64 * row['ranks'] / row['step_ms'] * 1e3)
    assert rows[0]['algorithm'] == 'memory' and rows[-1]['algorithm'] != 'memory'
    assert 'net.beta_ps             320' in found['network']


def test_the_table_says_what_was_assumed():
    done = simulate('--model', 'vgg16', '--hosts', '2')
    assert done.returncode == 0, done.stderr
    assert '138.36 million parameters' in done.stdout and '154 samples/s' in done.stdout
    assert done.stdout.splitlines()[-1].split()[:2] == ['2', '2']


def test_less_bandwidth_and_more_jitter_take_longer():
    def step(*more):
        row, = simulated('--model', 'vgg16', '--hosts', '16', *more)['rows']
        return row['step_ms']
    assert step('--bandwidth', '1gbit') > 2 * step('--bandwidth', '10gbit')
    assert step('--jitter', '10') > step()
    assert step('--type', 'bfloat16') < step()


def test_any_model_by_its_parameters_and_layers():
    network = ('--step-ms', 900, '--type', 'bfloat16', '--hosts', 64, '--bandwidth', '100gbit')
    by_name = simulated('--model', 'llama-7b', *network)
    by_numbers = simulated('--params', '6.7b', '--layers', 32, *network)
    assert by_numbers['rows'] == by_name['rows'] and by_numbers['tensors'] == 6 * 32
    assert (by_numbers['model'], by_numbers['parameters']) == ('32 layers', 6700000000)
    assert simulated('--params', '1', '--layers', 1000, *network)['parameters'] == 1


def test_the_page_has_every_model_with_its_numbers():
    page = (built.ROOT / 'docs/simulate.md').read_text()
    rows = re.findall(r'`([\w-]+)`\s\(([\d.]+)\s([MB]),\s(\d+)\)', page)
    assert len(rows) == 12
    for name, number, unit, layers in rows:
        found = simulated('--model', name, '--step-ms', 1, '--hosts', 1)
        assert found['parameters'] == round(float(number) * {'M': 1e6, 'B': 1e9}[unit]), name
        assert found['tensors'] == 6 * int(layers), name


def test_a_hundred_thousand_ranks_in_two_seconds():
    began = time.monotonic()
    row, = simulated('--model', 'inception3', '--hosts', '12500', '--ranks-per-host', '8')['rows']
    assert row['ranks'] == 100000 and soon(began, 2)


@pytest.mark.parametrize('arguments, said', [
    ([], 'name what is trained, such as --model resnet50'),
    (['--params', '7e9'], 'say both --params and --layers'),
    (['--params', '7x', '--layers', '2'], '--params 7x: give a number of parameters'),
    (['--params', '0', '--layers', '2'], '--params 0: give 1 to 1e+14'),
    (['--params', '7e9', '--layers', '32'], '--step-ms MS'),
    (['--model', 'vgg16', '--layers', '32'], 'not together with --layers'),
    (['--model', 'resnet5'], 'did you mean resnet50?'),
    (['--model', 'bert-large'], 'bert-large: how long a rank computes'),
    (['--model', 'vgg16', '--bandwidth', '25'], '--bandwidth 25: give bits per second'),
    (['--model', 'vgg16', '--bandwidth', '7mbit'], '--bandwidth 7mbit: give 8mbit to 8tbit'),
    (['--model', 'vgg16', '--bandwidth', '9tbit'], '--bandwidth 9tbit: give 8mbit to 8tbit'),
    (['--model', 'vgg16', '--latency', '10'], '--latency 10: give a time'),
    (['--model', 'vgg16', '--latency', '0us'], '--latency 0us: give 1ns to 2s'),
    (['--model', 'vgg16', '--hosts', '0'], '--hosts'),
    (['--model', 'vgg16', '--hosts', '8..4'], '--hosts'),
    (['--model', 'vgg16', '--hosts', '50000', '--ranks-per-host', '8'], 'more than 100000 ranks'),
    (['--model', 'vgg16', '--parameters', '/nowhere'], 'reigen bench --fit FILE writes one'),
    (['--model', 'vgg16', '--latncy', '1us'], 'did you mean --latency?'),
])
def test_mistakes_name_the_value_and_the_remedy(arguments, said):
    done = simulate(*arguments)
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not done.stdout


@pytest.mark.parametrize('bandwidth, latency', [('8mbit', '2s'), ('8tbit', '1ns')])
def test_the_network_of_any_document_can_be_given_back(tmp_path, bandwidth, latency):
    found = simulated('--model', 'vgg16', '--hosts', '1..100000', '--bandwidth', bandwidth,
                      '--latency', latency)
    path = tmp_path / 'network.model'
    path.write_text(found['network'])
    again = simulated('--model', 'vgg16', '--hosts', '1..100000', '--parameters', path)
    assert again['rows'] == found['rows']
    efficiencies = [row['efficiency'] for row in found['rows']]
    assert efficiencies[0] == 1 and efficiencies == sorted(efficiencies, reverse=True)


def test_a_broken_file_of_parameters_is_told_with_its_line(tmp_path):
    path = tmp_path / 'model'
    path.write_text('net.alpha_ns 1000\nnet.alpha 5\n')
    done = simulate('--model', 'vgg16', '--parameters', path)
    assert done.returncode == 2 and str(path) in done.stderr and '2' in done.stderr, done.stderr


def test_the_page_s_comparison_with_horovod_is_what_it_prints(tmp_path):
    page = (built.ROOT / 'docs/simulate.md').read_text()
    for name, text in re.findall(r'```text\n# (\w+\.model)\n(.*?)```', page, re.S):
        (tmp_path / name).write_text(text)
    rows = re.findall(r'^\| (\S.*?) \| (\d+) ms \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \|', page,
                      re.M)
    assert [row[0] for row in rows] == ['Inception V3', 'ResNet-101', 'VGG-16']
    names = {'Inception V3': 'inception3', 'ResNet-101': 'resnet101', 'VGG-16': 'vgg16'}
    for name, step, *efficiencies in rows:
        given = ['--model', names[name], '--hosts', '128', '--ranks-per-host', '4', '--bandwidth',
                 '25gbit', '--latency', '10us']
        given += ['--step-ms', step] if name == 'ResNet-101' else []
        found = [simulated(*given, '--parameters', tmp_path / file, '--jitter', jitter)
                 for file, jitter in (('tcp.model', 0), ('rdma.model', 0), ('rdma.model', 3))]
        assert [f'{f["rows"][0]["efficiency"] * 100:.1f}' for f in found] == efficiencies, name
        assert f'{found[0]["compute_ms"]:.0f}' == step
