"""The description of a training job: its fields, the rules over them, and how YAML is read."""
