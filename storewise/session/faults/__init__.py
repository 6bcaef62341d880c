"""What is done to servers on purpose: killed, restarted, slowed."""
