"""Text that people write and read: YAML, JSON, units, and what a terminal may show."""
