# SPDX-License-Identifier: Apache-2.0
"""What the estimators of all frameworks share: stores, backends, parameters and data."""
