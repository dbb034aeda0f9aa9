# SPDX-License-Identifier: Apache-2.0
raise ImportError('horovod.runner.driver is not offered by Reigen, whose launcher finds the '
                  'networks that connect the hosts by itself: use horovod.run(), or reigen run;'
                  ' reigen doctor -H HOSTS says what it finds.')
