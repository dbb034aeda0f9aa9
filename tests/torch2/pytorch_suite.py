# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tests for a backend of torch.distributed, with the backend's name replaced.

    build/envs/torch2/bin/python tests/torch2/pytorch_suite.py [--ranks 4] [TEST ...]

runs the tests of the installed PyTorch (torch.testing._internal.distributed.distributed_test) with
gloo, and once more with "reigen" wherever they name gloo, and prints what came out. A test that
gloo fails or skips on this computer says nothing about Reigen. PYTHONPATH has to lead to Reigen.
Some tests are for MPI alone: --name mpi runs those that PyTorch runs with MPI, with Reigen in its
place. --file runs a test file of PyTorch's sources. docs/distributed.md has the results.
"""
import argparse
import collections
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

#: Tests of what a backend is called.
BY_NAME = ('test_get_backend',)
#: What a test may take, unless PyTorch gives it a time of its own.
LIMIT_S = '60'


def replace_backend(name, used):
    """From now on, torch.distributed makes Reigen's groups where another backend is named, and
    where none is. The file that used names is there once a group is made."""
    import torch.distributed as dist
    from torch.distributed import device_mesh, distributed_c10d as c10d
    import reigen.distributed  # noqa: F401

    def renamed(backend):
        return backend.replace(name, 'reigen') if isinstance(backend, str) else backend

    def tell(backend):
        if 'reigen' in (backend or ''):
            Path(used).touch()

    make_world, make_group = c10d.init_process_group, c10d.new_group

    def init_process_group(backend=None, *args, **kwargs):
        backend = renamed(backend or 'reigen')
        result = make_world(backend, *args, **kwargs)
        tell(backend)
        return result

    def new_group(ranks=None, timeout=None, backend=None, *args, **kwargs):
        tell(renamed(backend))
        return make_group(ranks, timeout, renamed(backend), *args, **kwargs)

    # Also for torch.distributed.device_mesh, which has names of its own for them.
    for module in (dist, c10d, device_mesh):
        module.init_process_group, module.new_group = init_process_group, new_group


def fork_ranks():
    """Ranks are forks of this process, which has loaded PyTorch: that saves seconds for each."""
    import torch.multiprocessing as mp
    from torch.testing._internal import common_distributed as common

    def start(self):
        self._start_processes(mp.get_context('fork').Process)

    common.MultiProcessTestCase._spawn_processes = start
    mp.set_start_method('fork', force=True)
    mp.set_start_method = lambda *args, **kwargs: None


def built_in():
    """The tests that come with PyTorch's wheel."""
    from torch.testing._internal.distributed import ddp_under_dist_autograd_test as ddp, rpc_utils
    from torch.testing._internal.distributed import distributed_test as base
    from torch.testing._internal.distributed.rpc.tensorpipe_rpc_agent_test_fixture import (
        TensorPipeRpcAgentTestFixture as Agent)

    class Backend(base.TestDistBackend, base.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._spawn_processes()

    with_rpc = rpc_utils.generate_tests(
        '', Agent, [ddp.DdpUnderDistAutogradTest, ddp.DdpComparisonTest], __name__)
    return unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromTestCase,
                                  [Backend, *with_rpc.values()]))


def cases(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from cases(item)
        else:
            yield item


class Lines(unittest.TestResult):
    """Writes a line of JSON for each test. The file that used names tells of a group."""

    def __init__(self, path, used):
        super().__init__()
        self._used = Path(used)
        self._file = open(path, 'w', encoding='utf-8', buffering=1)
        self._begun = 0.0

    def startTest(self, test):
        super().startTest(test)
        self._used.unlink(missing_ok=True)
        self._begun = time.monotonic()

    def _write(self, test, outcome, reason=''):
        name = '.'.join(test.id().split('.')[-2:])
        json.dump({'test': name, 'outcome': outcome, 'reason': reason,
                   'used': self._used.exists(),
                   'seconds': round(time.monotonic() - self._begun, 2)}, self._file)
        self._file.write('\n')

    def addSuccess(self, test):
        self._write(test, 'passed')

    def addSkip(self, test, reason):
        self._write(test, 'skipped', reason)

    def addError(self, test, err):
        self._write(test, 'failed', f'{err[0].__name__}: {err[1]}')

    addFailure = addError

    def addExpectedFailure(self, test, err):
        self._write(test, 'passed')

    def addUnexpectedSuccess(self, test):
        self._write(test, 'failed', 'passes, and is expected to fail')


def run_here(args):
    """The tests with one backend, in this process."""
    used = f'{args.out}.used'
    if args.backend != 'gloo':
        replace_backend(args.name, used)
    fork_ranks()
    suites = [] if args.file else [built_in()]
    for path in args.file:
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        module = importlib.import_module(os.path.basename(path).removesuffix('.py'))
        suites.append(unittest.defaultTestLoader.loadTestsFromModule(module))
    wanted = set(args.tests)
    chosen = [case for suite in suites for case in cases(suite)
              if not wanted or case._testMethodName in wanted]
    unittest.TestSuite(chosen).run(Lines(args.out, used))


def run_with(backend, args):
    """What run_here() found, of a process of its own. Its own words go to --log's files."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, 'results')
        log = args.log and f'{args.log}-{backend}.log'
        env = {**os.environ, 'BACKEND': args.name, 'WORLD_SIZE': str(args.ranks),
               'DISTRIBUTED_TESTS_DEFAULT_TIMEOUT': LIMIT_S, 'TEMP_DIR': folder,
               'OMP_NUM_THREADS': '1'}
        command = [sys.executable, __file__, '--backend', backend, '--name', args.name,
                   '--out', out, *args.tests]
        for path in args.file:
            command += ['--file', path]
        with open(log or os.devnull, 'w', encoding='utf-8') as words:
            subprocess.run(command, env=env, stdout=words, stderr=words, check=True)
        with open(out, encoding='utf-8') as lines:
            return {result['test']: result for result in map(json.loads, lines)}


def last_line(reason):
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    words = [line for line in lines if 'Error' in line or 'xception' in line]
    return (words or lines or [''])[-1][:200]


def report(gloo, ours, out=sys.stdout):
    """Prints the table, and returns the tests that Reigen ought to pass and does not."""
    worse = []
    table = collections.Counter()
    skips = collections.Counter()
    for test, result in ours.items():
        base = gloo[test]['outcome'] if gloo else '-'
        table[base, result['outcome']] += 1
        if result['outcome'] == 'skipped' and base != 'passed':
            skips[result['reason']] += 1
        elif result['outcome'] != 'passed' and base in ('passed', '-'):
            by_name = test.rpartition('.')[2] in BY_NAME
            worse += [] if by_name else [test]
            print(f"{result['outcome']}{', by its name' if by_name else ''}: {test}: "
                  f"{last_line(result['reason'])}", file=out)
    for test, result in gloo.items():
        if result['outcome'] == 'failed':
            print(f"gloo fails: {test}: {last_line(result['reason'])}", file=out)
    for reason, count in skips.most_common():
        print(f'{count:5} skipped: {reason}', file=out)
    print('tests gloo     reigen', file=out)
    for (base, found), count in sorted(table.items()):
        print(f'{count:5} {base:8} {found}', file=out)
    passed = sum(count for (_, found), count in table.items() if found == 'passed')
    without = sum(r['outcome'] == 'passed' and not r['used'] for r in ours.values())
    print(f'reigen: {passed} of {len(ours)} passed, {len(worse)} worse than expected', file=out)
    if without:
        print(f'{without} of those that passed made no group of Reigen', file=out)
    return worse


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('tests', nargs='*', metavar='TEST', help='names of tests; default: all')
    parser.add_argument('--ranks', type=int, default=4)
    parser.add_argument('--file', action='append', default=[], help="a file of PyTorch's tests")
    parser.add_argument('--name', default='gloo', choices=['gloo', 'mpi'],
                        help='the backend whose place Reigen takes; with mpi, nothing is compared')
    parser.add_argument('--log', help="PREFIX of files for the tests' own output")
    parser.add_argument('--save', help='a file for the results, as JSON')
    parser.add_argument('--without-gloo', action='store_true', help='run with Reigen alone')
    parser.add_argument('--backend', help=argparse.SUPPRESS)
    parser.add_argument('--out', help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.out:
        run_here(args)
        return 0
    gloo = {} if args.without_gloo or args.name != 'gloo' else run_with('gloo', args)
    ours = run_with('reigen', args)
    if args.save:
        with open(args.save, 'w', encoding='utf-8') as file:
            json.dump({'gloo': gloo, 'reigen': ours}, file, indent=1)
    return 1 if report(gloo, ours) else 0


if __name__ == '__main__':
    sys.exit(main())
