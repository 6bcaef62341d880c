"""What several tests use: servers, stand-ins, inputs, workspaces."""
