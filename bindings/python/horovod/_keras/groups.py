# SPDX-License-Identifier: Apache-2.0
"""Arguments of the optimizers that need no framework."""
import warnings
from typing import Any


def check_groups(num_groups: int, groups: Any):
    """`groups` with the old `num_groups` taken into account: None, a positive int, or lists of
    variables. ValueError for anything else."""
    if num_groups:
        warnings.warn('Parameter `num_groups` has been replaced by `groups` and will be removed.',
                      DeprecationWarning, stacklevel=3)
        groups = num_groups if groups is None else groups
    if groups is None:
        return None
    if isinstance(groups, bool) or not isinstance(groups, (int, list, tuple)) or (
            isinstance(groups, int) and groups < 0) or (
            not isinstance(groups, int) and not all(isinstance(g, (list, tuple)) for g in groups)):
        raise ValueError('groups should be a non-negative integer or a list of list of '
                         'tf.Variable.')
    return groups or None


def local_weights(local_layers: Any) -> list:
    """The trainable weights of a layer or of several."""
    if local_layers is None:
        return []
    if not isinstance(local_layers, (list, tuple, set)):
        local_layers = [local_layers]
    if not all(hasattr(layer, 'trainable_weights') for layer in local_layers):
        raise ValueError('All local layers must be of tf.keras.layers.Layer type.')
    return [w for layer in local_layers for w in layer.trainable_weights]
