"""Shown: how values look at a prompt and in a notebook, in one line or one small table."""

from abc import ABC, abstractmethod
from html import escape


class Shown(ABC):
    """A value that says in a few pairs of words what it is; use it with `@dataclass(repr=False)`."""

    @abstractmethod
    def facts(self) -> dict[str, object]:
        """What there is to know at a glance, in order."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}: {value}' for name, value in self.facts().items())})"

    def _repr_html_(self) -> str:
        rows = (
            f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in self.facts().items()
        )
        return f"<table><caption>{type(self).__name__}</caption>{''.join(rows)}</table>"
