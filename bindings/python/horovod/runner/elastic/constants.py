# SPDX-License-Identifier: Apache-2.0
"""What elastic jobs share."""

RESET_LIMIT_EXCEEDED_MESSAGE = ('Horovod was shutdown because number of resets during elastic job '
                                'exceeded limit: {}')
