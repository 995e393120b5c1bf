"""The launcher: create, follow and clean up a training job on a Kubernetes cluster."""
