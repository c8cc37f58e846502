"""Rigorous bounds of a network's values on boxes and balls: intervals, back-substitution, and ascent to the best lines.

The package is a function as well: `ginnacer_verify.bounds(model, box)` is `call.bounds`.
"""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """`gv.bounds` is this package as soon as anybody imports a part of it; so it has to be what people call, too."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from ginnacer_verify.bounds.call import bounds

        return bounds(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
