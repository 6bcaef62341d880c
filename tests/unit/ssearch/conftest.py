from support.inputs.manifests import files, with_bad

__all__ = ["files", "with_bad"]
