"""A compiled pipeline, read once and checked once: every command and every target works on this.

``reading`` makes a ``Graph`` of a kfp pipeline or of YAML that kfp compiled, ``model`` says what
is in it, ``changing`` makes another one of it, ``writing`` writes it as YAML again. No other module
of Trireme knows kfp's messages.
"""
