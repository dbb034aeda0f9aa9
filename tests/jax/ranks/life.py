# SPDX-License-Identifier: Apache-2.0
"""The last rank dies while the others are inside a compiled program."""
import errno
import os
import signal

import horovod.jax as hvd
import jax.numpy as jnp

hvd.init()
program = hvd.jit(lambda x: [hvd.allreduce(x * i, op=hvd.Sum) for i in range(8)])
program(jnp.ones(100))
if hvd.rank() == hvd.size() - 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True:
        program(jnp.ones(100))
except hvd.HorovodInternalError as error:
    assert error.errno == errno.ECONNRESET, (error.errno, str(error))
    assert f'rank {hvd.size() - 1}' in str(error), str(error)
    print('told', flush=True)
hvd.shutdown()
