# SPDX-License-Identifier: Apache-2.0
raise ImportError('horovod.ray is not part of this version of Reigen, which carries PyTorch '
                  'only (horovod.torch).')
