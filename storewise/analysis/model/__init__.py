"""The data model of the analysis: results, tables and column names."""
