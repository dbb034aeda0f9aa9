# SPDX-License-Identifier: Apache-2.0
"""OpenPAI's own example for Horovod: its job file as it is (pai/horovod-job.json, of
examples/horovod-with-azure-rdma-intel-mpi, MIT licence), and what the image of its user has."""
import os
from pathlib import Path

import mpis
from built import ROOT

ORIGINAL = Path(__file__).parent / 'pai/horovod-job.json'
IMAGE = 'your/images/url'
WORDS = 'code\u00d4\u00ba\u00c5'
#: The program that the file's command names. It is in the folder PLACE of the image.
PLACE = '/opt/image'
CODE = f'''#!/bin/bash
[ "$*" = '{WORDS}' ] || {{ echo "unknown words: $*" >&2; exit 2; }}
exec mpirun -hosts master-0,worker-0 -n 2 -ppn 1 sh -c 'echo "rank started at $(date +%s.%N)"
    echo "rank on $(uname -n)"
    [ -n "$TRAIN" ] || exec sleep 0.5
    exec /usr/bin/python {ROOT}/examples/pytorch_mnist.py --epochs 1 --batch-size 128'
'''


def folders():
    """Folders of this machine that stand for parts of the image."""
    return sorted({str(ROOT), os.path.realpath(ROOT), str(mpis.prefix('impi').resolve())})


def environment(**more):
    """The image's variables."""
    prefix = mpis.prefix('impi').resolve()
    return {**mpis.environment('impi'), 'I_MPI_FABRICS': 'shm:ofi', 'FI_PROVIDER': 'tcp',
            'PATH': f'{PLACE}:{prefix}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin', **more}
