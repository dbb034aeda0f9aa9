# SPDX-License-Identifier: Apache-2.0
raise ImportError('horovod.runner.common.service is not offered by Reigen: its services '
                  "exchange pickled objects between a driver and its tasks. Reigen's launcher "
                  'starts ranks without them: use horovod.run(), or reigen run.')
