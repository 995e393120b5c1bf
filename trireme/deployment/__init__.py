"""Deploy a registered model, and put back what was there when that fails."""
