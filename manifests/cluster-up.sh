#!/bin/sh
# A cluster in Docker with all that a pipeline needs; again, it brings an existing one up to date.
# Each step can be given by hand. Needs docker, kind and kubectl, and the images of make images.
set -eu
cd "$(dirname "$0")"
. ./versions.env
# 1. One node. The policies of the network need kindnet of kind v0.24 or later.
kind get clusters | grep -qx trireme || kind create cluster --name trireme --image "$KIND_NODE"
kubectl config use-context kind-trireme

# 2. Volumes that several pods share: on one node they are directories.
kubectl --namespace local-path-storage patch configmap local-path-config --type merge \
    --patch '{"data": {"config.json": "{\"sharedFileSystemPath\": \"/var/local-path-provisioner\"}"}}'
kubectl --namespace local-path-storage rollout restart deployment local-path-provisioner

# 3. What runs training jobs, and what runs pipelines.
kubectl apply --server-side --kustomize \
    "github.com/kubeflow/training-operator/manifests/overlays/standalone?ref=$TRAINING_OPERATOR"
kubectl apply --filename operator/init-container.yaml
kubectl --namespace kubeflow patch deployment training-operator --patch-file operator/patch.yaml
kubectl get namespace argo >/dev/null 2>&1 || kubectl create namespace argo
kubectl apply --server-side --namespace argo --filename \
    "https://github.com/argoproj/argo-workflows/releases/download/$ARGO_WORKFLOWS/install.yaml"

# 4. Our images, which no registry has yet.
kubectl kustomize overlays/kind | sed -n 's/.*image: \(ghcr.io\/trireme\/.*\)/\1/p' | sort -u |
    while read -r image; do kind load docker-image --name trireme "$image"; done
for name in base pytorch tensorflow; do
    kind load docker-image --name trireme "ghcr.io/trireme/$name:0.1.0"
done

# 5. Our manifests. Secrets need their namespaces, and what is started needs the Secrets.
kubectl apply --server-side --force-conflicts --kustomize overlays/kind
./secrets.sh
kubectl --namespace argo rollout restart deployment workflow-controller

# 6. Until all of it is there.
kubectl --namespace kubeflow rollout status deployment training-operator --timeout 10m
kubectl --namespace argo rollout status deployment workflow-controller --timeout 10m
kubectl --namespace trireme-tracking rollout status statefulset postgresql --timeout 10m
kubectl --namespace trireme-tracking rollout status deployment mlflow --timeout 10m
echo "MLflow: kubectl --namespace trireme-tracking port-forward service/mlflow 5000"
