# SPDX-License-Identifier: Apache-2.0
"""Starting contenders on the hosts of a bed.Network, and what one run of them gives."""
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import peers

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / 'bench'
OUT = ROOT / 'build/bench'
REIGEN = ROOT / '.venv/bin/reigen'
VENV_PYTHON = ROOT / '.venv/bin/python'
PYTHON = '/usr/bin/python3'
HOROVOD = ROOT / 'build/peers/horovod'
SUBNET = '10.77.0.0/16'
RUN_SECONDS_MAX = 300
#: Both ranks of two hosts would be bound to this machine's first core, hence the first option.
MPIRUN = ['mpirun', '--bind-to', 'none', '--mca', 'pml', 'ob1', '--mca', 'btl', 'tcp,self,vader',
          '--mca', 'btl_tcp_if_include', SUBNET, '--mca', 'oob_tcp_if_include', SUBNET]
MPI_ENV = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1',
           'OMP_NUM_THREADS': '1'}
HOROVOD_ENV = {'HOROVOD_CONTROLLER': 'mpi', 'HOROVOD_CPU_OPERATIONS': 'mpi',
               'PYTHONPATH': str(HOROVOD)}


class Layout:
    """`hosts` hosts with `per_host` ranks each; written as 4x1."""

    def __init__(self, text):
        self.text = text
        self.hosts, self.per_host = (int(n) for n in text.split('x'))
        if self.hosts < 1 or self.per_host < 1:
            raise ValueError(text)
        self.ranks = self.hosts * self.per_host

    def __str__(self):
        return self.text

    def host_list(self):
        return ','.join(f'node{i}:{self.per_host}' for i in range(1, self.hosts + 1))


# ---------------------------------------------------------------------------- starting

def start_reigen(net, layout, argv, options):
    return [net.popen(1, [REIGEN, 'run', '-H', layout.host_list(), '--', *argv],
                      env={'OMP_NUM_THREADS': '1'}, **options)]


def start_gloo(net, layout, argv, options):
    """As start_reigen: reigen bench, whose peer is on the network's interface."""
    return [net.popen(1, [REIGEN, 'run', '-H', layout.host_list(), '--env', 'OMP_NUM_THREADS=1',
                          '--env', 'GLOO_SOCKET_IFNAME=eth0', '--', *argv], **options)]


def start_mpi(net, layout, argv, options, env=None, more=()):
    """Ranks that are more than the cores give way to each other when they wait."""
    crowded = ['--mca', 'mpi_yield_when_idle', '1'] if layout.ranks > os.cpu_count() else []
    sets = [word for name in (env or {}) for word in ('-x', name)]
    return [net.popen(1, [*MPIRUN, *crowded, *more, *sets, '-H', layout.host_list(), *argv],
                      env={**MPI_ENV, **(env or {})}, **options)]


def start_horovod(net, layout, argv, options):
    return start_mpi(net, layout, argv, options, env=HOROVOD_ENV,
                     more=['--mca', 'mpi_yield_when_idle', '1'])


def start_torch(net, layout, argv, options):
    """One process per rank, as torchrun starts them: the ranks of a host one after the other."""
    port = free_port()
    return [net.popen(1 + rank // layout.per_host, argv, **options, env={
        'MASTER_ADDR': net[1].address, 'MASTER_PORT': port, 'RANK': rank,
        'WORLD_SIZE': layout.ranks, 'LOCAL_RANK': rank % layout.per_host,
        'GLOO_SOCKET_IFNAME': 'eth0', 'OMP_NUM_THREADS': '1'}) for rank in range(layout.ranks)]


def start_alone(net, layout, argv, options):
    """As many processes that know nothing of each other: the same work for the same cores."""
    children = []
    for rank in range(layout.ranks):
        own = [f'{word}.{rank}' if rank and argv[i - 1] == '--out' else word
               for i, word in enumerate(argv)]
        children.append(net.popen(1 + rank // layout.per_host, own, **options,
                                  env={'OMP_NUM_THREADS': '1'}))
    return children


def free_port():
    """Each host has all ports to itself, but a connection that has just ended holds its own."""
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


#: name: (how it is started, the words that measure it, its native way for one tensor). In groups
#: each has a way of its own.
CONTENDERS = {
    'reigen': (start_reigen, peers.command(REIGEN), []),
    'gloo': (start_gloo, peers.command(REIGEN, 'gloo', '--python', PYTHON), ['--in-place']),
    'mpi': (start_mpi, peers.command(REIGEN, 'mpi'), []),
}
#: name: (how it is started, python, mode of bench/training.py)
TRAINERS = {
    'alone': (start_alone, PYTHON, 'single'),
    'reigen': (start_reigen, VENV_PYTHON, 'hvd'),
    'gloo': (start_torch, PYTHON, 'ddp'),
    'hvd-mpi': (start_horovod, PYTHON, 'hvd'),
}
LABELS = {'reigen': 'Reigen', 'gloo': 'gloo', 'mpi': 'MPI', 'hvd-mpi': 'Horovod, MPI'}


def build():
    """bench/wireup.c for Reigen and for MPI; SystemExit names what is missing."""
    OUT.mkdir(parents=True, exist_ok=True)
    lib = ROOT / 'build/src/coll'
    options = {'reigen': ['cc', f'-I{ROOT}/include', f'-L{lib}', f'-Wl,-rpath,{lib}'],
               'mpi': ['mpicc', '-DWITH_MPI']}
    for name, (compiler, *more) in options.items():
        new = OUT / f'wireup-{name}.{os.getpid()}'
        library = ['-lreigen'] if name == 'reigen' else []
        argv = [compiler, '-O2', '-Wall', *more, '-o', new, BENCH / 'wireup.c', *library]
        try:
            subprocess.run(argv, check=True, timeout=120)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(f'wireup-{name} cannot be built: {error}') from None
        os.replace(new, OUT / f'wireup-{name}')


# ---------------------------------------------------------------------------- running

def finish(children, seconds=RUN_SECONDS_MAX):
    """Wait for all, and leave none. True if all ended with 0. One that fails ends the others."""
    deadline = time.monotonic() + seconds
    try:
        while any(c.poll() is None for c in children):
            if any(c.poll() for c in children) or time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return not any(c.returncode for c in children)
    finally:
        for child in children:
            if child.poll() is None:
                end(child)


def end(child):
    """In order first: mpirun and reigen end what they have started on other hosts."""
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        child.kill_all()
        child.wait()


def run(net, layout, start, argv, name):
    """(did it succeed, its output, seconds) of one run."""
    log = OUT / f'between-{name}.log'
    began = time.monotonic()
    with open(log, 'wb') as out:
        options = {'stdin': subprocess.DEVNULL, 'stdout': out, 'stderr': out}
        good = finish(start(net, layout, [str(a) for a in argv], options))
    return good, log.read_text(errors='replace'), time.monotonic() - began


def measured(net, layout, start, argv, name, option='--out'):
    """The file that one run writes by this option, or None."""
    out = OUT / f'between-{name}.json'
    out.unlink(missing_ok=True)
    good, _, took = run(net, layout, start, [*argv, option, out], name)
    print(f'    {name:<8} {layout}  {took:5.1f} s'
          + ('' if good else f'  FAILED, see build/bench/between-{name}.log'),
          file=sys.stderr, flush=True)
    return out if out.exists() else None


def measured_by_bench(net, layout, name, options):
    """{bytes: us} of one run of reigen bench."""
    start, words, _ = CONTENDERS[name]
    out = measured(net, layout, start, [*words, *options], name, '--json')
    return {nbytes: us for nbytes, (us, _) in peers.read(out).items()} if out else {}


def allreduces(net, layout, name, sizes, budget_ms):
    """{bytes: us}. 4 MiB come before, for nothing: ranks that have just been started, and what a
    library finds out in its first moments, settle meanwhile."""
    listed = ','.join(map(str, [4 << 20, *sizes]))
    found = measured_by_bench(net, layout, name, [
        *CONTENDERS[name][2], '--bytes', listed, '--seconds', budget_ms / 1e3, '--warmup', 2])
    return {nbytes: us for nbytes, us in found.items() if nbytes in sizes}


def many(net, layout, name, pattern, budget_ms):
    """us of one turn of the pattern, such as 300x1024; None when it failed."""
    count, _, nbytes = pattern.partition('x')
    found = measured_by_bench(net, layout, name, ['--group', count, '--bytes', nbytes, '--seconds',
                                                  budget_ms / 1e3])
    return found.get(int(nbytes))


def training(net, layout, name, models, budget_ms):
    """{model: us of a step}"""
    start, python, mode = TRAINERS[name]
    argv = [python, BENCH / 'training.py', '--mode', mode, '--models', ','.join(models),
            '--budget-ms', budget_ms]
    out = measured(net, layout, start, argv, name)
    lines = out.read_text().splitlines() if out else []
    return {m['pattern']: m['median_us'] for m in map(json.loads, lines)}


# ---------------------------------------------------------------------------- the network itself

def sent(net, hosts):
    """(bytes of TCP's payload, packets) that the hosts have sent. A packet on this network may be a
    piece of up to 64 KiB: it has one header (Ethernet's, IP's and TCP's with time stamps)."""
    total = packets = 0
    for i in range(1, hosts + 1):
        lines = net[i].in_network(['cat', '/proc/net/dev']).splitlines()
        fields = next(l for l in lines if l.strip().startswith('eth0:')).split(':')[1].split()
        total, packets = total + int(fields[8]), packets + int(fields[9])
    return total - packets * 66, packets


def wire_bytes(net, layout, name, nbytes, runs):
    """Bytes of payload that all hosts together send for one allreduce: a run with many less a run
    with few, so that start and end do not count."""
    totals = []
    for count in (runs, 2 * runs):
        before = sent(net, layout.hosts)[0]
        if not measured_by_bench(net, layout, name, [
                *CONTENDERS[name][2], '--bytes', nbytes, '--iterations', count, '--rounds', 1,
                '--warmup', 0]):
            return None
        totals.append(sent(net, layout.hosts)[0] - before)
    return (totals[1] - totals[0]) / runs


def iperf(net, hosts, seconds):
    """Gb/s of the slowest of iperf3's streams, one from each host to the next, all at once."""
    servers = [net.popen(i, ['iperf3', '-s', '-1'], stdin=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
               for i in range(1, hosts + 1)]
    found = {}

    def send(i):
        time.sleep(0.3)
        argv = ['iperf3', '-c', net[i % hosts + 1].address, '-t', str(seconds), '-J']
        answer = json.loads(net.run(i, argv, timeout=seconds + 30).stdout)
        if 'end' in answer and answer['end']:
            found[i] = answer['end']['sum_received']['bits_per_second'] / 1e9

    threads = [threading.Thread(target=send, args=(i,)) for i in range(1, hosts + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    finish(servers, 5)
    return min(found.values()) if len(found) == hosts else None


def wire_up(net, layout, name):
    """Seconds from a rank's exec to the end of its init, of the rank that took longest."""
    good, output, _ = run(net, layout, CONTENDERS[name][0], [OUT / f'wireup-{name}'],
                          f'{name}-wireup')
    times = [float(word.partition('=')[2]) for word in output.split() if word.startswith('init=')]
    return max(times) if good and len(times) == layout.ranks else None
