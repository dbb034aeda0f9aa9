# SPDX-License-Identifier: Apache-2.0
"""What elastic jobs share."""

RESET_LIMIT_EXCEEDED_MESSAGE = 'the elastic job was reset more often than its limit allows: {}'
