# SPDX-License-Identifier: Apache-2.0
"""What the estimators of all frameworks share: stores, backends, parameters and data."""
try:
    import numpy  # noqa: F401
    import pyarrow  # noqa: F401
    import pyspark  # noqa: F401
except ImportError as error:
    raise ImportError('The estimators of Reigen\'s horovod.spark need Spark\'s Python package, '
                      'numpy and Arrow\'s: pip install pyspark numpy pyarrow') from error
