"""What a study will take: time, hosts, money."""
