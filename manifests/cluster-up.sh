#!/bin/sh
# A cluster in Docker with all that a pipeline needs, and a run of the default pipeline; again, it
# brings an existing one up to date. Each step can be given by hand. Needs docker, kind v0.30 or later,
# kubectl and Python.
set -eu
cd "$(dirname "$0")"
. ./versions.env
for program in docker kind kubectl python3; do
    command -v $program >/dev/null || { echo "error: there is no $program" >&2; exit 2; }
done

# 1. One node. The policies of the network need its kindnet.
kind get clusters | grep -qx trireme || kind create cluster --name trireme --image "$KIND_NODE"
kubectl config use-context kind-trireme

# 2. Volumes that several pods share: on one node they are directories.
kubectl --namespace local-path-storage patch configmap local-path-config --type merge \
    --patch '{"data": {"config.json": "{\"sharedFileSystemPath\": \"/var/local-path-provisioner\"}"}}'
kubectl --namespace local-path-storage rollout restart deployment local-path-provisioner

# 3. What runs training jobs, and what runs pipelines.
#    A CRD cannot lose the version that its objects are kept in, so one of the training operator's own
#    MPIJobs goes first.
if [ "$(kubectl get customresourcedefinition mpijobs.kubeflow.org --ignore-not-found \
    --output 'jsonpath={.spec.versions[*].name}')" = v1 ]; then
    kubectl delete customresourcedefinition mpijobs.kubeflow.org
fi
kubectl apply --server-side --force-conflicts --kustomize operator
kubectl apply --server-side --kustomize \
    "github.com/kubeflow/mpi-operator/manifests/overlays/standalone?ref=$MPI_OPERATOR"
kubectl get namespace argo >/dev/null 2>&1 || kubectl create namespace argo
kubectl apply --server-side --namespace argo --filename \
    "https://github.com/argoproj/argo-workflows/releases/download/$ARGO_WORKFLOWS/install.yaml"
#    Its controller looks at a workflow every 10 s by default, and each step has waited for two looks.
kubectl --namespace argo set env deployment/workflow-controller DEFAULT_REQUEUE_TIME=2s

# 4. Our images, which no registry has yet: all that the manifests name.
images=$(kubectl kustomize overlays/kind | sed -n 's|.*image: \(ghcr.io/trireme/.*\)|\1|p' | sort -u)
# shellcheck disable=SC2046
python3 ../images/build.py --builder docker $(echo "$images" | sed 's|.*/\(.*\):.*|\1|')
for image in $images; do kind load docker-image --name trireme "$image"; done

# 5. Our manifests. Secrets need their namespaces, and what is started needs the Secrets.
kubectl wait --for condition=Established --timeout 2m \
    crd/workflowtemplates.argoproj.io crd/cronworkflows.argoproj.io
kubectl apply --server-side --force-conflicts --kustomize overlays/kind
./secrets.sh
kubectl --namespace argo rollout restart deployment workflow-controller

# 6. Until all of it is there.
kubectl --namespace kubeflow rollout status deployment training-operator --timeout 10m
kubectl --namespace mpi-operator rollout status deployment mpi-operator --timeout 10m
kubectl --namespace argo rollout status deployment workflow-controller --timeout 10m
kubectl --namespace trireme-tracking rollout status statefulset postgresql --timeout 10m
kubectl --namespace trireme-tracking rollout status deployment minio --timeout 10m
kubectl --namespace trireme-tracking rollout status deployment mlflow --timeout 10m

# 7. A run of the default pipeline.
run=$(kubectl create --output name --filename - <<END
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata:
  namespace: trireme
  generateName: pytorch-training-
spec:
  workflowTemplateRef: {name: pytorch-training}
END
)
kubectl --namespace trireme wait --for condition=Completed --timeout 30m "$run"
kubectl --namespace trireme get "$run"
echo "MLflow: kubectl --namespace trireme-tracking port-forward service/mlflow 5000"
[ "$(kubectl --namespace trireme get "$run" --output 'jsonpath={.status.phase}')" = Succeeded ]
