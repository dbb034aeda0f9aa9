# SPDX-License-Identifier: Apache-2.0
"""A script of somebody who has GPUs, on those of gpu.py. Arguments: its path and its arguments."""
import runpy
import sys

import gpu  # before the script

sys.argv = sys.argv[1:]
assert gpu.torch.cuda.is_available()
try:
    runpy.run_path(sys.argv[0], run_name='__main__')
except SystemExit as end:
    if end.code:
        raise
assert gpu.copies > 5, 'the script has not used the GPU'
