"""The graphs: each pipeline is written once, in kfp's DSL."""
