"""The goodput of a training: how much of the time that it holds its machines it trains."""

NAME = "goodput.json"
"""The file of a ledger, beside the replicas' logs; also the artifact of the training's run."""
