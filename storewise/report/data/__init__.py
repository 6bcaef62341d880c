"""What the page embeds: rows and evidence."""
