from support.slurm.cluster import slurm
from support.slurm.workspace import place

__all__ = ["place", "slurm"]
