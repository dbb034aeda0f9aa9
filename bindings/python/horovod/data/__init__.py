# SPDX-License-Identifier: Apache-2.0
"""Loading data beside the training."""
