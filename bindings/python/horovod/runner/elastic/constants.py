# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs have no constants of their own; Horovod's empty module is kept for its importers."""
