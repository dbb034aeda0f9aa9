# SPDX-License-Identifier: Apache-2.0
"""Reigen between hosts: simulated ones, on a network with a rate and a delay.

usage: bench/between.py [--quick] [--networks 1g,10g-0.1] [--layouts 2x1,4x1] [--sizes 4,1M]
                        [--rounds N] [--only allreduce,iperf,many,wire,wireup,training] [--write]
       bench/between.py shell [--hosts 2] [--rate 1gbit] [--delay MS] [--node 1] [-- COMMAND...]

Measures Reigen, Open MPI over tcp and torch.distributed's gloo in turn, in rounds, and prints
tables. --write puts them into docs/benchmarks-hosts.md, with a picture for each network, and what
was measured into docs/benchmarks-hosts.json, draws docs/benchmarks.svg again, and what the model
predicts beside it into docs/model.md. --quick measures a part, in some five minutes.

shell      a shell of root's on one of the hosts, or one command; the hosts go when it ends.
           `ssh node2` reaches the next host. --delay is one way: a round trip takes twice as long.

Needs root and tests/bed; everything runs on this machine.
"""
import argparse
import os
import sys
import time
from pathlib import Path

import picture
import predicted
import report_between
import simulated
from simulated import CONTENDERS, OUT, ROOT, TRAINERS, Layout

sys.path.insert(0, str(ROOT / 'tests'))

from bed import Network, first  # noqa: E402 (needs the path above)

#: name: (rate, delay one way in ms)
NETWORKS = {'1g': ('1gbit', 0.0), '10g': ('10gbit', 0.0), '1g-0.1': ('1gbit', 0.1),
            '1g-1': ('1gbit', 1.0), '10g-0.1': ('10gbit', 0.1)}
LAYOUTS = '2x1,4x1,2x2,8x1'
SIZES = '4,256,4K,64K,256K,1M,16M,64M'
MODELS = ('mlp', 'conv', 'big', 'deep')
PARTS = ('allreduce', 'iperf', 'many', 'wire', 'wireup', 'training')
MANY = '300x1024'
WIRE_SIZES = {64 << 10: 200, 1 << 20: 40, 16 << 20: 4}
WIRE_UPS = ('4x4', '4x16')


def shell(argv):
    parser = argparse.ArgumentParser(prog='between.py shell')
    parser.add_argument('--hosts', type=int, default=2)
    parser.add_argument('--rate', help='of each cable, such as 10gbit; none: no limit')
    parser.add_argument('--delay', type=float, default=0, metavar='MS', help='one way')
    parser.add_argument('--node', type=int, default=1)
    parser.add_argument('words', nargs='*', metavar='COMMAND')
    args = parser.parse_args(argv)
    with first(), Network(args.hosts, args.rate, args.delay) as net:
        return net.popen(args.node, args.words or ['bash'], cwd=Path.cwd(),
                         start_new_session=False).wait()


def parse_nbytes(text):
    shift = {'K': 10, 'M': 20}.get(text[-1:], 0)
    nbytes = int(text[:-1] if shift else text) << shift
    if nbytes < 4:
        raise ValueError(text)
    return nbytes


def several(parse, known=None):
    """The type of an option that takes several, with commas between them."""
    def convert(text):
        try:
            found = [parse(word) for word in text.split(',')]
        except ValueError:
            raise argparse.ArgumentTypeError(f'{text!r} is not understood') from None
        unknown = sorted(set(found) - set(known)) if known else ()
        if unknown:
            raise argparse.ArgumentTypeError(f'there is no {", ".join(unknown)}; give some of '
                                             + ', '.join(known))
        return found
    return convert


def options(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--networks', type=several(str, NETWORKS), default=list(NETWORKS))
    parser.add_argument('--layouts', type=several(Layout))
    parser.add_argument('--sizes', type=several(parse_nbytes), default=SIZES)
    parser.add_argument('--rounds', type=int)
    parser.add_argument('--budget-ms', type=int, default=150)
    parser.add_argument('--only', type=several(str, PARTS), default=list(PARTS))
    parser.add_argument('--contenders', type=several(str, CONTENDERS), default=list(CONTENDERS))
    parser.add_argument('--out', default=str(OUT), help='where tables go without --write')
    parser.add_argument('--write', action='store_true')
    args = parser.parse_args(argv)
    args.layouts = args.layouts or several(Layout)('2x1,4x1' if args.quick else LAYOUTS)
    args.rounds = args.rounds or (1 if args.quick else 3)
    return args


# ---------------------------------------------------------------------------- measuring

class Found:
    """{(part, network, layout, item): {name: [value of each round]}}"""

    def __init__(self):
        self.values = {}

    def add(self, part, network, layout, item, name, value):
        if value is not None:
            row = self.values.setdefault((part, network, str(layout), str(item)), {})
            row.setdefault(name, []).append(value)

    def plain(self):
        return [[*key, row] for key, row in self.values.items()]


def order(names, number):
    """Who is first changes from round to round."""
    names = list(names)
    return names[number % len(names):] + names[:number % len(names)]


def measure_network(net, network, args, number, found):
    rate, delay_ms = NETWORKS[network]
    net.change(rate, delay_ms)
    for layout in args.layouts:
        say(f'round {number + 1} of {args.rounds}: {network} {layout}')
        if 'iperf' in args.only:
            found.add('iperf', network, layout, 'gbit', 'iperf3',
                      simulated.iperf(net, layout.hosts, 2))
        for name in order(args.contenders, number) if 'allreduce' in args.only else ():
            times = simulated.allreduces(net, layout, name, args.sizes, args.budget_ms)
            for nbytes, us in times.items():
                found.add('allreduce', network, layout, nbytes, name, us)


def measure_rest(net, args, number, found):
    """What is measured on one network only. Bytes do not depend on the time: once is enough."""
    four = Layout('4x1')
    if 'many' in args.only:
        net.change(*NETWORKS['1g-1'])
        for name in order(args.contenders, number):
            found.add('many', '1g-1', four, MANY, name,
                      simulated.many(net, four, name, MANY, 500))
    if 'wire' in args.only and number == 0:
        net.change(*NETWORKS['10g'])
        for layout in (Layout('2x1'), four):
            for nbytes, runs in WIRE_SIZES.items():
                for name in args.contenders:
                    if name != 'gloo':
                        found.add('wire', '10g', layout, nbytes, name,
                                  simulated.wire_bytes(net, layout, name, nbytes, runs))
    if 'wireup' in args.only:
        net.change(*NETWORKS['10g-0.1'])
        for text in WIRE_UPS:
            for name in ('reigen', 'mpi'):
                found.add('wireup', '10g-0.1', text, 'init', name,
                          simulated.wire_up(net, Layout(text), name))
    if 'training' in args.only:
        measure_training(net, args, number, found)


def measure_training(net, args, number, found):
    net.change(*NETWORKS['10g-0.1'])
    names = [n for n in TRAINERS if n != 'hvd-mpi' or (simulated.HOROVOD / 'horovod').exists()]
    for layout in (Layout('2x1'), Layout('4x1')):
        for name in order(names, number):
            steps = simulated.training(net, layout, name, MODELS, 5 * args.budget_ms)
            for model, us in steps.items():
                found.add('training', '10g-0.1', layout, model, name, us)


def say(text):
    print(text, file=sys.stderr, flush=True)


def measure(args):
    """What report_between.py makes tables of."""
    found, began, load = Found(), time.monotonic(), os.getloadavg()[0]
    hosts = max([4, *(layout.hosts for layout in args.layouts)])
    with first(), Network(hosts) as net:
        for number in range(args.rounds):
            if {'allreduce', 'iperf'} & set(args.only):
                for network in args.networks:
                    measure_network(net, network, args, number, found)
            measure_rest(net, args, number, found)
    return {'when': time.strftime('%Y-%m-%d %H:%M', time.gmtime()), 'cores': os.cpu_count(),
            'load': load, 'rounds': args.rounds, 'took_s': time.monotonic() - began,
            'networks': {n: NETWORKS[n] for n in args.networks},
            'layouts': [str(layout) for layout in args.layouts], 'sizes': args.sizes,
            'values': found.plain()}


def main(argv):
    if argv[:1] == ['shell']:
        return shell(argv[1:])
    args = options(argv)
    simulated.build()
    raw = measure(args)
    where = ROOT / 'docs' if args.write else Path(args.out)
    missed = report_between.write(raw, where)
    picture.write(where)
    if args.write:
        predicted.write()
    print((where / 'benchmarks-hosts.md').read_text())
    print(f'written: {where / "benchmarks-hosts.md"} after {raw["took_s"]:.0f} s; '
          f'{missed} targets missed')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
