"""What the page embeds: rows, filters, evidence."""
