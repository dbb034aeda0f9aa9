# SPDX-License-Identifier: Apache-2.0
"""Runs the checks of the modules that its arguments name, as one rank. Rank 0 prints "all good"."""
import importlib
import sys

import whole

if __name__ == '__main__':
    modules = [importlib.import_module(name) for name in sys.argv[1:]]
    hvd = modules[0].hvd
    hvd.init()
    for module in modules:
        whole.run(module, hvd)
    if hvd.rank() == 0:
        print('all good on', hvd.size(), 'ranks:', *sys.argv[1:], flush=True)
    hvd.shutdown()
