"""A Kubernetes cluster: requests that are answered in the end, watches, logs, what ails a pod."""
