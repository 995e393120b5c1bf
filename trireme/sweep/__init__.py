"""Search for hyper-parameters: plan, run and choose trials."""
