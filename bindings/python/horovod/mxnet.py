# SPDX-License-Identifier: Apache-2.0
raise ImportError('horovod.mxnet is not offered by Reigen: MXNet is archived, and its last release '
                  'runs on no current Python. Horovod 0.28.1 is the last one that carries it.')
