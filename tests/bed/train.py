# SPDX-License-Identifier: Apache-2.0
"""A user's train.py, in the image `trainer` and in the user's directory: the example of that image,
which trains on real digits, for one pass."""
import os
import runpy
import sys

print(f'rank {os.environ["RANK"]} is on {os.uname().nodename}', flush=True)
sys.argv[1:] = ['--epochs', '1']
runpy.run_path('/examples/pytorch_mnist.py', run_name='__main__')
