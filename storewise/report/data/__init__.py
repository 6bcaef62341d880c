"""The data that the page embeds: rows and evidence."""
