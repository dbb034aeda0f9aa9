# SPDX-License-Identifier: Apache-2.0
raise ImportError('The estimators of horovod.spark.lightning come in a later version of Reigen. '
                  'Until then horovod.spark.run() calls a training function of yours on the '
                  'executors.')
