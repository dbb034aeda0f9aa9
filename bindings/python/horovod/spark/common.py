# SPDX-License-Identifier: Apache-2.0
raise ImportError('The stores and backends of horovod.spark.common come with the estimators, in a '
                  'later version of Reigen. Until then horovod.spark.run() calls a training '
                  'function of yours on the executors.')
