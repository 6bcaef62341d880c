from support.s3.memory import s3

__all__ = ["s3"]
