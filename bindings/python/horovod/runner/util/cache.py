# SPDX-License-Identifier: Apache-2.0
raise ImportError('horovod.runner.util.cache is not offered by Reigen, which keeps nothing from'
                  ' one start to the next: functools.lru_cache remembers what a function of '
                  'yours returned.')
