# SPDX-License-Identifier: Apache-2.0
"""make bench: Reigen beside its peers, in interleaved rounds.

usage: bench/bench.py [--quick] [--only NAME,...] [--np N,...] [--sizes 4K,1M] [--many 300x1K]
                      [--models mlp,deep] [--rounds N] [--no-write]
       make bench ARGS='--against TREE [...]': this tree beside another one of Reigen

A full run writes docs/benchmarks.md with its pictures, and all
figures into docs/benchmarks.json. --quick (one round, few sizes), and every option that leaves
something out, print the tables and write nothing but build/bench/. In a round every contender runs
once for every number of ranks. Reigen's C API, MPI and gloo are measured by reigen bench. A figure
is the median over the rounds of the median (10th percentile) of the blocks within a round.
"""
import argparse
import json
import os
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import distributed
import picture
import peers
import report
from simulated import BENCH, HOROVOD, OUT, PYTHON, REIGEN, ROOT, VENV_PYTHON

TF_PYTHON = ROOT / 'build/envs/tf/bin/python'
SIZES = '4,256,1K,4K,16K,64K,256K,1M,4M,16M,64M'
QUICK_SIZES = '4,4K,64K,1M,16M'
MANY = '300x1K,100x4K,20x1M'
QUICK_MANY = '300x1K'
MODELS = 'mlp,conv,big,deep'
RUN_SECONDS_MAX = 150
LAUNCHES = 15
# Horovod's launcher passes the first two lines; without the third its threads spin each other off
# two cores, and it is ten times slower.
HOROVOD_MPI = ['-bind-to', 'none', '-map-by', 'slot',
               '-mca', 'pml', 'ob1', '-mca', 'btl', '^openib',
               '-mca', 'mpi_yield_when_idle', '1']
MPIRUN = ['mpirun', '--allow-run-as-root', '--oversubscribe']
OPENMPI5 = ROOT / 'build/envs/openmpi5'
LIBMPI5 = OPENMPI5 / 'lib/libmpi.so.40'


def parse_nbytes(text):
    match = re.fullmatch(r'(\d+)([KM]?)', text)
    if not match:
        raise SystemExit(f'bench: {text!r} is no size, such as 4, 16K or 1M')
    return int(match[1]) << {'': 0, 'K': 10, 'M': 20}[match[2]]


def parse_many(text):
    count, _, nbytes = text.partition('x')
    return f'{int(count)}x{parse_nbytes(nbytes)}'


def options():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--only', default='')
    parser.add_argument('--np', default='2,4')
    parser.add_argument('--sizes')
    parser.add_argument('--many')
    parser.add_argument('--models')
    parser.add_argument('--rounds', type=int)
    parser.add_argument('--no-write', action='store_true')
    args = parser.parse_args()
    args.partial = bool(args.quick or args.only or args.sizes or args.many or args.np != '2,4'
                        or args.models is not None
                        or args.no_write)
    args.only = [n for n in args.only.split(',') if n]
    args.np = [int(n) for n in args.np.split(',')]
    sizes = args.sizes if args.sizes is not None else QUICK_SIZES if args.quick else SIZES
    many = args.many if args.many is not None else QUICK_MANY if args.quick else MANY
    args.models = MODELS if args.models is None else args.models
    args.sizes = [parse_nbytes(s) for s in sizes.split(',') if s]
    args.many = [parse_many(m) for m in many.split(',') if m]
    args.rounds = args.rounds or (1 if args.quick else 3)
    args.budget_ms = 60 if args.quick else 200
    return args


# ---------------------------------------------------------------------------- contenders

def environment(**more):
    keep = {k: v for k, v in os.environ.items()
            if not k.startswith(('HOROVOD_', 'REIGEN_', 'OMPI_', 'PYTHONPATH'))}
    return {**keep, 'OMP_NUM_THREADS': '1', 'OMPI_ALLOW_RUN_AS_ROOT': '1',
            'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'GLOO_SOCKET_IFNAME': 'lo',
            'OMPI_MCA_btl_tcp_if_include': 'lo', **more}


def wait_exactly(child, timeout_s):
    """Its exit code; Popen.wait with a time limit looks only after 0.5, 1.5, 3.5, 7.5, 15.5 ms."""
    fd = os.pidfd_open(child.pid)
    try:
        ended = select.select([fd], [], [], timeout_s)[0]
    finally:
        os.close(fd)
    if not ended:
        raise subprocess.TimeoutExpired(child.args, timeout_s)
    return child.wait()


def run_all(commands, log):
    """Start commands, [(argv, env)], wait for all, and leave none. True if all ended with 0."""
    children = []
    try:
        with open(log, 'wb') as out:
            for argv, env in commands:
                children.append(subprocess.Popen([str(a) for a in argv], stdout=out, stderr=out,
                                                 stdin=subprocess.DEVNULL, env=env,
                                                 start_new_session=True))
        deadline = time.monotonic() + RUN_SECONDS_MAX
        return all([wait_exactly(c, max(0.1, deadline - time.monotonic())) == 0
                    for c in children])
    except subprocess.TimeoutExpired:
        return False
    finally:
        for child in children:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


def launch_mpi(argv, np):
    return [(MPIRUN + ['-np', np] + argv, environment())]


def has_xhc():
    """Does this Open MPI have the component xhc? It is in the sources since May 2024."""
    done = subprocess.run([OPENMPI5 / 'bin/ompi_info', '--parsable'], capture_output=True,
                          text=True, check=False)
    return ':coll:xhc:' in done.stdout


def launch_openmpi5(argv, np):
    xhc = ['--mca', 'coll_xhc_priority', '100'] if has_xhc() else []
    mpirun = [OPENMPI5 / 'bin/mpirun', '--allow-run-as-root', '--map-by', 'slot:OVERSUBSCRIBE']
    # One process takes one libpmix: that of this MPI, which Reigen therefore loads first.
    env = environment(REIGEN_MPI=str(LIBMPI5))
    return [(mpirun + xhc + ['-np', np] + argv, env)]


def launch_reigen(argv, np):
    return [([REIGEN, 'run', '-np', np, '--'] + argv, environment())]


def launch_torch(argv, np):
    port = str(distributed.free_port())
    return [(argv, environment(MASTER_ADDR='127.0.0.1', MASTER_PORT=port, RANK=str(rank),
                               WORLD_SIZE=str(np))) for rank in range(np)]


def launch_horovod_mpi(argv, np):
    env = environment(PYTHONPATH=str(HOROVOD), HOROVOD_CONTROLLER='mpi',
                      HOROVOD_CPU_OPERATIONS='mpi')
    return [(MPIRUN + HOROVOD_MPI + ['-np', np] + argv, env)]


def launch_horovod_gloo(argv, np):
    env = environment(PYTHONPATH=str(HOROVOD))
    return [([PYTHON, '-m', 'horovod.runner.launch', '--gloo', '-np', np] + argv, env)]


# What stands behind this line of the page stays as it is.
KEPT = '\n<!-- written by hand -->\n'
#: Those that reigen bench measures: (launch, peer, options)
C_CONTENDERS = {
    'cmpi': (launch_mpi, 'mpi', []),
    'cmpi5': (launch_openmpi5, 'mpi', ['--mpi-library', LIBMPI5]),
    'reigen-c': (launch_reigen, None, []),
    'tdist': (launch_reigen, 'gloo', ['--python', PYTHON]),
    'tdist2': (launch_reigen, 'gloo', ['--python', distributed.PYTHON]),
}
#: Those of bench/hvd.py: (launch, python)
HVD_CONTENDERS = {
    'hvd-mpi': (launch_horovod_mpi, PYTHON),
    'hvd-gloo': (launch_horovod_gloo, PYTHON),
    'reigen-py': (launch_reigen, VENV_PYTHON),
}
CONTENDERS = ['cmpi', 'cmpi5', 'reigen-c', 'hvd-mpi', 'hvd-gloo', 'tdist', 'tdist2', 'reigen-py']


# name: (launch, python, mode of bench/training.py)
TRAINERS = {
    'alone': (lambda argv, np: [(argv, environment())], PYTHON, 'single'),
    'hvd-mpi': (launch_horovod_mpi, PYTHON, 'hvd'),
    'hvd-gloo': (launch_horovod_gloo, PYTHON, 'hvd'),
    'tdist': (launch_torch, PYTHON, 'ddp'),
    'reigen-py': (launch_reigen, VENV_PYTHON, 'hvd'),
}


def find_absent():
    """Who is left out, since something of theirs is not here."""
    OUT.mkdir(parents=True, exist_ok=True)
    needs = {'cmpi': [shutil.which('mpirun')], 'cmpi5': [OPENMPI5 / 'bin/mpirun'],
             'hvd-mpi': [HOROVOD / 'horovod'], 'hvd-gloo': [HOROVOD / 'horovod'],
             'tdist2': [distributed.PYTHON]}
    absent = [name for name in CONTENDERS
              if not all(path and Path(path).exists() for path in [REIGEN, *needs.get(name, [])])]
    if absent:
        print(f'left out, as something is missing: {", ".join(absent)}')
    return absent


# ---------------------------------------------------------------------------- rounds

def measure_hvd(name, sizes, many, budget_ms, out, run):
    """One run of bench/hvd.py: the measurements as a list of dicts."""
    argv = [HVD_CONTENDERS[name][1], BENCH / 'hvd.py', '--out', out, '--sizes',
            ','.join(map(str, sizes)), '--many', ','.join(many), '--budget-ms', budget_ms]
    out.unlink(missing_ok=True)
    run(argv)
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def run_contender(name, np, args):
    """The measurements of one round as a list of dicts, empty when it failed."""
    good = []
    start = time.monotonic()

    def run(argv):
        log = OUT / f'{name}-{np}.log'
        launch = (C_CONTENDERS.get(name) or HVD_CONTENDERS[name])[0]
        good.append(run_all(launch(argv, np), log))
        return good[-1]

    what = (args.sizes, args.many, args.budget_ms, OUT / f'{name}-{np}.json', run)
    if name in C_CONTENDERS:
        _, peer, options = C_CONTENDERS[name]
        found = peers.measure(peers.command(REIGEN, peer, *options), peer, *what)
    else:
        found = measure_hvd(name, *what)
    print(f'  {name:<10} np={np}  {time.monotonic() - start:5.1f} s'
          + ('' if all(good) else f'  FAILED, see build/bench/{name}-{np}.log'), flush=True)
    return found


def run_trainer(name, np, args):
    """As run_contender, of the training steps."""
    launch, python, mode = TRAINERS[name]
    out = OUT / f'training-{name}-{np}.jsonl'
    out.unlink(missing_ok=True)
    argv = [python, BENCH / 'training.py', '--mode', mode, '--out', out, '--models', args.models,
            '--budget-ms', args.budget_ms * 5]
    start = time.monotonic()
    good = run_all(launch(argv, np), OUT / f'training-{name}-{np}.log')
    lines = out.read_text().splitlines() if out.exists() else []
    print(f'  {name:<10} np={np}  {time.monotonic() - start:5.1f} s  training'
          + ('' if good else f'  FAILED, see build/bench/training-{name}-{np}.log'), flush=True)
    return [json.loads(line) for line in lines]


def run_tensorflow(args):
    """As run_contender, of bench/tf_overhead.py with two ranks."""
    if args.partial or not TF_PYTHON.exists():
        return []
    out, log = OUT / 'tensorflow.jsonl', OUT / 'tensorflow.log'
    out.unlink(missing_ok=True)
    env = environment(PYTHONPATH=str(ROOT / 'bindings/python'), TF_CPP_MIN_LOG_LEVEL='2')
    argv = [REIGEN, 'run', '-np', 2, '--', TF_PYTHON, BENCH / 'tf_overhead.py', out]
    start = time.monotonic()
    good = run_all([(argv, env)], log)
    print(f'  tensorflow np=2  {time.monotonic() - start:5.1f} s'
          + ('' if good else '  FAILED, see build/bench/tensorflow.log'), flush=True)
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def run_distributed(args):
    """What bench/distributed.py finds, for each number of ranks; its short rounds where --quick."""
    if args.only or not distributed.PYTHON.exists():
        return []
    argv = ['--rounds', 3 if args.quick else 15, '--sizes', ','.join(map(str, args.sizes)),
            '--models', args.models]
    found = []
    for np in args.np:
        start = time.monotonic()
        found.append(distributed.measure(np, list(map(str, argv))))
        print(f'  backend    np={np}  {time.monotonic() - start:5.1f} s  torch.distributed'
              + ('' if found[-1] else '  FAILED'), flush=True)
    return [f for f in found if f]


def training_runs(args, names):
    """[(np, name)] of one round."""
    if not args.models:
        return []
    return [(1, 'alone')] + [(np, n) for np in args.np for n in TRAINERS if n in names]


def run_rounds(args, names):
    """{(np, name, series, item): [measurement of each round]}; item is bytes or a pattern."""
    found = {}
    for number in range(args.rounds):
        print(f'round {number + 1} of {args.rounds}', flush=True)
        for np in args.np:
            for name in names:
                measured = run_contender(name, np, args) if args.sizes or args.many else []
                for m in measured:
                    item = m.get('bytes', m.get('pattern'))
                    found.setdefault((np, name, m['series'], item), []).append(m)
        for np, name in training_runs(args, names):
            for m in run_trainer(name, np, args):
                found.setdefault((np, name, m['series'], m['pattern']), []).append(m)
        for m in run_tensorflow(args):
            found.setdefault((2, 'reigen-py', m['series'], m['pattern']), []).append(m)
    return found


def condense(found):
    """The same keys: (median, 10th percentile) in microseconds."""
    return {key: (statistics.median(m['median_us'] for m in ms),
                  statistics.median(m['p10_us'] for m in ms)) for key, ms in found.items()}


def time_launches(count):
    """{name: seconds of each} for the launchers with four ranks of `true`, turn by turn."""
    commands = {'mpirun': MPIRUN + ['-np', '4', 'true'],
                'reigen': [REIGEN, 'run', '-np', '4', '--', 'true']}
    commands = {n: c for n, c in commands.items() if shutil.which(str(c[0]))}
    times = {name: [] for name in commands}
    for _ in range(count + 1):
        for name, argv in commands.items():
            start = time.monotonic()
            if not run_all([(argv, environment())], OUT / f'launch-{name}.log'):
                raise SystemExit(f'bench: {name} failed, see build/bench/launch-{name}.log')
            times[name].append(time.monotonic() - start)
    # The first of each was a warm-up.
    return {name: t[1:] for name, t in times.items()}


def time_demo():
    """Seconds of make demo when everything is installed, or None."""
    start = time.monotonic()
    log = OUT / 'demo.log'
    with open(log, 'wb') as out:
        done = subprocess.run([ROOT / 'tools/demo.sh'], stdout=out, stderr=out, check=False,
                              stdin=subprocess.DEVNULL, env=environment(), timeout=400)
    return time.monotonic() - start if done.returncode == 0 else None


def nbytes_of(path):
    stripped = OUT / 'stripped'
    if not path.exists() or subprocess.run(['strip', '-s', '-o', stripped, path],
                                           check=False).returncode:
        return None
    return stripped.stat().st_size


def cpu_model():
    match = re.search(r'^model name\s*: (.*)$', Path('/proc/cpuinfo').read_text(), re.M)
    return match[1] if match else os.uname().machine


def versions(absent):
    """What the peers are that another day may find in another version."""
    found = {}
    if 'tdist2' not in absent:
        found['torch'] = subprocess.run([distributed.PYTHON, '-c', 'import torch\n'
                                         'print(torch.__version__)'], capture_output=True,
                                        text=True, check=False).stdout.strip()
    if 'cmpi5' not in absent:
        done = subprocess.run([OPENMPI5 / 'bin/ompi_info', '--version'],
                              capture_output=True, text=True, check=False)
        match = re.match(r'Open MPI v(\S+)', done.stdout)
        found['openmpi5'] = match[1] if match else '5'
        found['xhc'] = has_xhc()
    return found


def main():
    args = options()
    absent = find_absent()
    names = [n for n in CONTENDERS if n not in absent and (not args.only or n in args.only)]
    start = time.monotonic()
    load = os.getloadavg()[0]
    results = {
        'when': time.strftime('%Y-%m-%d %H:%M', time.gmtime()),
        'cores': os.cpu_count(), 'cpu': cpu_model(), 'load': load, 'rounds': args.rounds,
        'absent': absent,
        'sizes': args.sizes, 'many': args.many, 'np': args.np,
        'times': condense(run_rounds(args, names)),
        'distributed': run_distributed(args),
        'peers': versions(absent),
        'launch': {} if args.only else time_launches(5 if args.quick else LAUNCHES),
        'agent_nbytes': nbytes_of(ROOT / 'build/src/programs/agent/reigen-agent'),
        'library_nbytes': nbytes_of(ROOT / 'build/src/coll/libreigen.so'),
        'demo_s': None if args.partial else time_demo(),
    }
    results['took_s'] = time.monotonic() - start
    plain = {**results, 'times': [[*k, *v] for k, v in results['times'].items()]}
    where = OUT if args.partial else ROOT / 'docs'
    (where / picture.RECORD).write_text(json.dumps(plain, indent=1) + '\n')
    text, failed = report.render(results, where)
    picture.write(where)
    print(text)
    page = where / 'benchmarks.md'
    kept = page.read_text().partition(KEPT) if page.exists() else ('', '', '')
    page.write_text(text + ''.join(kept[1:]))
    print(f'written: {(where / "benchmarks.md").relative_to(ROOT)} after '
          f'{results["took_s"]:.0f} s; {failed} targets missed')
    return 0


if __name__ == '__main__':
    sys.exit(main())
