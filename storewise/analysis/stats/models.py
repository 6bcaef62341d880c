"""The parts of statsmodels that are used.

It imports polars where that is installed: a third of a second, and polars takes SIGINT in a way in
which Ctrl-C no longer ends what waits. So polars is hidden meanwhile; nothing here needs it.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import cast

#: None stands for a module that cannot be imported.
_HIDDEN = "polars" not in sys.modules
if _HIDDEN:
    sys.modules["polars"] = cast(ModuleType, None)
try:
    from statsmodels.regression.linear_model import OLS
    from statsmodels.stats.anova import anova_lm
    from statsmodels.stats.diagnostic import het_breuschpagan
finally:
    if _HIDDEN:
        del sys.modules["polars"]

__all__ = ["OLS", "anova_lm", "het_breuschpagan"]
