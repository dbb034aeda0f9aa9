# SPDX-License-Identifier: Apache-2.0
"""A rank that takes argv[1] steps, each of which it tells by reigen.step(). It writes a line for
each event, so that a test can follow it:

    pid P       at the start
    begin N     before the step is told
    done        at the end
"""
import os
import sys

import reigen

print('pid', os.getpid(), flush=True)
reigen.init()
for number in range(1, int(sys.argv[1]) + 1):
    print('begin', number, flush=True)
    reigen.step()
print('done', flush=True)
reigen.shutdown()
