# SPDX-License-Identifier: Apache-2.0
"""bench/distributed.py: its contenders run, and each row of its targets is judged."""
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'bench'))
import report_distributed  # noqa: E402


def step(alone, reigen, gloo, hvd):
    us = {'alone': alone, 'reigen': reigen, 'gloo': gloo, 'hvd': hvd, 'front': alone}
    return {'us': us, 'gloo': reigen / gloo, 'hvd': reigen / hvd}


def found(small, large, reigen):
    us = {'reigen': 1.0, 'gloo': 2.0, 'hvd': 1.0, 'front': 0.5}
    return {'np': 2, 'torch': '2', 'steps': {'mlp': step(100, reigen, 200, 150)},
            'allreduce': {4: {'us': us, 'gloo': small, 'hvd': 1.1},
                          65536: {'us': us, 'gloo': large, 'hvd': 1.2}}}


def test_a_row_passes_at_its_limit_and_is_missed_above_it():
    passed = report_distributed.page([found(0.2, 0.6, 150)])
    missed = report_distributed.page([found(0.21, 0.61, 151)])
    for what in ('4 B to 16 KiB: worst against gloo', '64 KiB to 64 MiB: worst against gloo',
                 "time of a step above one rank's"):
        assert sum(what in line and line.endswith('| pass |') for line in passed) == 1
        assert sum(what in line and line.endswith('| MISSED |') for line in missed) == 1
    assert any('worst against hvd | 1.15 | 1.20 | MISSED' in line for line in passed)


def test_where_gloo_adds_nothing_no_share_is_judged():
    assert report_distributed.above([step(100, 90, 101, 100)]) is None


def test_all_contenders_run():
    subprocess.run([ROOT / 'tools/frameworks.sh', 'torch2'], check=True, timeout=1200,
                   stdout=subprocess.DEVNULL)
    done = subprocess.run(['/usr/bin/python3', ROOT / 'bench/distributed.py', '--np', '2',
                           '--rounds', '2', '--sizes', '4,65536', '--models', 'deep'],
                          capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    for line in ('| torch.distributed, 2 ranks, 4 B to 16 KiB: worst against gloo | 0.2 | ',
                 '| all_reduce, 2 ranks: worst against hvd | 1.15 | ', '| 64 KiB | ', '| deep | '):
        assert line in done.stdout, done.stdout
