# SPDX-License-Identifier: Apache-2.0
"""`python -m horovod.runner` is horovodrun."""
from horovod.runner.launch import run_commandline

run_commandline()
