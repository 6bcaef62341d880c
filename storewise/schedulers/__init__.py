"""Jobs of schedulers: which a run has, how they are asked for and cancelled."""
