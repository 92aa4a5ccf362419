# SPDX-License-Identifier: Apache-2.0
"""MLflow's own modules, imported without the warnings that MLflow raises about itself."""

import warnings

__all__ = ["mlflow", "scoring_server"]

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import mlflow.pyfunc
    from mlflow.pyfunc import scoring_server
