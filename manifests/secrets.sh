#!/bin/sh
# Makes the Secrets that the manifests name, with new passwords; those that are there stay.
#   manifests/secrets.sh [NAMESPACE OF RUNS]
# For MLflow's artifacts it takes ARTIFACTS (s3://BUCKET/) and, as far as they are needed,
# MLFLOW_S3_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY from the environment; without
# ARTIFACTS the MinIO that the overlay kind brings.
# No password is ever an argument of a process.
set -eu
runs=${1:-trireme}
tracking=trireme-tracking

if ! kubectl get namespace $tracking >/dev/null; then
    echo "there is no namespace $tracking: apply an overlay that brings MLflow first, or name an MLflow" \
        "of your own in a Secret trireme-mlflow, as docs/how-to/mlflow-server.md says" >&2
    exit 2
fi

password() {
    head -c 24 /dev/urandom | base64 | tr '+/' '-_'
}

# Reads lines KEY=VALUE.
secret() {
    kubectl --namespace "$1" create secret generic "$2" --from-env-file=/dev/stdin
}

missing() {
    [ -z "$(kubectl --namespace "$1" get secret "$2" --ignore-not-found --output name)" ]
}

has_minio() {
    [ -n "$(kubectl --namespace $tracking get service minio --ignore-not-found --output name)" ]
}

if missing $tracking mlflow-artifacts && [ -z "${ARTIFACTS:-}" ] && ! has_minio; then
    echo "MLflow has nowhere to keep artifacts: give ARTIFACTS=s3://BUCKET/ with MLFLOW_S3_ENDPOINT_URL," \
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment; only the overlay kind brings a store" >&2
    exit 2
fi

if missing $tracking mlflow-database; then
    printf 'password=%s\n' "$(password)" | secret $tracking mlflow-database
fi
if missing $tracking mlflow-artifacts; then
    if [ -z "${ARTIFACTS:-}" ]; then
        ARTIFACTS=s3://mlflow/ MLFLOW_S3_ENDPOINT_URL=http://minio:9000
        AWS_ACCESS_KEY_ID=mlflow AWS_SECRET_ACCESS_KEY=$(password)
    fi
    for name in ARTIFACTS MLFLOW_S3_ENDPOINT_URL AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY; do
        eval "value=\${$name:-}"
        if [ -n "$value" ]; then
            printf '%s=%s\n' "$name" "$value"
        fi
    done | secret $tracking mlflow-artifacts
fi
if missing $tracking mlflow-auth; then
    printf '%s=%s\n' \
        MLFLOW_AUTH_ADMIN_USERNAME admin \
        MLFLOW_AUTH_ADMIN_PASSWORD "$(password)" \
        MLFLOW_FLASK_SERVER_SECRET_KEY "$(password)" |
        secret $tracking mlflow-auth
fi
# MLflow's administrator is also who runs record as.
if missing "$runs" trireme-mlflow; then
    admin=$(kubectl --namespace $tracking get secret mlflow-auth \
        --output 'jsonpath={.data.MLFLOW_AUTH_ADMIN_PASSWORD}' | base64 --decode)
    printf '%s=%s\n' \
        MLFLOW_TRACKING_URI "http://mlflow.$tracking:5000" \
        MLFLOW_TRACKING_USERNAME admin \
        MLFLOW_TRACKING_PASSWORD "$admin" |
        secret "$runs" trireme-mlflow
fi
