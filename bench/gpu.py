# SPDX-License-Identifier: Apache-2.0
"""make bench ARGS=--gpu: what the runtime takes on this machine's GPU, beside NCCL and PyTorch.

usage: make bench ARGS='--gpu [--gpus N] [--rounds N] [--sizes BYTES,...] [--no-write]'

tools/gpu.sh compiles bench/gpu.c and runs this. Contenders take turns, round by round; a figure is
the median over the rounds, a ratio the median of each round's own. It writes docs/benchmarks-gpu.md
above the line that says what is written by hand. A GPU without a name is a test's stand-in, and
nothing is written of it.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / 'docs/benchmarks-gpu.md'
KEPT = '\n<!-- written by hand -->\n'
MIB = 1 << 20
SIZES = ','.join(str(4 << (2 * i)) for i in range(15))  # 4 B to 1 GiB
STAGED = 64 * MIB
SECONDS_MAX = 1800
#: Limits of the targets.
LARGE, HOST_US, TORCH, STAGING = 1.02, 8, 1.0, 0.7


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__.split('usage: ')[1].split('\n')[0])
    parser.add_argument('--gpus', type=int, default=1, help='ranks beside NCCL, each with a GPU')
    parser.add_argument('--rounds', type=int, default=15)
    parser.add_argument('--sizes', default=SIZES)
    parser.add_argument('--staged', type=int, default=STAGED)
    parser.add_argument('--no-write', action='store_true')
    parser.add_argument('--program', required=True, help=argparse.SUPPRESS)
    parser.add_argument('--library', help=argparse.SUPPRESS)
    parser.add_argument('--torch', help=argparse.SUPPRESS)
    return parser.parse_args()


def run(argv, **more):
    """The objects that a program prints, one per line."""
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, text=True, check=False,
                          timeout=SECONDS_MAX, env={**os.environ, **more})
    if done.returncode:
        sys.exit(f'bench: {argv[0]} {argv[1]} failed with {done.returncode}')
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_torch(args):
    """Both contenders of bench/gpu_torch.py in one rank; none where there is no such PyTorch."""
    if not args.torch:
        return []
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    return run([args.torch, ROOT / 'bench/gpu_torch.py', args.rounds], RANK='0', LOCAL_RANK='0',
               WORLD_SIZE='1', MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port),
               PYTHONPATH=str(ROOT / 'bindings/python'), REIGEN_LIBRARY=str(args.library))


def columns(found):
    return list(zip(*found['rounds']))


def middle(values):
    return statistics.median(values)


def beside(found):
    """(bytes, NCCL's us, ours, ratio, NCCL's host us, ours, difference)"""
    theirs, ours, host, our_host = columns(found)
    return (found['bytes'], middle(theirs), middle(ours),
            middle([b / a for a, b in zip(theirs, ours)]), middle(host), middle(our_host),
            middle([b - a for a, b in zip(host, our_host)]))


def staging_share(copy, staged):
    """Bytes that both ranks move one way in a second, by what the slower way of the bus carries."""
    way = min(copy['bytes'] / middle(column) for column in columns(copy))
    return staged['ranks'] * staged['bytes'] / middle(staged['rounds']) / way


def targets(rows, torch, share):
    """[(what, limit, measured, passed)]"""
    found = []
    large = [row[3] for row in rows if row[0] >= MIB]
    small = [row[6] for row in rows if row[0] < MIB]
    if large:
        found.append(('allreduce from 1 MiB, against bare NCCL in C: worst', f'{LARGE}',
                      f'{max(large):.3f}', max(large) <= LARGE))
    if small:
        found.append(('host time of a call below 1 MiB, above NCCL\'s: worst', f'{HOST_US} us',
                      f'{max(small):.1f} us', max(small) <= HOST_US))
    if torch:
        worst = max(middle([b / a for a, b in t['rounds']]) for t in torch)
        found.append(("host time of hvd.allreduce_async against torch.distributed's all_reduce"
                      '(async_op=True) on NCCL: worst', f'{TORCH}', f'{worst:.2f}',
                      worst <= TORCH))
    found.append(('two ranks on one GPU, 64 MiB: staging against the bus, at least', f'{STAGING}',
                  f'{share:.2f}', share >= STAGING))
    return found


def size_name(nbytes):
    for shift, unit in ((30, 'GiB'), (20, 'MiB'), (10, 'KiB')):
        if nbytes >= 1 << shift:
            return f'{nbytes >> shift} {unit}'
    return f'{nbytes} B'


def tables(args, rows, torch, copy, staged, share):
    lines = ['## Targets', '', '| target | limit | measured | |', '|---|---|---|---|']
    lines += [f'| {what} | {limit} | {value} | {"pass" if passed else "MISSED"} |'
              for what, limit, value, passed in targets(rows, torch, share)]
    lines += ['', f'## Allreduce beside bare NCCL, {args.gpus} GPU{"s"[:args.gpus > 1]}', '',
              '| us | NCCL | Reigen | ratio | host, NCCL | host, Reigen | above |',
              '|---|---|---|---|---|---|---|']
    lines += [f'| {size_name(n)} | {a:.1f} | {b:.1f} | {r:.3f} | {h:.1f} | {o:.1f} | {d:.1f} |'
              for n, a, b, r, h, o, d in rows]
    if torch:
        lines += ['', '## Host time in Python', '',
                  '| us | torch.distributed, NCCL | hvd.allreduce_async | ratio |',
                  '|---|---|---|---|']
        lines += [f'| {size_name(t["bytes"])} | {middle(a):.1f} | {middle(b):.1f} | '
                  f'{middle([y / x for x, y in t["rounds"]]):.2f} |'
                  for t in torch for a, b in [columns(t)]]
    down, up = (copy['bytes'] / middle(c) / 1e9 for c in columns(copy))
    lines += ['', '## Two ranks on one GPU', '',
              f'The bus carries {down:.1f} GB/s from the GPU and {up:.1f} GB/s to it, in copies of '
              f'{size_name(copy["bytes"])} of pinned memory. An allreduce of '
              f'{size_name(staged["bytes"])} takes {middle(staged["rounds"]) * 1e3:.2f} ms: each '
              'rank moves its bytes once either way.', '']
    return lines


INTRO = """# Benchmarks on a GPU

`make bench ARGS=--gpu` writes this page, on {gpu}, {when} UTC, in {rounds} rounds.

"""


def main():
    args = arguments()
    sizes = args.sizes.split(',')
    nccl = run([args.program, 'nccl', args.rounds, *sizes], BENCH_GPUS=str(args.gpus))
    staging = run([args.program, 'staging', args.rounds, args.staged])
    torch = run_torch(args)
    rows = [beside(found) for found in nccl]
    copy, staged = staging
    lines = tables(args, rows, torch, copy, staged, staging_share(copy, staged))
    if not torch:
        print('Python is left out: python3 has no PyTorch that reaches this GPU')
    print('\n'.join(lines))
    unnamed = copy['gpu'].startswith('a GPU')
    if unnamed or args.no_write or args.sizes != SIZES:
        print('nothing is written' + (': this GPU has no name' if unnamed else ''))
        return 0
    when = time.strftime('%Y-%m-%d %H:%M', time.gmtime())
    kept = PAGE.read_text().partition(KEPT)
    PAGE.write_text(INTRO.format(gpu=copy['gpu'], when=when, rounds=args.rounds)
                    + '\n'.join(lines) + ''.join(kept[1:]))
    print(f'written: {PAGE.relative_to(ROOT)}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
