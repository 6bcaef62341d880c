from support.session import run

__all__ = ["run"]
